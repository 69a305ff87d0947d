// SPDX-License-Identifier: Apache-2.0

package rig

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/socket-vmnet2/socket_vmnet2/test/machrun"
	"github.com/socket-vmnet2/socket_vmnet2/test/vmnetsim"
)

// The kinds of relays.
const (
	Daemon        = "daemon"         // with the embedded network
	DaemonSlow    = "daemon-slow"    // the same, made slower on purpose
	DaemonVmnet   = "daemon-vmnet"   // with interfaces of the simulated vmnet
	DaemonMac     = "daemon-mac"     // the program for macOS, loaded by test/machrun, with the embedded network
	DaemonBridged = "daemon-bridged" // the same in bridged mode, where no host is simulated
	VmnetC        = "vmnet-c"        // a C program on the simulated vmnet
	Floor         = "floor"          // C: the least a bridge has to do
	Old           = "old"            // C: the stand-in for socket_vmnet, which floods a frame at a time
)

// A Kind is a kind of relay: a program that serves clients on the stream socket, and perhaps by the other transports.
type Kind struct {
	Name    string
	Prepare func(ctx context.Context, r *Rig) error  // builds what Command needs; nil: nothing
	Command func(r *Rig, l *Relay) ([]string, error) // the program, which is to serve l.Socket
}

// ownKinds are those that the package knows.
func ownKinds() []Kind {
	return []Kind{
		{Name: Daemon, Command: Usernet(func(r *Rig) string { return r.opt.Daemon })},
		{Name: DaemonSlow, Command: Usernet(slowProgram), Prepare: func(ctx context.Context, r *Rig) error {
			return r.BuildChanged(ctx, slowProgram(r), "cmd/socket_vmnet2", Slowness)
		}},
		{Name: DaemonMac, Prepare: buildMac, Command: func(r *Rig, l *Relay) ([]string, error) {
			args, err := Usernet(macProgram)(r, l)
			return append([]string{r.machrun}, args...), err
		}},
		{Name: DaemonVmnet, Prepare: BuildSimulated, Command: simulated("--vmnet-gateway=" + gateway)},
		{Name: DaemonBridged, Prepare: BuildSimulated, Command: simulated("--vmnet-mode=bridged", "--vmnet-interface=en0")},
		{Name: VmnetC, Prepare: buildVmnetC, Command: func(r *Rig, l *Relay) ([]string, error) {
			return []string{r.vmnetC, r.simLib, l.Socket}, nil
		}},
		{Name: Floor, Command: inC("switch")},
		{Name: Old, Command: inC("flood")},
	}
}

// gateway is the daemon's address on its network.
const gateway = "192.168.105.1"

// inC is csrc/relay.c in a mode.
func inC(mode string) func(*Rig, *Relay) ([]string, error) {
	return func(r *Rig, l *Relay) ([]string, error) { return []string{r.relays, mode, l.Socket}, nil }
}

// Usernet is the Command of a Kind: a daemon with the embedded network. program is its path, which ends in socket_vmnet2, for the
// daemon to take all options.
func Usernet(program func(*Rig) string) func(*Rig, *Relay) ([]string, error) {
	return func(r *Rig, l *Relay) ([]string, error) {
		return append(r.daemonArgs(program(r)), "--backend=usernet", "--vmnet-gateway="+gateway, l.Socket), nil
	}
}

// simulated is the Command of a Kind: the daemon with interfaces of the simulated vmnet and these flags.
func simulated(flags ...string) func(*Rig, *Relay) ([]string, error) {
	return func(r *Rig, l *Relay) ([]string, error) {
		control, err := os.MkdirTemp(r.lab.Dir, "control")
		if err != nil {
			return nil, fmt.Errorf("make a directory for the simulator: %w", err)
		}
		args := append(r.daemonArgs(r.DaemonSim()), flags...)
		return append(args, "--backend=vmnet", "--vmnetsim-lib="+r.simLib, "--vmnetsim-dir="+control, l.Socket), nil
	}
}

// daemonArgs are the daemon's program and the flags that it has in any case.
func (r *Rig) daemonArgs(program string) []string {
	args := []string{program, "--state-dir=" + r.lab.Dir}
	if os.Geteuid() == 0 {
		args = append(args, "--allow-uid=0") // of the load generator
	}
	return args
}

