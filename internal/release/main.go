// SPDX-License-Identifier: Apache-2.0

// Command release makes the archives of a release, on any operating system:
//
//	OUT/socket_vmnet-VERSION-arm64.tar.gz          for macOS
//	OUT/socket_vmnet-VERSION-x86_64.tar.gz
//	OUT/socket_vmnet-VERSION-linux-arm64.tar.gz
//	OUT/socket_vmnet-VERSION-linux-x86_64.tar.gz
//	OUT/build-env.txt   what is needed to make the same bytes again
//	OUT/sbom.cdx.json   the modules in the programs, as CycloneDX
//	OUT/SHA256SUMS      of all of them
//
// The names for macOS and the paths in the archives are those of socket_vmnet, because other projects download them. The
// same sources, version, time and Go release give the same bytes.
//
//	release notes -version v1.2.3
//	release formula -version v1.2.3 -source FILE
//
// print what CHANGELOG.md says of a version, and the Homebrew formula with the address and the checksum of the sources in
// FILE. All of it runs at the root of the repository; see docs/releasing.md.
package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
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
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := command(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

// command does what the arguments say.
func command(ctx context.Context, args []string, stdout io.Writer) error {
	var r release
	var source string
	flags := flag.NewFlagSet("release", flag.ExitOnError)
	flags.StringVar(&r.version, "version", "", "the `version`, as the programs print it")
	what := ""
	if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		what, args = args[0], args[1:]
	}
	switch what {
	case "":
		flags.StringVar(&r.goTool, "go", "go", "the go `command`")
		flags.StringVar(&r.ldflags, "ldflags", "", "`flags` for Go's linker; they set the version in the programs")
		flags.StringVar(&r.out, "out", "artifacts", "the `directory` to make; it must not exist or be empty")
	case "formula":
		flags.StringVar(&source, "source", "", "the `file` with the sources, as GitHub packs them for the tag")
	case "notes":
	default:
		return fmt.Errorf("unknown command %q: want notes, formula, or none to make the archives", what)
	}
	_ = flags.Parse(args) // exits by itself
	if flags.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	if err := checkVersion(r.version); err != nil {
		return err
	}
	switch what {
	case "notes":
		return printNotes(stdout, r.version)
	case "formula":
		return printFormula(stdout, r.version, source)
	}
	return r.run(ctx, stdout)
}

// run makes the archives and tells what it made.
func (r *release) run(ctx context.Context, stdout io.Writer) error {
	var err error
	if r.time, err = buildTime(ctx); err != nil {
		return err
	}
	if err := makeEmpty(r.out); err != nil {
		return err
	}
	modules, err := r.modules(ctx)
	if err != nil {
		return err
	}
	files, err := r.archives(ctx, modules)
	if err != nil {
		return err
	}
	if files["sbom.cdx.json"], err = r.billOfMaterials(modules); err != nil {
		return err
	}
	if files["build-env.txt"], err = r.environment(ctx); err != nil {
		return err
	}
	files["SHA256SUMS"] = sums(files)
	if err := write(r.out, files); err != nil {
		return err
	}
	_, err = stdout.Write(files["SHA256SUMS"])
	return err
}

// archives makes as many archives at a time as there are processors: much of making one keeps only one busy.
func (r *release) archives(ctx context.Context, modules []module) (map[string][]byte, error) {
	licences, err := licences(modules)
	if err != nil {
		return nil, err
	}
	var (
		wg    sync.WaitGroup
		mu    sync.Mutex // guards what follows
		errs  []error
		files = map[string][]byte{}
		turns = make(chan struct{}, runtime.NumCPU())
	)
	for _, on := range targets {
		wg.Go(func() {
			turns <- struct{}{}
			defer func() { <-turns }()
			name, packed, err := r.archive(ctx, on, licences)
			mu.Lock()
			defer mu.Unlock()
			errs, files[name] = append(errs, err), packed
		})
	}
	wg.Wait()
	return files, errors.Join(errs...)
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

// write puts the files in place.
func write(dir string, files map[string][]byte) error {
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
