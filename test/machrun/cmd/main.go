// SPDX-License-Identifier: Apache-2.0

// Command cmd builds the loader and the simulator of vmnet.framework and makes links to them: make machrun.
package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/socket-vmnet2/socket_vmnet2/test/machrun"
	"github.com/socket-vmnet2/socket_vmnet2/test/vmnetsim"
)

func main() {
	if err := run(); err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "machrun:", err)
		os.Exit(1)
	}
}

// run makes build/machrun/machrun and build/machrun/libvmnetsim.so links to the newest ones.
func run() error {
	loader, err := machrun.Build(context.Background())
	if err != nil {
		return err
	}
	simulator, err := vmnetsim.Build(context.Background(), vmnetsim.Full)
	if err != nil {
		return err
	}
	dir := filepath.Dir(filepath.Dir(loader))
	for _, p := range []string{loader, simulator} {
		link := filepath.Join(dir, filepath.Base(p))
		if err := os.Remove(link); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if err := os.Symlink(p, link); err != nil {
			return err
		}
	}
	return nil
}
