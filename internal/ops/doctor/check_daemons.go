// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/internal/ops/find"
	"github.com/socket-vmnet2/socket_vmnet2/internal/printable"
	"github.com/socket-vmnet2/socket_vmnet2/internal/status"
)

// checkDaemons tells what runs, and what that says of its health.
func checkDaemons(x *exam) {
	serving := x.serving()
	for _, k := range serving {
		if k.Status == nil {
			x.silent(k)
		} else {
			x.daemon(k)
		}
	}
	for _, s := range x.Servers {
		if s.Socket == "" && s.Mode != "" {
			x.skip(false, "process %d has a SOCKET that is relative to a directory which is not known here: sudo lsof -a -d cwd -p %d tells it", s.PID, s.PID)
		}
	}
	switch {
	case len(serving) > 0:
	case len(x.Named) > 0:
		x.report(status.Warning, []string{"start it, or see which daemons run:", "    socket_vmnet2 status"},
			"no daemon serves %s, as far as the processes and its control socket tell", printable.List(x.Named))
	default:
		x.report(status.Notice, []string{
			"start one, as a job that is started at every boot:", "    sudo socket_vmnet2 service install", "or, to look at it first:", "    socket_vmnet2 try",
		}, "no daemon runs")
	}
}

// daemon tells of a daemon that describes itself.
func (x *exam) daemon(k *socket) {
	d, n := k.Status.Daemon, k.Status.Network
	subnet := cmp.Or(printable.Valid(n.Subnet), "no subnet of its own")
	x.ok("the daemon at %s is socket_vmnet2 %s (process %d): %s, %s mode, %s, %s", k.Socket, d.Version, d.PID, n.Backend, n.Mode, subnet, printable.Count(len(k.Status.Clients), "client"))
	for _, h := range k.Status.Health {
		if h.Code == status.SubnetOverlap && x.Table != nil || h.Code == status.StateNotKept {
			continue // there are checks of our own
		}
		severity := h.Severity
		if rank(severity) < 0 {
			severity = status.Notice
		}
		x.report(severity, h.Fix, "the daemon at %s says: %s", k.Socket, h.Text)
	}
}

// silent tells of a daemon that does not describe itself.
func (x *exam) silent(k *socket) {
	it := fmt.Sprintf("the daemon at %s (process %d)", k.Socket, k.PID)
	restart := []string{"start it again as the program that is installed; clients that do not reconnect lose their network:", "    sudo socket_vmnet2 service restart"}
	switch err := k.Err; {
	case errors.Is(err, fs.ErrPermission): // whatever its name: socket_vmnet has none
		x.skip(true, "%s: this user may not ask it", it)
	case !k.Ours:
		x.ok("%s is socket_vmnet: it can tell nothing of itself", it)
	case err == nil:
		x.skip(false, "%s was not asked", it)
	case find.Absent(err):
		x.report(status.Notice, []string{
			"see its log; it makes none with --runtime-dir=none, and none beside a socket whose directory is neither root's nor its own:",
			"give it a directory with --runtime-dir=DIR; if it is still the program from before an install, start it again",
		}, "%s has no control socket: status and upgrade do not work", it)
	case errors.Is(err, context.DeadlineExceeded):
		x.report(status.Error, append([]string{"see its log."}, restart...), "%s gave no answer within %v", it, askTime)
	default:
		x.report(status.Warning, restart, "%s cannot be asked: %v", it, err)
	}
}

// checkStale looks for sockets and pidfiles of daemons that are gone.
func checkStale(x *exam) {
	var pidfiles []string
	for _, s := range x.Setups() {
		pidfiles = append(pidfiles, s.Pidfile)
	}
	for _, k := range x.sockets {
		x.staleSocket(k)
		if k.Status != nil {
			pidfiles = append(pidfiles, k.Status.Daemon.Pidfile)
		}
		pidfiles = append(pidfiles, k.Socket+".pid") // the usual name
	}
	slices.Sort(pidfiles)
	for _, file := range slices.Compact(pidfiles) {
		if filepath.IsAbs(file) {
			x.stalePidfile(file)
		}
	}
}

