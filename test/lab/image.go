// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"bufio"
	"embed"
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
)

// The scripts of a guest. init is its first process; the others lie in its /lab, which is in the PATH of its commands.
//
//go:embed image
var scripts embed.FS

// buildImage packs the guests' root file system to the file out, not compressed: QEMU hands it over in one piece, while
// an emulated processor takes its time to unpack it. extra are files of the caller by their path in the guest.
func buildImage(out string, t Tools, extra map[string]string) (err error) {
	f, err := os.Create(out)
	if err != nil {
		return fmt.Errorf("pack guest image: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	w := bufio.NewWriter(f)
	c := newCPIO(w)
	dirs := []string{"bin", "dev", "etc", "lab", "modules", "proc", "sys", "tmp"}
	for _, d := range append(dirs, parents(extra)...) {
		c.dir(d, 0o755)
	}
	c.symlink("bin/sh", "busybox")
	files := map[string]string{"bin/busybox": t.Busybox, "lab/guest": t.Helper}
	modules, err := filepath.Glob(filepath.Join(t.Modules, "*.ko"))
	if err != nil {
		return fmt.Errorf("pack guest image: %w", err)
	}
	for _, m := range modules {
		files["modules/"+filepath.Base(m)] = m
	}
	maps.Copy(files, extra)
	for name, from := range files {
		data, err := os.ReadFile(from)
		if err != nil {
			return fmt.Errorf("pack guest image: %w", err)
		}
		c.file(name, 0o755, data)
	}
	if err := addScripts(c); err != nil {
		return err
	}
	if err := errors.Join(c.close(), w.Flush()); err != nil {
		return fmt.Errorf("pack guest image %s: %w", out, err)
	}
	return nil
}

// parents are the directories that files lie in, those above first.
func parents(files map[string]string) []string {
	dirs := map[string]bool{}
	for name := range files {
		for d := path.Dir(name); d != "."; d = path.Dir(d) {
			dirs[d] = true
		}
	}
	return slices.Sorted(maps.Keys(dirs))
}

func addScripts(c *cpioWriter) error {
	entries, err := scripts.ReadDir("image")
	if err != nil {
		return fmt.Errorf("pack guest scripts: %w", err)
	}
	for _, e := range entries {
		data, err := scripts.ReadFile("image/" + e.Name())
		if err != nil {
			return fmt.Errorf("pack guest scripts: %w", err)
		}
		name := "lab/" + e.Name()
		if e.Name() == "init" {
			name = "init"
		}
		c.file(name, 0o755, data)
	}
	return nil
}
