// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/socket-vmnet2/socket_vmnet2/internal/faults"
)

const (
	// envName is the environment variable that makes a process a gateway. It holds the daemon's pid, and the user and the group
	// to become, -1 for none.
	envName = "SOCKET_VMNET2_GATEWAY"
	// pairFD is the gateway's end of the pair, which the process inherits.
	pairFD = 3
	// oomScore makes the kernel end a gateway before a daemon when memory is short.
	oomScore = "500"
	// commandName is what ps shows in the place of the program's name, which may be that of a link in /proc.
	commandName = "vmnet-gateway"
)

// A Program starts gateways as processes of their own.
type Program struct {
	Path   string // of this program
	Socket string // of the network, for ps
	// UID and GID are the user and the group that it becomes, -1 for none.
	UID, GID int
}

// Start starts a gateway on its end of the pair, and closes that here.
func (p Program) Start(end *os.File) (*os.Process, error) {
	c := exec.Command(p.Path)
	c.Args = []string{"socket_vmnet2", "gateway", p.Socket}
	inherited := slices.DeleteFunc(os.Environ(), func(v string) bool { // faults are the daemon's
		return strings.HasPrefix(v, envName+"=") || strings.HasPrefix(v, faults.Env+"=")
	})
	c.Env = append(inherited, fmt.Sprintf("%s=%d %d %d", envName, os.Getpid(), p.UID, p.GID))
	c.Stderr = os.Stderr // a crash tells why there
	c.ExtraFiles = []*os.File{end}
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // what a terminal sends to the daemon is not for it
	if err := errors.Join(c.Start(), end.Close()); err != nil {
		return nil, fmt.Errorf("start the gateway: %w", err)
	}
	return c.Process, nil
}

// Main is the life of a gateway's process. It returns false at once if this process is none. It is called first of all in main.
func Main(version string) (code int, ran bool) {
	text, ok := os.LookupEnv(envName)
	if !ok {
		return 0, false
	}
	_ = os.Unsetenv(envName)
	var parent, uid, gid int
	if n, err := fmt.Sscanf(text, "%d %d %d", &parent, &uid, &gid); n != 3 || err != nil || parent != os.Getppid() {
		return 0, false // set by another program, or its daemon has ended
	}
	hello := Hello{Version: version}
	if err := dropRights(uid, gid); err != nil {
		hello.Error = err.Error()
	}
	hello.UID = os.Geteuid()
	signal.Ignore(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGPIPE)
	g, err := newGateway(os.NewFile(pairFD, "daemon"), tuning{})
	if err == nil {
		err = g.serve(hello, confine())
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "ERROR| the gateway of the embedded network ends: %v\n", err)
		return 1, true
	}
	return 0, true
}

// dropRights becomes another user, for good, and says which process this is.
func dropRights(uid, gid int) error {
	if runtime.GOOS == "linux" {
		_ = os.WriteFile("/proc/self/oom_score_adj", []byte(oomScore), 0)
		_ = os.WriteFile("/proc/self/comm", []byte(commandName), 0)
	}
	if uid < 0 {
		return nil
	}
	err := syscall.Setgroups(nil)
	if err == nil {
		err = syscall.Setgid(gid)
	}
	if err == nil {
		err = syscall.Setuid(uid)
	}
	if err != nil {
		return fmt.Errorf("become user %d: %w", uid, err)
	}
	if unix.Getuid() != uid || unix.Geteuid() != uid || unix.Getegid() != gid {
		return fmt.Errorf("become user %d: the system says that this is user %d", uid, unix.Geteuid())
	}
	return nil
}
