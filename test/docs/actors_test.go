// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/internal/fakeguest"
)

// worldEnv names the directory of the world in which an actor acts.
const worldEnv = "DOCS_WORLD"

// actors are the tools that MIGRATION.md calls, as far as they start and stop daemons and attach machines: after their sources, as
// facts about the options that they give to a daemon.
var actors = map[string]func(w string, args []string) error{
	"sudo": actSudo, "make": actMake, "limactl": actLimactl, "minikube": actMinikube, "colima": actColima, "brew": actBrew, "launchctl": actLaunchctl,
	"socket_vmnet2": actService,
}

func actSudo(_ string, args []string) error {
	path, err := exec.LookPath(args[0])
	if err != nil {
		return err
	}
	return syscall.Exec(path, args, os.Environ()) //nolint:gosec // what the page says
}

// actMake does what the goals do; that they do it is tested with the Makefile.
func actMake(w string, args []string) error {
	words := []string{map[string]string{"install.compat": "install", "rollback": "rollback"}[args[0]], "--root=" + w + "/root"}
	for _, a := range args[1:] {
		if p, ok := strings.CutPrefix(a, "PREFIX="); ok {
			words = append(words, "--prefix="+p)
		}
	}
	return passthrough(exec.Command(filepath.Join(os.Getenv("BOX"), "opt/socket_vmnet/bin/socket_vmnet2"), words...))
}

func passthrough(cmd *exec.Cmd) error {
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	return cmd.Run()
}

// Lima's own network is used unless a daemon serves a socket of its own.
func actLimactl(w string, args []string) error {
	switch args[0] {
	case "sudoers":
		info, err := os.Lstat(w + "/root/opt/socket_vmnet/bin/socket_vmnet")
		if err == nil && !info.Mode().IsRegular() {
			err = fmt.Errorf("%s is no file", info.Name())
		}
		return err
	case "shell":
		return passthrough(exec.Command("cat", w+"/address"))
	case "stop":
		return stopDaemon(w, "lima")
	}
	for _, own := range []string{"std", "brew"} {
		if c, err := net.Dial("unix", w+"/run/"+own); err == nil {
			c.Close()
			return attach(w, own)
		}
	}
	err := startDaemon(w, "lima", w+"/home/.lima/_networks/shared_socket_vmnet.stderr.log", w+"/root/opt/socket_vmnet/bin/socket_vmnet", "--pidfile="+w+"/run/lima.pidfile",
		"--socket-group="+ownGroup(), "--vmnet-mode=shared", "--vmnet-gateway=192.168.105.1", "--vmnet-dhcp-end=192.168.105.254", "--vmnet-mask=255.255.255.0")
	if err != nil {
		return err
	}
	return attach(w, "lima")
}

// minikube keeps the path of its socket in the cluster; it is Homebrew's unless it was said.
func actMinikube(w string, args []string) error {
	if args[0] != "start" {
		return nil
	}
	for _, a := range args {
		if p, ok := strings.CutPrefix(a, "--socket-vmnet-client-path="); ok {
			if _, err := os.Stat(p); err != nil {
				return err
			}
		}
		if p, ok := strings.CutPrefix(a, "--socket-vmnet-path="); ok {
			return attach(w, filepath.Base(p))
		}
	}
	return attach(w, "brew")
}

func actColima(w string, args []string) error {
	switch args[0] {
	case "start":
		err := startDaemon(w, "colima", w+"/colima.log", w+"/root/opt/colima/bin/socket_vmnet", "--vmnet-mode", "shared", "--socket-group", ownGroup(),
			"--vmnet-gateway", "192.168.106.1", "--vmnet-dhcp-end", "192.168.106.254", "--pidfile", w+"/run/colima.pidfile")
		if err != nil {
			return err
		}
		return attach(w, "colima")
	case "stop":
		return stopDaemon(w, "colima")
	}
	return passthrough(exec.Command("cat", w+"/address"))
}

func actBrew(w string, args []string) error {
	if !slices.Equal(args[:1], []string{"services"}) || args[2] != "socket_vmnet" {
		return fmt.Errorf("brew %q", args)
	}
	if args[1] == "stop" {
		return stopDaemon(w, "brew")
	}
	return startDaemon(w, "brew", w+"/brew.log", w+"/root/opt/homebrew/opt/socket_vmnet/bin/socket_vmnet", "--vmnet-gateway=192.168.105.1")
}

