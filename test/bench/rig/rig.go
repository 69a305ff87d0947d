// SPDX-License-Identifier: Apache-2.0

// Package rig starts the daemon and the C relays it is compared with, drives them with the C load generator, and tells what
// their processes spent. It needs gcc, and Linux for everything it reads in /proc.
package rig

import (
	"cmp"
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/test/cbuild"
	"github.com/socket-vmnet2/socket_vmnet2/test/lab"
)

//go:embed csrc/*.c csrc/*.h
var sources embed.FS

// module is where the programs of ours are.
const module = "github.com/socket-vmnet2/socket_vmnet2"

// Options are what a Rig is made from. The zero value of a field has the default that is named.
type Options struct {
	Daemon   string        // path of the binary under test; bin/socket_vmnet2
	Time     time.Duration // of a measurement whose Load says nothing else; 600 ms
	Warm     time.Duration // of a flow before the measurement begins; 200 ms
	Kinds    []Kind        // more kinds of relays than those that the package knows; for tests
	Progress func(string)  // is told what takes a while; may be nil
}

// A Rig holds the compiled programs and the directory everything happens in.
type Rig struct {
	opt      Options
	lab      *lab.Lab // the directory and the processes
	relays   string   // path of the C relays
	vmnetC   string   // path of the vmnet program in C, once it is built
	machrun  string   // the loader, once it is built
	loadgen  string   // path of the load generator
	simLib   string   // path of the simulator, once it is built
	kinds    []Kind
	prepared map[string]bool
	sequence int // numbers the sockets
}

// New compiles the load generator and the C relays, and makes a temporary directory. The caller closes the Rig.
func New(ctx context.Context, o Options) (*Rig, error) {
	o.Daemon = cmp.Or(o.Daemon, "bin/socket_vmnet2")
	o.Time = cmp.Or(o.Time, 600*time.Millisecond)
	o.Warm = cmp.Or(o.Warm, 200*time.Millisecond)
	if o.Progress == nil {
		o.Progress = func(string) {}
	}
	daemon, err := exec.LookPath(o.Daemon)
	if err != nil {
		return nil, fmt.Errorf("find the daemon, which \"make build\" builds: %w", err)
	}
	if o.Daemon, err = filepath.Abs(daemon); err != nil {
		return nil, fmt.Errorf("find the daemon: %w", err)
	}
	l, err := lab.New(ctx, lab.Options{})
	if err != nil {
		return nil, err
	}
	r := &Rig{opt: o, lab: l, kinds: slices.Concat(ownKinds(), otherGateways(), o.Kinds), prepared: map[string]bool{}}
	var errRelays, errLoad error
	r.relays, errRelays = compile(ctx, "relay", nil, "relaydgram.c", "wire.c")
	r.loadgen, errLoad = compile(ctx, "load", nil, "clients.c", "conns.c", "io.c", "wire.c")
	if err := errors.Join(errRelays, errLoad); err != nil {
		r.Close()
		return nil, err
	}
	return r, nil
}

// Close ends the relays that still run and removes the temporary directory.
func (r *Rig) Close() { _ = r.lab.Close() }

// compile makes a program of the C file of its name, of more ones and of all headers, unless it is there already.
func compile(ctx context.Context, name string, flags []string, more ...string) (string, error) {
	files := map[string][]byte{}
	headers, err := fs.Glob(sources, "csrc/*.h")
	if err != nil {
		return "", err
	}
	for _, f := range append(more, name+".c") {
		headers = append(headers, "csrc/"+f)
	}
	for _, f := range headers {
		if files[path.Base(f)], err = sources.ReadFile(f); err != nil {
			return "", err
		}
	}
	return cbuild.Program{Dir: "bench", Name: name, Flags: append(flags, "-O2"), Files: files}.Build(ctx)
}

// Build makes a program of ours from the package's directory below the module's, with more flags than a release has.
func (r *Rig) Build(ctx context.Context, out, pkg string, flags ...string) error {
	return r.build(ctx, nil, out, pkg, flags...)
}

func (r *Rig) build(ctx context.Context, env []string, out, pkg string, flags ...string) error {
	return r.command(ctx, env, append(append([]string{"build", "-o", out}, flags...), module+"/"+pkg)...)
}

// command runs the go command.
func (r *Rig) command(ctx context.Context, env []string, args ...string) error {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Env = append(os.Environ(), append(env, "CGO_ENABLED=0", "GOFLAGS=")...)
	if msg, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go %s: %w: %s", strings.Join(args, " "), err, msg)
	}
	return nil
}

// Prepare builds what relays of these kinds need. What has been built is not built again.
func (r *Rig) Prepare(ctx context.Context, kinds ...string) error {
	for _, name := range kinds {
		k, err := r.kind(name)
		if err != nil {
			return err
		}
		if k.Prepare == nil || r.prepared[name] {
			continue
		}
		if err := k.Prepare(ctx, r); err != nil {
			return fmt.Errorf("prepare %s: %w", name, err)
		}
		r.prepared[name] = true
	}
	return nil
}

func (r *Rig) kind(name string) (Kind, error) {
	i := slices.IndexFunc(r.kinds, func(k Kind) bool { return k.Name == name })
	if i < 0 {
		var names []string
		for _, k := range r.kinds {
			names = append(names, k.Name)
		}
		return Kind{}, fmt.Errorf("unknown kind of relay %q: want one of %s", name, strings.Join(names, ", "))
	}
	return r.kinds[i], nil
}
