// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	"fmt"
	"os"
)

// An IPXEOptions says how to run an iPXE script in a machine without an operating system.
type IPXEOptions struct {
	// Name is what messages and files call the machine. It is unique in its Lab.
	Name string
	// MAC is the address of its only interface.
	MAC string
	// Script is the iPXE script. It must end with "reboot", which ends QEMU.
	Script string
	// Client is socket_vmnet_client and Socket the daemon's socket: the machine's network comes on fd 3.
	Client, Socket string
}

// RunIPXE runs a script the way socket_vmnet's own test does and returns what came on the serial console.
func (l *Lab) RunIPXE(ctx context.Context, o IPXEOptions) (string, error) {
	script := l.Path(o.Name + ".ipxe")
	if err := os.WriteFile(script, []byte("#!ipxe\n"+o.Script), 0o600); err != nil {
		return "", fmt.Errorf("write iPXE script: %w", err)
	}
	p, err := l.Start(o.Name, o.Client, o.Socket, l.opts.Tools.QEMU,
		"-accel", "tcg", "-m", "128", "-no-reboot", "-nographic",
		"-device", "virtio-net-pci,netdev=net0,romfile=,mac="+o.MAC, "-netdev", "socket,id=net0,fd=3",
		"-kernel", l.opts.Tools.IPXE, "-initrd", script)
	if err != nil {
		return "", err
	}
	if err := p.Wait(ctx); err != nil {
		p.Kill()
		return p.out.String(), fmt.Errorf("%w; it had printed:\n%s", err, p.out.Tail(20))
	}
	if code := p.ExitCode(); code != 0 {
		return p.out.String(), fmt.Errorf("run iPXE %s: exit code %d; it had printed:\n%s", o.Name, code, p.out.Tail(20))
	}
	return p.out.String(), nil
}
