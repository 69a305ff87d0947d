// SPDX-License-Identifier: Apache-2.0

package pages

import (
	"cmp"
	"slices"
	"strings"

	"github.com/socket-vmnet2/socket_vmnet2/test/rounds"

	"github.com/socket-vmnet2/socket_vmnet2/test/report/internal/draw"
	"github.com/socket-vmnet2/socket_vmnet2/test/report/internal/figures"
)

// oldNote stands below every table and in every plot that has the old way.
const oldNote = "The old way is our own flooding stand-in for socket_vmnet, written in C: the real one does not run on Linux."

// A kind is how a relay is called and drawn.
type kind struct {
	relay, label string
	style        draw.Style
}

// kinds are in the order of tables.
var kinds = []kind{
	{rounds.Daemon, "socket_vmnet2", draw.Style{Color: draw.Blue}},
	{rounds.DaemonMac, "socket_vmnet2 on macOS", draw.Style{Color: draw.Blue}},
	{rounds.DaemonLocal, "on simulated vmnet, local switching", draw.Style{Color: draw.Green, Shape: 4}},
	{rounds.DaemonVmnet, "on simulated vmnet", draw.Style{Color: draw.Sky, Shape: 1}},
	{rounds.VmnetC, "C on simulated vmnet", draw.Style{Color: draw.Orange, Dashed: true, Shape: 2}},
	{rounds.Floor, "floor (C)", draw.Style{Color: draw.Gray, Dashed: true, Shape: 3}},
	{rounds.Blind, "blind copy (C)", draw.Style{Color: draw.Purple, Dashed: true, Shape: 5}},
	{rounds.Direct, "no relay (veth)", draw.Style{Color: draw.Purple, Dashed: true, Shape: 5}},
	{rounds.Gvproxy, "gvproxy", draw.Style{Color: draw.Green, Shape: 2}},
	{rounds.SocketVmnet, "socket_vmnet", draw.Style{Color: draw.Red, Shape: 1}},
	{rounds.Old, "old way (our stand-in)", draw.Style{Color: draw.Red, Dashed: true, Shape: 4}},
}

// kindOf is how a relay is called. One that is not known here is called as it calls itself.
func kindOf(relay string) kind {
	if i := slices.IndexFunc(kinds, func(k kind) bool { return k.relay == relay }); i >= 0 {
		return kinds[i]
	}
	return kind{relay, relay, draw.Style{Color: draw.Green, Shape: 3}}
}

// ours tells whether a relay is the daemon, with whatever network. Only its figures are divided by others'.
func ours(relay string) bool { return strings.HasPrefix(relay, rounds.Daemon) }

// order is the place of a relay in tables.
func order(relay string) int {
	i := slices.IndexFunc(kinds, func(k kind) bool { return k.relay == relay })
	if i < 0 {
		return len(kinds)
	}
	return i
}

// senderLabels are how the kinds of senders are called.
var senderLabels = map[string]string{
	"single": "a frame a write", "batch": "batches", "tcp": "TCP", figures.TCPBatch: "TCP, VMM in batches",
	figures.TCPOffload: "TCP, VMM cuts and joins",
}

func senderLabel(sender string) string { return cmp.Or(senderLabels[sender], sender) }

// loaded tells whether a set-up measures round trips beside a bulk transfer.
func loaded(k figures.Key) bool { return k.Active > 2 }

// loadLabel tells what else goes on while round trips are measured.
func loadLabel(k figures.Key) string {
	switch {
	case !strings.Contains(k.Series, "latency"):
		return ""
	case loaded(k):
		return "beside a bulk transfer"
	}
	return "idle"
}

// escape keeps what comes from files from being taken for Markdown or HTML.
func escape(s string) string {
	return strings.NewReplacer("|", `\|`, "<", "&lt;", ">", "&gt;", "&", "&amp;", "\n", " ", "`", "'", "*", `\*`, "[", `\[`).Replace(s)
}

// code shows text that comes from a file as code.
func code(s string) string {
	return "`" + strings.NewReplacer("`", "'", "\n", " ", "|", `\|`).Replace(s) + "`"
}