// isOther tells whether something that is no socket is where one should be.
func (x *exam) isOther(k *socket) bool {
	at, err := x.node(k.Socket)
	return err == nil && at.Type() != fs.ModeSocket
}

// staleSocket connects where nothing else tells that something listens.
func (x *exam) staleSocket(k *socket) {
	at, err := x.node(k.Socket)
	if err != nil || k.Status != nil {
		return
	}
	if x.isOther(k) {
		if len(k.By) > 0 && !at.IsDir() {
			x.report(status.Error, []string{"look at it, and move it away: the daemon never removes what is not a socket", "    ls -l " + printable.Quote(k.Socket)},
				"%s, where %s wants a socket, is not a socket (%s)", k.Socket, printable.List(k.By), at.Type())
		}
		return
	}
	if x.Dial == nil || x.listening(k) {
		return
	}
	ctx, cancel := context.WithTimeout(x.ctx, time.Second)
	defer cancel()
	c, err := x.Dial(ctx, "unix", filepath.Join(x.Root, k.Socket))
	switch {
	case err == nil:
		_ = c.Close()
	case errors.Is(err, syscall.ECONNREFUSED):
		x.report(status.Warning, []string{"remove it, or start the daemon, which takes its place:", "    sudo rm " + printable.Quote(k.Socket)},
			"%s is a socket that nothing listens at; programs that only look whether it is there take it for a daemon, as minikube does", k.Socket)
	case errors.Is(err, fs.ErrPermission):
		x.skip(true, "whether something listens at %s", k.Socket)
	case errors.Is(err, syscall.EAGAIN), isTimeout(err):
		x.report(status.Error, []string{"see its log, and start it again"}, "the daemon at %s takes no connections: its queue is full", k.Socket)
	case !find.Absent(err):
		x.report(status.Warning, nil, "%s: %v", k.Socket, err)
	}
}

// listening tells without connecting whether a process has a socket open: to connect could make a service manager start its daemon.
// Linux lists the sockets in /proc/net/unix, the path last; jobs of launchd may hold theirs while nothing runs.
func (x *exam) listening(k *socket) bool {
	if slices.ContainsFunc(x.Jobs, func(j find.Job) bool {
		return find.SamePath(j.Socket, k.Socket) && j.State != find.NotLoaded && j.State != ""
	}) {
		return true
	}
	if x.GOOS != "linux" || x.Staged() {
		return false
	}
	b, _ := x.readFile("/proc/net/unix")
	return strings.Contains(string(b), " "+k.Socket+"\n")
}

func isTimeout(err error) bool {
	t, ok := errors.AsType[net.Error](err)
	return ok && t.Timeout() || errors.Is(err, context.DeadlineExceeded)
}

// stalePidfile compares a pidfile with the processes.
func (x *exam) stalePidfile(file string) {
	b, err := x.readFile(file)
	if err != nil {
		x.unreadable(file, err)
		return
	}
	remove := []string{"remove it; a daemon that starts writes its own:", "    sudo rm " + printable.Quote(file)}
	pid, err := strconv.Atoi(strings.TrimSpace(string(b[:min(len(b), 64)])))
	p, runs := x.Processes[pid]
	switch {
	case err != nil || pid <= 0:
		x.report(status.Warning, remove, "the pidfile %s has no process number in it", file)
	case x.Processes == nil:
	case !runs:
		x.report(status.Notice, remove, "the pidfile %s names process %d, which does not run", file, pid)
	case !strings.HasPrefix(filepath.Base(p.Executable()), "socket_vmnet") &&
		!slices.ContainsFunc(x.telling(), func(k *socket) bool { return k.Status.Daemon.PID == pid }): // a daemon under another name
		x.report(status.Warning, remove, "the pidfile %s names process %d, which is another program (%s): what stops the daemon by it, as Lima does, would end that", file, pid, p.Executable())
	default:
		x.ok("the pidfile %s names process %d, a daemon", file, pid)
	}
}
