// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"bufio"
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
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

// File type bits of the mode field of a cpio entry, those of struct stat.
const (
	cpioDir     = 0o040000
	cpioRegular = 0o100000
	cpioSymlink = 0o120000
)

// A cpioWriter writes the archive form that Linux unpacks as its first root file system: "newc" of cpio(5). An entry is
//
//	"070701" ino mode uid gid nlink mtime filesize devmajor devminor rdevmajor rdevminor namesize check   (8 hex digits each)
//	name NUL, padded to 4 bytes
//	data, padded to 4 bytes
type cpioWriter struct {
	w   io.Writer
	ino int
	err error
}

func newCPIO(w io.Writer) *cpioWriter { return &cpioWriter{w: w} }

func (c *cpioWriter) dir(name string, perm fs.FileMode) { c.entry(name, cpioDir|uint32(perm), nil) }

func (c *cpioWriter) file(name string, perm fs.FileMode, data []byte) {
	c.entry(name, cpioRegular|uint32(perm), data)
}

func (c *cpioWriter) symlink(name, target string) {
	c.entry(name, cpioSymlink|0o777, []byte(target))
}

// close writes the trailer and returns the first error there was.
func (c *cpioWriter) close() error {
	c.entry("TRAILER!!!", 0, nil)
	return c.err
}

func (c *cpioWriter) entry(name string, mode uint32, data []byte) {
	c.ino++
	head := fmt.Sprintf("070701%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%s\x00",
		c.ino, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(name)+1, 0, name)
	c.padded([]byte(head))
	c.padded(data)
}

func (c *cpioWriter) padded(b []byte) {
	if c.err != nil {
		return
	}
	if _, c.err = c.w.Write(b); c.err != nil {
		return
	}
	if rest := len(b) % 4; rest != 0 {
		_, c.err = c.w.Write(make([]byte, 4-rest))
	}
}
