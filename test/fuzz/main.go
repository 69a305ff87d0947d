// SPDX-License-Identifier: Apache-2.0

// Command fuzz runs every fuzz target of the repository in turn for a set time and tells how many inputs each was given and
// which crashed. An input that crashed is where go test puts it, in testdata/fuzz of its package, for good: from then on it is a
// test.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"
)

// A target is a fuzz target.
type target struct {
	module string // directory of its module
	pkg    string // import path
	dir    string
	name   string
}

// An outcome is how a target went.
type outcome struct {
	Package string  `json:"package"`
	Target  string  `json:"target"`
	Seconds float64 `json:"seconds"`
	Execs   int     `json:"executions"`
	Corpus  int     `json:"corpus"` // files in the repository, besides what the target adds itself
	Crashes int     `json:"crashes"`
	Text    string  `json:"text,omitempty"` // what go test said of a crash
}

// modules are the directories with modules that have fuzz targets.
var modules = []string{".", "attach"}

func main() {
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

// run returns the exit code: 1 for crashes, 2 when targets could not be run.
func run(args []string, stdout, stderr io.Writer) int {
	f := flag.NewFlagSet("fuzz", flag.ContinueOnError)
	f.SetOutput(stderr)
	long := f.Duration("time", 30*time.Second, "how long each target is run")
	only := f.String("run", "", "only targets whose package and name match this regular expression, as in internal/frame.FuzzScan")
	parallel := f.Int("parallel", min(2, runtime.NumCPU()), "workers of a target")
	to := f.String("json", "", "write the result there as JSON as well")
	list := f.Bool("list", false, "list the targets and do no more")
	if err := f.Parse(args); errors.Is(err, flag.ErrHelp) {
		return 0
	} else if err != nil {
		return 2
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	all, err := fuzz(ctx, fuzzOptions{long: *long, only: *only, parallel: *parallel, list: *list, progress: stderr})
	print(stdout, all)
	if err == nil && *to != "" {
		err = write(*to, all)
	}
	if err != nil {
		_, _ = fmt.Fprintln(stderr, "fuzz:", err)
		return 2
	}
	if slices.ContainsFunc(all, func(o outcome) bool { return o.Crashes > 0 }) {
		return 1
	}
	return 0
}

type fuzzOptions struct {
	long     time.Duration
	only     string
	parallel int
	list     bool
	progress io.Writer
}

func fuzz(ctx context.Context, o fuzzOptions) (all []outcome, err error) {
	only, err := regexp.Compile(o.only)
	if err != nil {
		return nil, fmt.Errorf("-run: %w", err)
	}
	var targets []target
	for _, m := range modules {
		found, err := find(ctx, m)
		if err != nil {
			return nil, err
		}
		targets = append(targets, found...)
	}
	targets = slices.DeleteFunc(targets, func(t target) bool { return !only.MatchString(t.pkg + "." + t.name) })
	if len(targets) == 0 {
		return nil, fmt.Errorf("no fuzz target matches %q", o.only)
	}
	for _, t := range targets {
		x := outcome{Package: short(t.pkg), Target: t.name, Corpus: corpus(t)}
		if !o.list {
			_, _ = fmt.Fprintf(o.progress, "%s.%s\n", x.Package, x.Target)
			if err := t.run(ctx, o, &x); err != nil {
				return all, err
			}
		}
		all = append(all, x)
	}
	return all, nil
}

var function = regexp.MustCompile(`(?m)^func (Fuzz\w*)\(`)

// find looks for the targets of a module, in the files that are built on this system.
func find(ctx context.Context, module string) (all []target, err error) {
	cmd := exec.CommandContext(ctx, "go", "list", "-json=Dir,ImportPath,TestGoFiles,XTestGoFiles", "./...")
	cmd.Dir, cmd.Stderr = module, os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("list packages of %s: %w", module, err)
	}
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p struct {
			Dir, ImportPath           string
			TestGoFiles, XTestGoFiles []string
		}
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return nil, err
		}
		for _, f := range slices.Concat(p.TestGoFiles, p.XTestGoFiles) {
			b, err := os.ReadFile(filepath.Join(p.Dir, f))
			if err != nil {
				return nil, err
			}
			for _, m := range function.FindAllSubmatch(b, -1) {
				all = append(all, target{module, p.ImportPath, p.Dir, string(m[1])})
			}
		}
	}
}

// corpus is how many inputs of a target lie in the repository.
func corpus(t target) int {
	files, _ := os.ReadDir(filepath.Join(t.dir, "testdata", "fuzz", t.name))
	return len(files)
}

// run runs a target. The error is of go test itself, not of an input.
func (t target) run(ctx context.Context, o fuzzOptions, x *outcome) error {
	began := time.Now()
	cmd := exec.CommandContext(ctx, "go", "test", "-run=^$", "-fuzz=^"+t.name+"$", "-fuzztime="+o.long.String(),
		"-fuzzminimizetime=200x", "-parallel="+strconv.Itoa(o.parallel), t.pkg)
	cmd.Dir = t.module
	out, err := cmd.CombinedOutput()
	x.Seconds = time.Since(began).Seconds()
	return x.read(string(out), err)
}

var (
	executions = regexp.MustCompile(`execs: (\d+)`)
	written    = regexp.MustCompile(`Failing input written to|--- FAIL: Fuzz`)
)

// read reads what go test said, and with what error it ended.
func (x *outcome) read(out string, err error) error {
	for _, m := range executions.FindAllStringSubmatch(out, -1) {
		x.Execs, _ = strconv.Atoi(m[1])
	}
	switch {
	case err == nil:
		return nil
	case written.MatchString(out):
		x.Crashes, x.Text = 1, out
		return nil
	}
	return fmt.Errorf("run %s.%s: %w\n%s", x.Package, x.Target, err, out)
}

// print prints the outcomes as a table.
func print(out io.Writer, all []outcome) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	_, _ = fmt.Fprintln(w, "executions\tseconds\tcorpus\tcrashes\t  target\t")
	execs, crashes := 0, 0
	for _, x := range all {
		_, _ = fmt.Fprintf(w, "%d\t%.0f\t%d\t%d\t  %s.%s\t\n", x.Execs, x.Seconds, x.Corpus, x.Crashes, x.Package, x.Target)
		execs, crashes = execs+x.Execs, crashes+x.Crashes
	}
	_, _ = fmt.Fprintf(w, "%d\t\t\t%d\t  %d targets\t\n", execs, crashes, len(all))
	_ = w.Flush()
	for _, x := range all {
		if x.Text != "" {
			_, _ = fmt.Fprintf(out, "\n%s.%s:\n%s\n", x.Package, x.Target, x.Text)
		}
	}
}

func write(path string, all []outcome) error {
	b, err := json.MarshalIndent(all, "", "\t")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(b, '\n'), 0o644)
}

// short is an import path without the module's.
func short(pkg string) string {
	return strings.TrimPrefix(pkg, "github.com/socket-vmnet2/socket_vmnet2/")
}
