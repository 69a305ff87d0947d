// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/socket-vmnet2/socket_vmnet2/test/e2e/lab"
	"github.com/socket-vmnet2/socket_vmnet2/test/vmnetsim"
)

// ordinary is the user that everything runs as where this program is root's: what an ordinary user sees is then the same, and
// nothing of the system's own is written to.
const ordinary = 65534

// A world is the programs that all scenes use.
type world struct {
	dir       string
	simulator string // the library that stands in for vmnet.framework
}

// newWorld builds the programs. The caller must remove it.
func newWorld(ctx context.Context) (*world, error) {
	dir, err := os.MkdirTemp("", "diagnose-bin-")
	if err != nil {
		return nil, err
	}
	w := &world{dir: dir}
	if err := w.build(ctx); err != nil {
		return nil, errors.Join(err, w.remove())
	}
	return w, nil
}

func (w *world) remove() error { return os.RemoveAll(w.dir) }

func (w *world) build(ctx context.Context) error {
	if err := os.Chmod(w.dir, 0o755); err != nil { // for others to run what is in it
		return err
	}
	for _, dir := range []string{"bin", "sim", "lib"} {
		if err := os.Mkdir(filepath.Join(w.dir, dir), 0o755); err != nil {
			return err
		}
	}
	library, err := vmnetsim.Build(ctx, vmnetsim.Full)
	if err != nil {
		return err
	}
	w.simulator = filepath.Join(w.dir, "lib", filepath.Base(library))
	self, err := os.Executable()
	if err != nil {
		return err
	}
	if err := copyFile(self, w.self()); err != nil {
		return err
	}
	for _, name := range []string{"alpha", "beta", "gamma", "delta"} { // now: a program cannot be run while a fork has it open for writing
		if err := os.Link(w.self(), w.path("lib/"+guestPrefix+name)); err != nil {
			return err
		}
	}
	return errors.Join(
		copyFile(library, w.simulator),
		lab.BuildGo(ctx, "./cmd/socket_vmnet2", w.path("bin/socket_vmnet2")),
		lab.BuildGo(ctx, "./cmd/socket_vmnet2", w.path("sim/socket_vmnet2"), "-tags", "vmnetsim"),
	)
}

func (w *world) path(name string) string { return filepath.Join(w.dir, name) }

// self is this program, where everybody may run it.
func (w *world) self() string { return w.path("lib/diagnose") }

func copyFile(from, to string) error {
	b, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	if err := os.WriteFile(to, b, 0o755); err != nil { //nolint:gosec // a program that others run
		return fmt.Errorf("copy %s: %w", from, err)
	}
	return nil
}
