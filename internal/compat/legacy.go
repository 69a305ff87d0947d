// SPDX-License-Identifier: Apache-2.0

package compat

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"os"
	"regexp"
	"runtime"
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

// braces are the names of attributes in legacyEvents.
var braces = regexp.MustCompile(`{\w+}`)

// legacyText returns socket_vmnet's text for a record of a logger with attrs, if it has one.
func legacyText(r slog.Record, attrs []slog.Attr) (text string, ok bool) {
	if text, ok = legacyEvents[r.Message]; !ok {
		return "", false
	}
	values := map[string]string{} // those of the record go before the logger's
	add := func(a slog.Attr) bool {
		a.Value = a.Value.Resolve()
		values["{"+a.Key+"}"] = readable(nil, a).Value.String()
		return true
	}
	for _, a := range attrs {
		add(a)
	}
	r.Attrs(add)
	text = braces.ReplaceAllStringFunc(text, func(key string) string {
		v, there := values[key]
		ok = ok && there
		if n, known := modeNumbers[v]; known && key == "{mode}" {
			return n
		}
		return v
	})
	return text, ok
}

// SignalText is what C's strsignal says of s on this system: "Terminated", on macOS "Terminated: 15".
func SignalText(s os.Signal) string {
	text := capital(s.String())
	if sig, ok := s.(syscall.Signal); ok && runtime.GOOS == "darwin" {
		text += ": " + strconv.Itoa(int(sig))
	}
	return text
}

// A textError is a failure to start that socket_vmnet words exactly so. Programs around it match on the lines.
type textError struct {
	Lines []string // what is logged, without the level
	Text  string   // what socket_vmnet2 logs; empty: the first line
	Err   error    // the cause, may be nil
}

// Error is the first line.
func (e *textError) Error() string { return e.Lines[0] }

// Unwrap is the cause.
func (e *textError) Unwrap() error { return e.Err }

// advise adds what to do, unless that is empty: below the lines of socket_vmnet, for socket_vmnet2 in one line.
func (e *textError) advise(what string) *textError {
	if what != "" {
		e.Text, e.Lines = e.Lines[0]+": "+what, append(e.Lines, what)
	}
	return e
}

// newTextError makes the line "what: <strerror>".
func newTextError(what string, err error) *textError {
	return &textError{Lines: []string{what + ": " + Strerror(err)}, Err: err}
}

// LogError logs err at level Error as socket_vmnet2: in one line.
func LogError(log *slog.Logger, err error) { New.LogError(log, err) }

// LogError logs err at level Error: a textError as p words it, anything else as one line with C's errno text.
func (p Personality) LogError(log *slog.Logger, err error) {
	for _, l := range p.lines(err) {
		log.LogAttrs(context.Background(), slog.LevelError, l)
	}
}

// lines are what p tells of err.
func (p Personality) lines(err error) []string {
	te, ok := errors.AsType[*textError](err)
	switch {
	case !ok:
		return []string{message(err)}
	case p == Old:
		return te.Lines
	}
	return []string{cmp.Or(te.Text, te.Lines[0])}
}

// Strerror is what C's strerror says of the errno inside err: "Permission denied". Programs around socket_vmnet match on such texts. An
// error without an errno is returned as Go words it.
func Strerror(err error) string {
	if no, ok := errors.AsType[syscall.Errno](err); ok {
		return capital(no.Error())
	}
	return err.Error()
}

// message is err's whole text, with an errno at its end worded as in C: "open /x: Permission denied".
func message(err error) string {
	if no, ok := errors.AsType[syscall.Errno](err); ok {
		if head, ok := strings.CutSuffix(err.Error(), no.Error()); ok {
			return head + capital(no.Error())
		}
	}
	return err.Error()
}

// capital turns Go's text of an errno or a signal back into the system's: Go's tables were made from C's with the first letter put in
// lower case where the second one is.
func capital(text string) string { return strings.ToUpper(text[:1]) + text[1:] }
