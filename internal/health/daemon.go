// SPDX-License-Identifier: Apache-2.0

package health

import (
	"fmt"

	"github.com/socket-vmnet2/socket_vmnet2/internal/shell"
	"github.com/socket-vmnet2/socket_vmnet2/internal/status"
)

// refused finds that clients were turned away.
func refused(v *view) []finding {
	n, over, news := v.Totals.Refused, seconds(v.Daemon.Uptime), false
	if v.base != nil && v.base.refused <= n {
		n, over = n-v.base.refused, v.Now.Sub(v.base.at)
	}
	if n == 0 {
		return nil
	}
	news = over <= recent
	p := status.Problem{
		Code: status.ClientsRefused, Severity: status.Warning,
		Text: fmt.Sprintf("%d connections were refused in the last %s because there were %d clients, as many as --max-clients allows; there are %d now.",
			n, span(over), v.Daemon.MaxClients, len(v.Clients)),
		Fix: []string{
			"See who has the connections, and start the daemon with a larger --max-clients if that is right:",
			command("socket_vmnet2 clients %s", shell.Quote(v.Daemon.Socket)),
		},
	}
	if !news {
		p.Severity = status.Notice
	}
	return []finding{{Problem: p}}
}

// notKept finds that nothing is kept over a restart.
func notKept(v *view) []finding {
	if v.Daemon.StateFile != "" {
		return nil
	}
	return []finding{{Problem: status.Problem{
		Code: status.StateNotKept, Severity: status.Notice,
		Text: "Nothing is kept over a restart of the daemon: guests may get other addresses then.",
		Fix:  []string{"Start the daemon with --state-dir=DIR, a directory that belongs to its user; the log of its start says what was wrong with the usual one."},
	}}}
}

// replaced finds that another program is installed than the one that runs.
func replaced(v *view) []finding {
	p := status.Problem{Code: status.ProgramReplaced, Severity: status.Notice}
	switch {
	case v.programGone:
		p.Text = fmt.Sprintf("The program %s is gone; the daemon runs on, and cannot be upgraded or started again.", v.Daemon.Program)
		p.Fix = []string{"Install it again."}
	case !v.programReplaced.IsZero():
		p.Since = v.programReplaced.UTC()
		p.Text = fmt.Sprintf("The program %s was replaced after this daemon (%s) had started.", v.Daemon.Program, v.Daemon.Version)
		p.Fix = []string{"Have the daemon go on as the new one; no client is disconnected:", command("socket_vmnet2 upgrade %s", shell.Quote(v.Daemon.Socket))}
	default:
		return nil
	}
	return []finding{{Problem: p}}
}
