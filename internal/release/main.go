// SPDX-License-Identifier: Apache-2.0

// Command release makes the archives of a release for macOS, on any operating system:
//
//	OUT/socket_vmnet-VERSION-arm64.tar.gz
//	OUT/socket_vmnet-VERSION-x86_64.tar.gz
//	OUT/build-env.txt   what is needed to make the same bytes again
//	OUT/SHA256SUMS      of all of them
//
// The names and the paths in the archives are those of socket_vmnet, because other projects download them. The same
// sources, version, time and Go release give the same bytes. It runs at the root of the repository; see
// docs/releasing.md.
package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
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

func main() {
	var r release
	flag.StringVar(&r.version, "version", "", "the `version`, as the programs print it")
	flag.StringVar(&r.goTool, "go", "go", "the go `command`")
	flag.StringVar(&r.ldflags, "ldflags", "", "`flags` for Go's linker; they set the version in the programs")
	flag.StringVar(&r.out, "out", "artifacts", "the `directory` to make; it must not exist or be empty")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := r.run(ctx, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

// run makes everything and tells on stdout what it made.
func (r *release) run(ctx context.Context, args []string) error {
	if len(args) > 0 {
		return fmt.Errorf("unexpected argument %q", args[0])
	}
	if err := checkVersion(r.version); err != nil {
		return err
	}
	var err error
	if r.time, err = buildTime(ctx); err != nil {
		return err
	}
	if err := makeEmpty(r.out); err != nil {
		return err
	}
	documents, err := r.documents(ctx)
	if err != nil {
		return err
	}
	files := map[string][]byte{}
	for _, arch := range architectures {
		programs, err := r.programs(ctx, arch)
		if err != nil {
			return fmt.Errorf("%s: %w", arch.name, err)
		}
		name := fmt.Sprintf("socket_vmnet-%s-%s.tar.gz", strings.TrimPrefix(r.version, "v"), arch.name)
		if files[name], err = archive(slices.Concat(programs, documents), r.time); err != nil {
			return err
		}
	}
	if files["build-env.txt"], err = r.environment(ctx); err != nil {
		return err
	}
	files["SHA256SUMS"] = sums(files)
	return write(r.out, files)
}

// checkVersion refuses what would not do in the name of a file.
func checkVersion(version string) error {
	if !regexp.MustCompile(`^(v[A-Za-z0-9._+~-]|[A-Za-uw-z0-9])[A-Za-z0-9._+~-]*$`).MatchString(version) {
		return fmt.Errorf("version %q: want letters, digits and any of ._+~-, as in v1.2.3", version)
	}
	return nil
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

// makeEmpty makes a directory, or takes an empty one: what lies there would look as if it belonged to the release.
func makeEmpty(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	entries, err := os.ReadDir(dir)
	if err == nil && len(entries) > 0 {
		err = fmt.Errorf("%s: %w and holds %s; remove it first", dir, fs.ErrExist, entries[0].Name())
	}
	return err
}

// environment tells what the bytes depend on besides the sources.
func (r *release) environment(ctx context.Context) ([]byte, error) {
	version, err := output(exec.CommandContext(ctx, r.goTool, "env", "GOVERSION"))
	if err != nil {
		return nil, err
	}
	return fmt.Appendf(nil, "Go: %sVERSION: %s\nSOURCE_DATE_EPOCH: %d\n", version, r.version, r.time.Unix()), nil
}

// sums gives the contents of SHA256SUMS, in the format of sha256sum and shasum.
func sums(files map[string][]byte) []byte {
	var lines []string
	for name, b := range files {
		lines = append(lines, fmt.Sprintf("%x  %s\n", sha256.Sum256(b), name))
	}
	slices.SortFunc(lines, func(a, b string) int { return strings.Compare(a[2*sha256.Size:], b[2*sha256.Size:]) })
	return []byte(strings.Join(lines, ""))
}

// write puts the files in place and lists them.
func write(dir string, files map[string][]byte) error {
	fmt.Print(string(files["SHA256SUMS"]))
	var errs []error
	for name, b := range files {
		errs = append(errs, os.WriteFile(filepath.Join(dir, name), b, 0o644))
	}
	return errors.Join(errs...)
}

// output runs a command; the error holds what it complained about.
func output(c *exec.Cmd) ([]byte, error) {
	var stderr strings.Builder
	c.Stderr = &stderr
	out, err := c.Output()
	if err != nil {
		return nil, fmt.Errorf("%s: %w: %s", strings.Join(c.Args, " "), err, strings.TrimSpace(stderr.String()))
	}
	return out, nil
}
