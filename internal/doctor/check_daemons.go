// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/internal/migrate"
	"github.com/socket-vmnet2/socket_vmnet2/internal/shell"
	"github.com/socket-vmnet2/socket_vmnet2/internal/status"
)

// errPermission is what the system says to users who may not.
var errPermission = fs.ErrPermission

// checkDaemons tells what runs, and what that says of its health.
func checkDaemons(x *exam) {
	if x.staged() && !x.live() {
		x.skip(false, "running daemons: on a staged system none runs")
		return
	}
	serving := x.serving()
	for _, p := range serving {
		if p.Status == nil {
			x.silent(p)
			continue
		}
		x.daemon(p)
	}
	switch {
	case len(serving) > 0:
	case len(x.Sockets) > 0:
		x.find(status.Warning, fmt.Sprintf("no daemon serves %s, as far as the processes and its control socket tell", list(x.Sockets)), nil,
			"start it, or see which daemons run:", command("socket_vmnet2 status"))
	default:
		x.find(status.Notice, "no daemon runs", nil, "start one, as a job that is started at every boot:", command("sudo socket_vmnet2 service install"),
			"or, to look at it first:", command("socket_vmnet2 try"))
	}
}

// daemon tells of a daemon that describes itself.
func (x *exam) daemon(p *place) {
	st := p.Status
	data := map[string]any{"socket": p.Socket, "pid": st.Daemon.PID, "version": st.Daemon.Version}
	x.find(OK, fmt.Sprintf("the daemon at %s is socket_vmnet2 %s (process %d): %s, %s mode, %s, %s",
		p.Socket, st.Daemon.Version, st.Daemon.PID, st.Network.Backend, st.Network.Mode, subnetText(st), count(len(st.Clients), "client")), data)
	for _, h := range st.Health {
		if h.Code == status.SubnetOverlap && x.Table != nil || h.Code == status.StateNotKept {
			continue // there are checks of our own
		}
		severity := h.Severity
		if rank(severity) < 0 {
			severity = status.Notice
		}
		x.find(severity, fmt.Sprintf("the daemon at %s says: %s", p.Socket, h.Text), map[string]any{"socket": p.Socket, "code": h.Code}, h.Fix...)
	}
	x.versions(p)
}

func subnetText(st *status.Status) string {
	if st.Network.Subnet.IsValid() {
		return st.Network.Subnet.String()
	}
	return "no subnet of its own"
}

// versions compares what runs with what an upgrade would start.
func (x *exam) versions(p *place) {
	st := p.Status
	for _, h := range st.Health {
		if h.Code == status.ProgramReplaced {
			return // it says so itself
		}
	}
	installed := ""
	if migrate.SamePath(st.Daemon.Program, x.Program) {
		installed = x.Version
	}
	for _, in := range x.plan.Installs {
		if migrate.SamePath(in.Program, st.Daemon.Program) || migrate.SamePath(in.Links, st.Daemon.Program) {
			installed = in.Version
			if !in.Ours {
				x.find(status.Notice, fmt.Sprintf("the daemon at %s is socket_vmnet2, and the program at its path, %s, is another one now", p.Socket, in.Program),
					map[string]any{"socket": p.Socket}, "it becomes that one at its next start; if that is not wanted:", command("sudo socket_vmnet2 install"))
				return
			}
		}
	}
	if installed == "" || installed == st.Daemon.Version {
		return
	}
	x.find(status.Notice, fmt.Sprintf("the daemon at %s is %s, and %s is %s now", p.Socket, st.Daemon.Version, st.Daemon.Program, installed),
		map[string]any{"socket": p.Socket, "running": st.Daemon.Version, "installed": installed},
		"have it go on as the new one; no client is disconnected:", command("sudo socket_vmnet2 upgrade "+shell.Quote(p.Socket)))
}

// silent tells of a daemon that does not describe itself.
func (x *exam) silent(p *place) {
	who := fmt.Sprintf("the daemon at %s (process %d)", p.Socket, p.Daemon.PID)
	data := map[string]any{"socket": p.Socket, "pid": p.Daemon.PID}
	restart := []string{"start it again as the program that is installed; clients that do not reconnect lose their network:", command("sudo socket_vmnet2 service restart")}
	switch err := p.AskErr; {
	case !p.Daemon.Ours:
		x.find(OK, who+" is socket_vmnet: it can tell nothing of itself", data)
	case err == nil:
		x.skip(false, "%s was not asked", who)
	case errors.Is(err, errPermission):
		x.skip(true, "%s: its control socket is for others", who)
	case absent(err):
		x.find(status.Notice, who+" has no control socket: status and upgrade do not work", data,
			"see its log; it makes none with --runtime-dir=none, and none beside a socket whose directory is neither root's nor its own:",
			"give it a directory with --runtime-dir=DIR")
	case errors.Is(err, syscall.ECONNREFUSED):
		x.find(status.Warning, who+" does not listen at its control socket", data, restart...)
	case errors.Is(err, errOlder):
		x.find(status.Notice, who+": "+err.Error(), data,
			"have it go on as the installed program; no client is disconnected:", command("sudo socket_vmnet2 upgrade "+shell.Quote(p.Socket)))
	case errors.Is(err, context.DeadlineExceeded):
		x.find(status.Error, fmt.Sprintf("%s gave no answer within %v", who, askTime), data, append([]string{"see its log."}, restart...)...)
	default:
		x.find(status.Warning, fmt.Sprintf("%s: %v", who, err), data, restart...)
	}
}