// BuildSimulated builds the simulator of vmnet.framework and a daemon that can load it, otherwise as it is released. It does
// nothing when both are there.
func BuildSimulated(ctx context.Context, r *Rig) error {
	if r.simLib != "" {
		return nil
	}
	r.opt.Progress("building the simulator of vmnet.framework and a daemon that can load it")
	if err := r.Build(ctx, r.DaemonSim(), "cmd/socket_vmnet2", "-tags=vmnetsim"); err != nil {
		return err
	}
	lib, err := vmnetsim.Build(ctx, vmnetsim.Full)
	r.simLib = lib
	return err
}

// DaemonSim is the path of the daemon that can load the simulator, once BuildSimulated has returned. By its name it takes all
// options.
func (r *Rig) DaemonSim() string { return filepath.Join(r.lab.Dir, "sim", "socket_vmnet2") }

// buildVmnetC builds csrc/vmnet.c, and the simulator.
func buildVmnetC(ctx context.Context, r *Rig) error {
	err := BuildSimulated(ctx, r)
	if err == nil {
		r.vmnetC, err = compile(ctx, "vmnet", []string{"-std=gnu11", "-I" + filepath.Dir(r.simLib)}, "wire.c")
	}
	return err
}

// Slowness is what is wrong with DaemonSlow: the bridge sums up an eighth of the bytes of each frame for nothing. On the machine of the
// baselines a full Ethernet frame takes about twice the time between streams with that: enough to be found out whatever the
// machine's mood.
var Slowness = Change{
	File: "internal/network/bridge/send.go",
	Old:  "func (p *Port) Send(b frame.Batch) {\n",
	New: `var wasted uint32

func (p *Port) Send(b frame.Batch) {
	sum := wasted
	for wire, i := b.Bytes(), 0; i < len(wire); i += 8 {
		sum = sum*31 + uint32(wire[i])
	}
	wasted = sum
`,
}

func macProgram(r *Rig) string { return filepath.Join(r.lab.Dir, "mac", "socket_vmnet2") }

func buildMac(ctx context.Context, r *Rig) (err error) {
	if r.machrun, err = machrun.Build(ctx); err == nil {
		err = r.build(ctx, []string{"GOOS=darwin", "GOARCH=amd64"}, macProgram(r), "cmd/socket_vmnet2")
	}
	return err
}

func slowProgram(r *Rig) string { return filepath.Join(r.lab.Dir, "slow", "socket_vmnet2") }

// A Change is what is different in a program that is built from our sources.
type Change struct {
	File string // from the root of the repository
	Old  string // is in File exactly once
	New  string // takes its place
}

// BuildChanged is Build with one source file changed, for this program only. Beside out it leaves what that takes, so no two
// programs share a directory.
func (r *Rig) BuildChanged(ctx context.Context, out, pkg string, c Change) error {
	root, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", module).Output()
	if err != nil {
		return fmt.Errorf("find the sources: %w", err)
	}
	original := filepath.Join(strings.TrimSpace(string(root)), filepath.FromSlash(c.File))
	source, err := os.ReadFile(original)
	if err != nil {
		return fmt.Errorf("read the source to change: %w", err)
	}
	if strings.Count(string(source), c.Old) != 1 {
		return fmt.Errorf("find %q once in %s, to change it to %q", c.Old, c.File, c.New)
	}
	changed := strings.Replace(string(source), c.Old, c.New, 1)
	dir := filepath.Dir(out)
	replacement, overlay := filepath.Join(dir, "changed.go"), filepath.Join(dir, "overlay.json")
	replace, err := json.Marshal(map[string]map[string]string{"Replace": {original: replacement}})
	err = errors.Join(err, os.MkdirAll(dir, 0o755), os.WriteFile(replacement, []byte(changed), 0o644), os.WriteFile(overlay, replace, 0o644))
	if err != nil {
		return fmt.Errorf("prepare the build: %w", err)
	}
	return r.Build(ctx, out, pkg, "-overlay="+overlay)
}
