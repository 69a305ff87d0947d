// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// moves are where packages have what the archives have, the first that fits.
var moves = []struct{ from, to string }{
	{doc + "systemd/user/", "usr/lib/systemd/user/"},
	{doc + "systemd/", "usr/lib/systemd/system/"},
	{doc + "sysusers.d/", "usr/lib/sysusers.d/"},
	{doc, "usr/share/doc/socket-vmnet2/"},
	{prefix, "usr/"},
}

// packaged is a file of an archive as the packages have it.
func packaged(e entry) entry {
	for _, m := range moves {
		if rest, fits := strings.CutPrefix(e.name, m.from); fits {
			e.name = m.to + rest
			break
		}
	}
	if strings.HasSuffix(e.name, ".service") {
		e.data = bytes.ReplaceAll(e.data, []byte("/"+prefix), []byte("/usr/"))
	}
	return e
}

// packages adds to files the packages of what an archive for Linux has.
func (r *release) packages(ctx context.Context, on target, entries []entry, files map[string][]byte) error {
	dir, err := os.MkdirTemp("", "release")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	for _, e := range entries {
		e = packaged(e)
		for _, name := range []string{e.name, strings.Replace(e.name, "/zsh/site-functions/", "/zsh/vendor-completions/", 1)} { // RPM's, Debian's
			path := filepath.Join(dir, name)
			if err = os.MkdirAll(filepath.Dir(path), 0o755); err == nil {
				err = os.WriteFile(path, e.data, 0o600)
			}
			if err == nil {
				err = os.Chmod(path, os.FileMode(e.mode)) //nolint:gosec // one of two, see programs.go; no umask counts
			}
			if err != nil {
				return err
			}
		}
	}
	here := target{goos: runtime.GOOS, goarch: runtime.GOARCH}
	for _, format := range []string{"deb", "rpm"} {
		c := r.command(ctx, here, "tool", "-modfile=tools/nfpm/go.mod", "nfpm", "package", "--config=etc/package/nfpm.yaml", "--packager="+format, "--target="+dir+"/")
		c.Env = append(c.Env, "VERSION="+r.version, "ARCH="+on.goarch, "TREE="+dir, fmt.Sprintf("SOURCE_DATE_EPOCH=%d", r.time.Unix()))
		if _, err := output(c); err != nil {
			return err
		}
	}
	made, err := filepath.Glob(dir + "/socket-vmnet2*")
	for _, path := range made {
		if err == nil {
			files[filepath.Base(path)], err = os.ReadFile(path)
		}
	}
	return err
}