// checkStale looks for sockets and pidfiles of daemons that are gone.
func checkStale(x *exam) {
	for _, p := range x.places {
		x.staleSocket(p)
	}
	for file, socket := range x.pidfiles() {
		x.stalePidfile(file, socket)
	}
	if len(x.findings) == 0 {
		x.ok("no socket and no pidfile is left over")
	}
}

// staleSocket connects where nothing else tells that somebody serves.
func (x *exam) staleSocket(p *place) {
	if !p.exists || p.Status != nil {
		return
	}
	remove := []string{"remove it, or start the daemon, which takes its place:", command("sudo rm " + shell.Quote(p.Socket))}
	data := map[string]any{"socket": p.Socket}
	if p.node.Type() != fs.ModeSocket {
		if len(p.By) > 0 && !p.node.IsDir() {
			x.find(status.Error, fmt.Sprintf("%s, where %s wants a socket, is no socket (%s)", p.Socket, list(p.By), p.node.Type()), data,
				"look at it, and move it away: the daemon never removes what is no socket", command("ls -l "+shell.Quote(p.Socket)))
		}
		return
	}
	if x.Dial == nil || x.listening(p) {
		return
	}
	ctx, cancel := context.WithTimeout(x.ctx, time.Second)
	defer cancel()
	c, err := x.Dial(ctx, "unix", x.real(p.Socket))
	switch {
	case err == nil:
		_ = c.Close()
	case errors.Is(err, syscall.ECONNREFUSED):
		x.find(status.Warning, fmt.Sprintf("%s is a socket that nobody listens at; programs that only look whether it is there take it for a daemon, as minikube does", p.Socket), data, remove...)
	case errors.Is(err, errPermission):
		x.skip(true, "whether somebody listens at %s", p.Socket)
	case errors.Is(err, syscall.EAGAIN), errors.Is(err, context.DeadlineExceeded), isTimeout(err):
		x.find(status.Error, fmt.Sprintf("the daemon at %s takes no connections: its queue is full", p.Socket), data, "see its log, and start it again")
	case absent(err):
	default:
		x.find(status.Warning, fmt.Sprintf("%s: %v", p.Socket, err), data)
	}
}

// listening tells without connecting whether somebody has a socket open: to connect could have a service manager start its
// daemon. Linux lists the sockets in /proc/net/unix, the path last; jobs of launchd may hold theirs while nothing runs.
func (x *exam) listening(p *place) bool {
	for _, j := range x.plan.Jobs {
		if migrate.SamePath(j.Socket, p.Socket) && j.State != notLoaded && j.State != "" {
			return true
		}
	}
	if x.GOOS != "linux" || x.staged() {
		return false
	}
	b, err := x.readFile("/proc/net/unix")
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(b)) {
		if strings.HasSuffix(line, " "+p.Socket+"\n") {
			return true
		}
	}
	return false
}

func isTimeout(err error) bool {
	t, ok := errors.AsType[net.Error](err)
	return ok && t.Timeout()
}

// pidfiles are those that are known, and the sockets of their daemons.
func (x *exam) pidfiles() map[string]string {
	all := map[string]string{}
	add := func(file, socket string) {
		if filepath.IsAbs(file) {
			all[file] = socket
		}
	}
	for _, d := range x.plan.Daemons {
		add(d.Pidfile, d.Socket)
	}
	for _, j := range x.plan.Jobs {
		add(j.Pidfile, j.Socket)
	}
	for _, n := range x.plan.Networks {
		add(n.Pidfile, n.Socket)
	}
	for _, p := range x.places {
		if p.Status != nil {
			add(p.Status.Daemon.Pidfile, p.Socket)
		}
		// Where a daemon is given none of the above, its neighbours' names are the usual ones.
		add(p.Socket+".pid", p.Socket)
	}
	return all
}

// stalePidfile compares a pidfile with the processes.
func (x *exam) stalePidfile(file, socket string) {
	b, err := x.readFile(file)
	if err != nil {
		if !absent(err) {
			x.skip(errors.Is(err, errPermission), "%s: %s", file, reason(err))
		}
		return
	}
	remove := []string{"remove it; a daemon that starts writes its own:", command("sudo rm " + shell.Quote(file))}
	data := map[string]any{"pidfile": file, "socket": socket}
	pid, err := strconv.Atoi(strings.TrimSpace(string(b[:min(len(b), 64)])))
	if err != nil || pid <= 0 {
		x.find(status.Warning, fmt.Sprintf("the pidfile %s has no process number in it", file), data, remove...)
		return
	}
	if !x.known {
		return
	}
	data["pid"] = pid
	p, runs := x.processes[pid]
	switch {
	case !runs:
		x.find(status.Notice, fmt.Sprintf("the pidfile %s names process %d, which does not run", file, pid), data, remove...)
	case !strings.HasPrefix(filepath.Base(p.Args[0]), "socket_vmnet") && !x.serves(pid):
		x.find(status.Warning, fmt.Sprintf("the pidfile %s names process %d, which is another program (%s): what stops the daemon by it, as Lima does, would end that", file, pid, p.Args[0]), data, remove...)
	default:
		x.find(OK, fmt.Sprintf("the pidfile %s names process %d, a daemon", file, pid), data)
	}
}

// serves tells whether a process says that it is a daemon, under whatever name.
func (x *exam) serves(pid int) bool {
	for _, p := range x.places {
		if p.Status != nil && p.Status.Daemon.PID == pid {
			return true
		}
	}
	return false
}
