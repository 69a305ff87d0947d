// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A release is what is made, and from what.
type release struct {
	version string // as the programs print it, in general with a leading v
	goTool  string // the go command
	ldflags string // for go build
	out     string // the directory for the archives
	time    time.Time
}

// run makes the archives and gives the checksums of what it made.
func (r *release) run(ctx context.Context) (string, error) {
	var err error
	if r.time, err = buildTime(ctx); err != nil {
		return "", err
	}
	if err := os.MkdirAll(r.out, 0o755); err != nil {
		return "", err
	}
	// What lies in the directory would look as if it belonged to the release.
	if entries, err := os.ReadDir(r.out); err != nil || len(entries) > 0 {
		return "", errors.Join(err, fmt.Errorf("%s holds files; remove it first", r.out))
	}
	modules, err := r.modules(ctx)
	if err != nil {
		return "", err
	}
	licences, err := licences(modules)
	if err != nil {
		return "", err
	}
	files := map[string][]byte{}
	for _, on := range targets {
		name := fmt.Sprintf("socket_vmnet-%s-%s.tar.gz", strings.TrimPrefix(r.version, "v"), on.name)
		entries, err := r.contents(ctx, on, licences)
		if err == nil {
			files[name], err = pack(entries, r.time)
		}
		if err == nil && on.goos == "linux" {
			err = r.packages(ctx, on, entries, files)
		}
		if err != nil {
			return "", fmt.Errorf("%s: %w", on.name, err)
		}
	}
	if files["sbom.cdx.json"], err = r.billOfMaterials(modules); err != nil {
		return "", err
	}
	std := slices.IndexFunc(modules, func(m module) bool { return m.path == "std" })
	files["build-env.txt"] = fmt.Appendf(nil, "Go: go%s\nVERSION: %s\nSOURCE_DATE_EPOCH: %d\n", modules[std].version, r.version, r.time.Unix())
	var sums []byte // in the format of sha256sum and shasum
	for _, name := range slices.Sorted(maps.Keys(files)) {
		sums = fmt.Appendf(sums, "%x  %s\n", sha256.Sum256(files[name]), name)
	}
	files["SHA256SUMS"] = sums
	for name, b := range files {
		if err := os.WriteFile(filepath.Join(r.out, name), b, 0o644); err != nil {
			return "", err
		}
	}
	return string(sums), nil
}

// contents are what an archive has: a target's programs, its system's documents and the licences of what is linked in.
func (r *release) contents(ctx context.Context, on target, licences []byte) ([]entry, error) {
	entries, err := r.programs(ctx, on)
	if err != nil {
		return nil, err
	}
	documents, err := documents(on.goos)
	if err != nil {
		return nil, err
	}
	return append(append(entries, documents...), entry{doc + "LICENSE.third-party", 0o644, licences}), nil
}

// buildTime is the time that everything in the archives has: SOURCE_DATE_EPOCH, else that of the commit.
func buildTime(ctx context.Context) (time.Time, error) {
	text := os.Getenv("SOURCE_DATE_EPOCH")
	if text == "" {
		out, err := output(exec.CommandContext(ctx, "git", "log", "-1", "--pretty=%ct"))
		if err != nil {
			return time.Time{}, fmt.Errorf("find the time of the commit: %w; set SOURCE_DATE_EPOCH to build outside of git", err)
		}
		text = strings.TrimSpace(string(out))
	}
	seconds, err := strconv.ParseUint(text, 10, 32)
	if err != nil {
		return time.Time{}, fmt.Errorf("SOURCE_DATE_EPOCH %q: want seconds since 1970", text)
	}
	return time.Unix(int64(seconds), 0).UTC(), nil
}

// An entry is one file in an archive. Its name is relative and slash-separated.
type entry struct {
	name string
	mode int64
	data []byte
}

// pack puts the entries and the directories above them into a compressed tar file: everything is root's and has one time, names
// are sorted and begin with "./", which is how those who unpack single files ask for them.
func pack(entries []entry, when time.Time) ([]byte, error) {
	byName := map[string]entry{}
	for _, e := range entries {
		if _, twice := byName[e.name]; twice {
			return nil, fmt.Errorf("%s is in the archive twice", e.name)
		}
		byName[e.name] = e
		for dir := path.Dir(e.name); dir != "."; dir = path.Dir(dir) {
			byName[dir+"/"] = entry{mode: 0o755}
		}
	}
	var packed bytes.Buffer
	zw := gzip.NewWriter(&packed) // the header has no name, no time and no system; the best level takes three times as long for 0.3 %
	tw := tar.NewWriter(zw)
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		e := byName[name]
		h := &tar.Header{Typeflag: tar.TypeReg, Name: "./" + name, Mode: e.mode, Size: int64(len(e.data)), ModTime: when, Format: tar.FormatUSTAR}
		if strings.HasSuffix(name, "/") {
			h.Typeflag = tar.TypeDir
		}
		if err := tw.WriteHeader(h); err != nil {
			return nil, fmt.Errorf("pack %s: %w", name, err)
		}
		if _, err := tw.Write(e.data); err != nil {
			return nil, fmt.Errorf("pack %s: %w", name, err)
		}
	}
	if err := errors.Join(tw.Close(), zw.Close()); err != nil {
		return nil, err
	}
	return packed.Bytes(), nil
}
