// SPDX-License-Identifier: Apache-2.0

package compat

import (
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/socket-vmnet2/socket_vmnet2/internal/network"
)

// legacyEvents are the messages that socket_vmnet logs too, with its text. A name in braces stands for that attribute's
// value; other attributes are left out, so that the line is exactly what scripts know. A record that lacks one of the named
// attributes is printed like any other.
var legacyEvents = map[string]string{
	"accepted a connection":     "Accepted a connection (fd {fd})",
	"connection closed by peer": "Connection closed by peer (fd {fd})",
	"closing a connection":      "Closing a connection (fd {fd})",
	"created pidfile":           `Created pidfile "{path}" for process {pid}`,
	"removed pidfile":           `Removed pidfile "{path}" for process {pid}`,
	"received signal":           "Received signal {signal}",
	"initializing network":      "Initializing vmnet.framework (mode {mode})",
	"using network interface":   `Using network interface "{name}"`,
	"interface parameter":       "* {key}: {value}",
	"opening socket":            `Opening socket "{path}" (for UNIX group "{group}")`,
	"shutting down":             "shutting down with rc={rc}",
}

// modeNumbers are the values of vmnet's operating_modes_t, by which socket_vmnet's log names the mode.
var modeNumbers = map[string]string{
	string(network.ModeHost):    "1000",
	string(network.ModeShared):  "1001",
	string(network.ModeBridged): "1002",
}

// legacyText returns socket_vmnet's text for a record, if it has one.
func legacyText(message string, attrs []attr) (string, bool) {
	rest, ok := legacyEvents[message]
	if !ok {
		return "", false
	}
	var b strings.Builder
	for {
		head, tail, more := strings.Cut(rest, "{")
		b.WriteString(head)
		if !more {
			return b.String(), true
		}
		key, after, _ := strings.Cut(tail, "}")
		v, ok := lookup(attrs, key)
		if !ok {
			return "", false
		}
		if n, ok := modeNumbers[v]; ok && key == "mode" {
			v = n
		}
		b.WriteString(v)
		rest = after
	}
}

// lookup finds the last attribute with this key: later ones override those of a sub-logger.
func lookup(attrs []attr, key string) (string, bool) {
	for _, a := range slices.Backward(attrs) {
		if a.key == key {
			return a.value, true
		}
	}
	return "", false
}

// SignalText is what C's strsignal says of s on this system: "Terminated", on macOS "Terminated: 15".
func SignalText(s os.Signal) string {
	sig, ok := s.(syscall.Signal)
	if !ok {
		return s.String()
	}
	text := sig.String()
	if strings.HasPrefix(text, "signal ") {
		return "Unknown signal " + strconv.Itoa(int(sig))
	}
	text = strings.ToUpper(text[:1]) + text[1:]
	if runtime.GOOS == "darwin" {
		text += ": " + strconv.Itoa(int(sig))
	}
	return text
}
