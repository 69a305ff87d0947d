// SPDX-License-Identifier: Apache-2.0

// Command cmd builds the loader and makes a link to it: make machrun.
package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/socket-vmnet2/socket_vmnet2/test/machrun"
)

func main() {
	if err := run(); err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "machrun:", err)
		os.Exit(1)
	}
}

// run makes build/machrun/machrun a link to the newest loader.
func run() error {
	p, err := machrun.Build(context.Background())
	if err != nil {
		return err
	}
	dir := filepath.Dir(p)
	link := filepath.Join(filepath.Dir(dir), "machrun")
	if err := os.Remove(link); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return os.Symlink(filepath.Join(filepath.Base(dir), "machrun"), link)
}