func actLaunchctl(w string, args []string) error {
	if !slices.Equal(args, []string{"kickstart", "-k", "system/io.github.lima-vm.socket_vmnet"}) {
		return fmt.Errorf("launchctl %q", args)
	}
	if err := stopDaemon(w, "std"); err != nil {
		return err
	}
	return startDaemon(w, "std", w+"/std.log", w+"/root/opt/socket_vmnet/bin/socket_vmnet", "--vmnet-gateway=192.168.105.1")
}

// actService plays launchd for the subcommand service of the program that is installed, and leaves all others to it.
func actService(w string, args []string) error {
	program := w + "/root/opt/socket_vmnet/bin/socket_vmnet2"
	if args[0] != "service" {
		return passthrough(exec.Command(program, args...))
	}
	options, name := []string{"--vmnet-gateway=192.168.105.1"}, "std"
	if i := slices.Index(args, "--"); i >= 0 {
		options, name = args[i+1:len(args)-1], filepath.Base(args[len(args)-1])
	}
	switch args[1] {
	case "install":
		return startDaemon(w, name, w+"/service.log", program, options...)
	case "uninstall":
		for _, name := range []string{"std", "brew"} {
			if err := stopDaemon(w, name); err != nil {
				return err
			}
		}
		return nil
	case "status":
		fmt.Println("running")
		return nil
	}
	return fmt.Errorf("service %s", args[1])
}

// ownGroup is a group that daemons here may give to a socket.
func ownGroup() string {
	gid := strconv.Itoa(os.Getgid())
	if os.Getuid() == 0 {
		gid = strconv.Itoa(ordinary)
	}
	g, err := user.LookupGroupId(gid)
	if err != nil {
		return gid
	}
	return g.Name
}

// startDaemon starts a daemon on run/name, which must be free, and notes the version of the program.
func startDaemon(w, name, log, program string, args ...string) error {
	socket := filepath.Join(w, "run", name)
	if c, err := net.Dial("unix", socket); err == nil {
		c.Close()
		return fmt.Errorf("%s is served already", socket)
	}
	version, err := exec.Command(program, "--version").Output()
	if err != nil {
		return err
	}
	if err := os.WriteFile(socket+".version", version, 0o600); err != nil {
		return err
	}
	out, err := os.Create(log)
	if err != nil {
		return err
	}
	defer out.Close()
	cmd := exec.Command(program, append(args, socket)...)
	cmd.Stderr, cmd.Dir, cmd.Env = out, w, []string{"HOME=" + w + "/home"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if os.Getuid() == 0 {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: ordinary, Gid: ordinary}
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	if err := os.WriteFile(socket+".started", []byte(strconv.Itoa(cmd.Process.Pid)), 0o600); err != nil {
		return err
	}
	return wait("served "+socket, func() bool {
		c, err := net.Dial("unix", socket)
		if err == nil {
			c.Close()
		}
		return err == nil
	})
}

// stopDaemon stops the daemon on run/name, if there is one, and waits as launchd and Lima do until it has ended: until its socket
// has gone, and it has given up the lock beside it, which is what it does last.
func stopDaemon(w, name string) error {
	socket := filepath.Join(w, "run", name)
	b, err := os.ReadFile(socket + ".started")
	if err != nil {
		return nil //nolint:nilerr // nothing was started
	}
	pid, err := strconv.Atoi(string(b))
	if err != nil {
		return err
	}
	if err := os.Remove(socket + ".started"); err != nil {
		return err
	}
	_ = syscall.Kill(pid, syscall.SIGTERM)
	return wait("gone from "+socket, func() bool {
		if _, err := os.Lstat(socket); !os.IsNotExist(err) {
			return false
		}
		lock, err := os.Open(socket + ".lock")
		if err != nil {
			return os.IsNotExist(err)
		}
		defer lock.Close()
		return syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil
	})
}

func wait(what string, ok func() bool) error {
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if ok() {
			return nil
		}
	}
	return fmt.Errorf("never %s", what)
}

// attach is a machine on a socket: it gets an address, reaches the gateway and goes.
func attach(w, name string) error {
	c, err := fakeguest.DialStream(filepath.Join(w, "run", name), patience)
	if err != nil {
		return err
	}
	g, err := fakeguest.New(fakeguest.StreamLink(c), fakeguest.Options{MAC: net.HardwareAddr{0x52, 0x54, 0, 0, 0, 1}, Timeout: patience})
	if err != nil {
		return err
	}
	defer g.Close()
	l, err := g.Configure()
	if err != nil {
		return err
	}
	if _, err := g.Ping(l.Gateway, 1); err != nil {
		return err
	}
	return os.WriteFile(w+"/address", []byte(g.Addr().String()+"\n"), 0o600)
}
