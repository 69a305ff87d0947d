// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"log/slog"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/socket-vmnet2/socket_vmnet2/internal/compat"
	"github.com/socket-vmnet2/socket_vmnet2/internal/daemon/handover"
	"github.com/socket-vmnet2/socket_vmnet2/internal/daemon/inherit"
	"github.com/socket-vmnet2/socket_vmnet2/internal/perclient/link"
	"github.com/socket-vmnet2/socket_vmnet2/internal/perclient/passfd/proto"
)

const (
	// crashTime is how soon after a crash another one is the last: it will not be better then.
	crashTime = 10 * time.Second
	// keeperPause is the distance of the daemon's looks whether the keeper is there.
	keeperPause = time.Second
	// lastWords is how long the keeper reads what a daemon that has ended has told it: the socket does not tell its end.
	lastWords = 50 * time.Millisecond
)

// A keeper is the process of --keeper: it has nothing but copies of the sockets that the daemon, its child, stores with it by systemd's
// protocol, and starts the daemon again with them after a crash.
type keeper struct {
	signals <-chan os.Signal
	stored  map[string][]*os.File
	ready   bool // the daemon has served
}

// Keep is the life of a keeper, if cfg asks for one and there is none yet, and no service manager that does the same. code is what the
// last daemon has ended with.
func Keep(cfg *compat.Config, log *slog.Logger) (code int, ran bool) {
	if !cfg.Keeper || handover.IsTold() || os.Getenv("NOTIFY_SOCKET") != "" {
		return 0, false
	}
	k := &keeper{signals: handover.Signals(), stored: map[string][]*os.File{}}
	for crash := (time.Time{}); ; crash = time.Now() {
		code, again, err := k.run()
		switch {
		case err != nil:
			log.Error("the daemon cannot be started", "error", err)
			return 1, true
		case !again:
			return code, true
		case time.Since(crash) < crashTime:
			log.Error("the daemon has failed twice within seconds, so it is not started again", "code", code)
			return code, true
		}
		log.Warn("the daemon has failed; starting it again", "code", code)
	}
}

// run starts the daemon and passes signals on until it ends with code. again: that was a crash.
func (k *keeper) run() (code int, again bool, err error) {
	ours, theirs, err := proto.Pair(proto.Datagram)
	if err != nil {
		return 0, false, err
	}
	state := inherit.Given{Keeper: os.Getpid(), Pair: handover.FirstGiven, Stored: map[string][]int{}}
	files := []*os.File{os.NewFile(uintptr(theirs), "daemon")}
	defer func() { _ = files[0].Close() }()
	conn, err := link.Descriptor{FD: ours}.Conn()
	if err != nil {
		return 0, false, err
	}
	defer func() { _ = conn.Close() }()
	for name, list := range k.stored {
		for _, f := range list {
			state.Stored[name] = append(state.Stored[name], handover.FirstGiven+len(files))
			files = append(files, f)
		}
	}
	cmd, err := handover.Start(state, files)
	if err != nil {
		return 0, false, err
	}
	k.ready = false
	var reading sync.WaitGroup
	reading.Go(func() { k.read(conn) })
	ended, stopped := make(chan struct{}), false
	go func() {
		defer close(ended)
		_ = cmd.Wait() // ProcessState tells
	}()
	for {
		select {
		case s := <-k.signals:
			stopped = true
			_ = cmd.Process.Signal(s)
		case <-ended:
			_ = conn.SetReadDeadline(time.Now().Add(lastWords))
			reading.Wait()
			code = cmd.ProcessState.ExitCode()
			return max(code, -code), k.ready && code != 0 && !stopped, nil
		}
	}
}

// read does what the daemon's messages say.
func (k *keeper) read(conn *net.UnixConn) {
	b, oob := make([]byte, 4096), make([]byte, unix.CmsgSpace(4*8))
	for {
		n, on, _, _, err := conn.ReadMsgUnix(b, oob)
		if err != nil {
			return
		}
		var files []*os.File
		if all, err := unix.ParseSocketControlMessage(oob[:on]); err == nil && len(all) > 0 {
			fds, _ := unix.ParseUnixRights(&all[0])
			for _, fd := range fds {
				files = append(files, os.NewFile(uintptr(fd), "stored"))
			}
		}
		text := "\n" + string(b[:n])
		_, name, _ := strings.Cut(text, "\nFDNAME=")
		switch {
		case strings.HasPrefix(text, "\nREADY=1"):
			k.ready = true
		case strings.HasPrefix(text, "\nFDSTORE=1"):
			k.stored[name] = append(k.stored[name], files...)
		case strings.HasPrefix(text, "\nFDSTOREREMOVE=1"):
			for _, f := range k.stored[name] {
				_ = f.Close()
			}
			delete(k.stored, name)
		}
	}
}
