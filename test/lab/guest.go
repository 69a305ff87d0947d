// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// bootTimeout is how long a guest may take until its first process is ready. It takes 2 s on an idle machine and 11 s
// with four guests on two busy processors; about one boot in sixty hangs without a word.
const bootTimeout = 90 * time.Second

// A GuestOptions says what to boot.
type GuestOptions struct {
	// Name is what messages call the guest. It is unique in its Lab.
	Name string
	// MAC is the address of the guest's only interface, or {mac} where Wrap fills that in.
	MAC string
	// QEMU is the program, Tools.QEMU when empty.
	QEMU string
	// Netdev is the argument of -netdev, with id=n0. In it {dir} stands for a directory of the guest's own.
	Netdev string
	// Wrap is put in front of the command line, such as socket_vmnet_client and its socket.
	Wrap []string
	// Env is added to QEMU's environment.
	Env []string
	// UML has a User Mode Linux in place of QEMU's emulated machine: the same guest, 20 times as fast, without QMP. Its interface is the
	// datagram socket that Wrap, "socket_vmnet2 exec --dgram" or the like, puts on descriptor 3; Netdev, and QEMU mean nothing.
	UML bool
}

// StreamNetdev is the -netdev argument for QEMU connecting to socket by itself. It reconnects after reconnect, which
// needs QEMU 9.2; 0 means never.
func StreamNetdev(socket string, reconnect time.Duration) string {
	s := "stream,id=n0,server=off,addr.type=unix,addr.path=" + socket
	if reconnect > 0 {
		s += fmt.Sprintf(",reconnect-ms=%d", reconnect.Milliseconds())
	}
	return s
}

// FD3Netdev is the -netdev argument for a connected socket on fd 3, where socket_vmnet_client puts it.
const FD3Netdev = "socket,id=n0,fd=3"

// DgramPathNetdev is the -netdev argument for a socket that QEMU binds in its directory and from which it sends to socket.
func DgramPathNetdev(socket string) string {
	return "dgram,id=n0,local.type=unix,local.path={dir}/net,remote.type=unix,remote.path=" + socket
}

// DgramFDNetdev is the -netdev argument for a connected datagram socket, where Wrap is "socket_vmnet2 exec --dgram" or the
// like, which fills the number in.
const DgramFDNetdev = "dgram,id=n0,local.type=fd,local.str={fd}"

// A Guest is a running virtual machine.
type Guest struct {
	Name string
	// MAC is the address of its interface.
	MAC string
	// Boot is how long it took until the guest was ready.
	Boot time.Duration

	// QMP is the connection to its QEMU; nil with UML.
	QMP *QMP

	proc  *Process
	shell *shell
}

// Boot boots a guest and waits until it takes commands. A boot that hangs is tried twice more.
func (l *Lab) Boot(ctx context.Context, o GuestOptions) (*Guest, error) {
	g, err := l.boot(ctx, o, "")
	for _, again := range []string{"-2", "-3"} {
		if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
			l.opts.Progress(o.Name, "hangs, started once more")
			g, err = l.boot(ctx, o, again)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("boot %s: %w", o.Name, err)
	}
	return g, nil
}

func (l *Lab) boot(ctx context.Context, o GuestOptions, suffix string) (*Guest, error) {
	ctx, cancel := context.WithTimeout(ctx, bootTimeout)
	defer cancel()
	start := time.Now()
	dir := l.Path(o.Name + suffix + ".vm")
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, err
	}
	launch := l.launchQEMU
	if o.UML {
		launch = l.launchUML
	}
	g, err := launch(ctx, o, dir)
	if err != nil {
		return nil, err
	}
	if err := g.waitReady(ctx); err != nil {
		g.Stop()
		return nil, fmt.Errorf("%w; last lines of %s:\n%s", err, o.Name, g.proc.out.Tail(15))
	}
	l.AtClose(g.Stop)
	g.Boot = time.Since(start)
	return g, nil
}

