// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"bufio"
	"embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/cavaliergopher/cpio"
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
	c := image{cpio.NewWriter(w)}
	for _, d := range []string{"bin", "dev", "etc", "lab", "modules", "proc", "sys", "tmp"} {
		err = errors.Join(err, c.add(d, cpio.TypeDir, nil))
	}
	err = errors.Join(err, c.add("bin/sh", cpio.TypeSymlink, []byte("busybox")))
	files := map[string]string{"bin/busybox": t.Busybox, "lab/guest": t.Helper}
	modules, err := filepath.Glob(filepath.Join(t.Modules, "*.ko"))
	if err != nil {
		return fmt.Errorf("pack guest image: %w", err)
	}
	for _, m := range modules {
		files["modules/"+filepath.Base(m)] = m
	}
	for name, from := range extra {
		files["lab/"+name] = from
	}
	for name, from := range files {
		data, readErr := os.ReadFile(from)
		err = errors.Join(err, readErr, c.add(name, cpio.TypeReg, data))
	}
	entries, readErr := scripts.ReadDir("image")
	err = errors.Join(err, readErr)
	for _, e := range entries {
		data, readErr := scripts.ReadFile("image/" + e.Name())
		name := "lab/" + e.Name()
		if e.Name() == "init" {
			name = "init"
		}
		err = errors.Join(err, readErr, c.add(name, cpio.TypeReg, data))
	}
	if err := errors.Join(err, c.Close(), w.Flush()); err != nil {
		return fmt.Errorf("pack guest image %s: %w", out, err)
	}
	return nil
}

// An image is the archive that Linux unpacks as its first root file system.
type image struct{ *cpio.Writer }

func (c image) add(name string, kind cpio.FileMode, data []byte) error {
	err := c.WriteHeader(&cpio.Header{Name: name, Mode: kind | 0o755, Size: int64(len(data))})
	_, writeErr := c.Write(data)
	return errors.Join(err, writeErr)
}