// launchQEMU starts QEMU and connects to its two sockets as soon as it has made them.
func (l *Lab) launchQEMU(ctx context.Context, o GuestOptions, dir string) (*Guest, error) {
	p, err := l.start(command{name: o.Name, argv: l.qemuArgv(o, dir), env: o.Env})
	if err != nil {
		return nil, err
	}
	g := &Guest{Name: o.Name, proc: p}
	if err := g.connect(ctx, dir); err != nil {
		g.Stop()
		return nil, fmt.Errorf("%w; last lines of %s:\n%s", err, o.Name, p.out.Tail(15))
	}
	return g, nil
}

// Names of sockets in a guest's directory.
const (
	commandSocket = "sh"
	monitorSocket = "qmp"
)

func (l *Lab) qemuArgv(o GuestOptions, dir string) []string {
	qemu := o.QEMU
	if qemu == "" {
		qemu = l.opts.Tools.QEMU
	}
	return append(slices.Clone(o.Wrap), qemu,
		"-name", o.Name, "-machine", "q35", "-accel", "tcg", "-cpu", "max", "-m", "256",
		"-nodefaults", "-display", "none", "-no-reboot",
		"-kernel", l.opts.Tools.Kernel, "-initrd", l.image,
		// On a loaded machine the kernel's timer check can fail and panic.
		"-append", "console=ttyS0 quiet no_timer_check panic=-1",
		"-serial", "stdio",
		"-serial", "unix:"+filepath.Join(dir, commandSocket)+",server=on,wait=off",
		"-qmp", "unix:"+filepath.Join(dir, monitorSocket)+",server=on,wait=off",
		"-netdev", strings.ReplaceAll(o.Netdev, "{dir}", dir),
		"-device", "virtio-net-pci,netdev=n0,romfile=,mac="+o.MAC)
}

func (g *Guest) connect(ctx context.Context, dir string) error {
	c, err := g.dial(ctx, filepath.Join(dir, commandSocket))
	if err != nil {
		return err
	}
	g.shell = newShell(c)
	if c, err = g.dial(ctx, filepath.Join(dir, monitorSocket)); err != nil {
		return err
	}
	g.QMP, err = newQMP(c)
	return err
}

// waitReady waits for the guest's first process, which tells the address of its interface.
func (g *Guest) waitReady(ctx context.Context) error {
	ready, err := g.proc.out.WaitFor(ctx, "E2E ready")
	if err != nil {
		return err
	}
	_, ready, _ = strings.Cut(ready, "E2E ")
	if g.MAC = (Result{Output: "E2E " + ready}).Values()["mac"]; g.MAC == "" {
		return fmt.Errorf("read the address of the interface: the guest said %q", ready)
	}
	return nil
}

func (g *Guest) dial(ctx context.Context, path string) (net.Conn, error) {
	var conn net.Conn
	err := Poll(ctx, func() (err error) {
		select {
		case <-g.proc.done:
			return nil
		default:
			conn, err = net.Dial("unix", path)
			return err
		}
	})
	if err == nil && conn == nil {
		err = ErrEnded
	}
	return conn, err
}

// Run runs a command, which must be one line, with busybox's sh in the guest. An exit code other than 0 is no error.
func (g *Guest) Run(ctx context.Context, command string) (Result, error) {
	r, err := g.shell.run(ctx, command)
	if err != nil {
		return r, fmt.Errorf("%s: %w", g.Name, err)
	}
	return r, nil
}

// Must is Run with an exit code other than 0 as an error.
func (g *Guest) Must(ctx context.Context, command string) (Result, error) {
	r, err := g.Run(ctx, command)
	if err == nil && r.Code != 0 {
		err = fmt.Errorf("%s: %s: exit code %d: %s", g.Name, command, r.Code, r.Output)
	}
	return r, err
}

// Stop turns the guest off the hard way.
func (g *Guest) Stop() {
	g.proc.Kill()
	if g.shell != nil {
		_ = g.shell.conn.Close()
	}
	if g.QMP != nil {
		g.QMP.Close()
	}
}
