// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/socket-vmnet2/socket_vmnet2/internal/compat"
	"github.com/socket-vmnet2/socket_vmnet2/internal/vnet"
)

// ours are the programs that are ours, or that only work on what is ours.
var ours map[string]func(command) error

func init() { // try calls what is in it
	ours = map[string]func(command) error{
		"socket_vmnet": daemon, "socket_vmnet2": program2, "socket_vmnet_client": client, "vmnet-helper": helper,
		"make": makefile, "go": goTool, "curl": curl,
	}
}

// subcommands are what socket_vmnet2 can be asked for in place of the daemon.
var subcommands = map[string]func(command, []string) error{
	"exec":     func(c command, _ []string) error { return client(c) },
	"help":     parsed,
	"version":  parsed,
	"selftest": parsed,
	"upgrade":  upgrade,
	"install":  staged,
	"rollback": staged,
	"service":  service,
	"migrate":  migrate,
	"doctor":   examine,
	"try":      tryOut,

	"status":    asked,
	"clients":   asked,
	"kick":      asked,
	"capture":   captured,
	"log-level": asked,
}

func program2(c command) error {
	args := c.args()
	if len(args) == 0 {
		return errors.New("no option, no SOCKET and no subcommand")
	}
	if h := subcommands[args[0]]; h != nil {
		return h(c, args)
	}
	return daemon(c)
}

// daemon holds a command line against the daemon's own parser, and runs the daemon until it serves if this system can.
func daemon(c command) error {
	name := c.program()
	var out, errs bytes.Buffer
	none := func(string) (string, bool) { return "", false }
	cfg, outcome := compat.Parse(compat.PersonalityOf(name), append([]string{name}, c.args()...), compat.IO{Stdout: &out, Stderr: &errs, LookupEnv: none})
	if cfg == nil {
		if outcome.Code != 0 {
			return fmt.Errorf("exit code %d: %s", outcome.Code, errs.String())
		}
		_, err := box.run(box.dir, append([]string{box.installed("bin/" + name)}, c.args()...)...)
		return err
	}
	if cfg.Mode == vnet.ModeBridged || cfg.Backend == compat.BackendVmnet || cfg.ListInterfaces || cfg.VmnetAPI != compat.APIAuto {
		return nil // macOS's
	}
	dir, err := box.fresh()
	if err != nil {
		return err
	}
	socket := filepath.Join(dir, "s")
	args := slices.DeleteFunc(c.args(), func(a string) bool { return strings.HasPrefix(a, "--socket-group=") }) // the user here may be in no other
	for i, a := range args {
		if a == cfg.SocketPath {
			args[i] = socket
			continue
		}
		args[i] = box.replace(a, "/tmp/", dir+"/", "/var/run/", dir+"/", "/private/var/run/lima/", dir+"/", "/var/db/", dir+"/")
	}
	p, err := box.start(dir, box.installed("bin/"+name), args...)
	if err != nil {
		return err
	}
	if err := p.untilServes(socket); err != nil {
		return err
	}
	return p.stop()
}

// client runs socket_vmnet_client or exec: what it becomes is one of the fakes, which looks at what it was given.
func client(c command) error {
	words := []string{box.installed("bin/" + c.program())}
	for _, a := range c.args() {
		words = append(words, box.client(a))
	}
	_, err := box.run(box.dir, words...)
	return err
}

// helper holds the options of vmnet-helper against its own parser; docs/integrations has a test that runs it.
func helper(c command) error {
	return helps(box.dir, append([]string{box.installed("libexec/vmnet-helper")}, c.args()...))
}

// helps runs a command with --help behind its options: the parser sees all of them, and nothing else is done.
func helps(dir string, words []string) error {
	out, err := box.run(dir, append(words, "--help")...)
	if err == nil && !strings.Contains(out, "Usage: ") && !strings.Contains(out, "[-h|--help]") {
		err = fmt.Errorf("no usage text: %s", out)
	}
	return err
}

func parsed(_ command, args []string) error {
	return helps(box.dir, append([]string{box.installed("bin/socket_vmnet2")}, args...))
}

// captured looks at the options of capture, behind which there may be a filter.
func captured(_ command, args []string) error {
	n := 1
	for n < len(args) && strings.HasPrefix(args[n], "-") {
		if len(args[n]) == 2 { // its value follows
			n++
		}
		n++
	}
	out, err := box.run(box.dir, append([]string{box.installed("bin/socket_vmnet2"), args[0], "--help"}, args[1:min(n, len(args))]...)...)
	if err == nil && !strings.Contains(out, "Usage: ") {
		err = fmt.Errorf("no usage text: %s", out)
	}
	return err
}

// service looks at the options. What it does is tested in internal/service, with managers that are fakes.
func service(c command, args []string) error {
	if i := slices.Index(args, "--"); i >= 0 {
		line := append([]string{"socket_vmnet2"}, args[i+1:]...)
		var errs bytes.Buffer
		none := func(string) (string, bool) { return "", false }
		if cfg, _ := compat.Parse(compat.New, line, compat.IO{Stdout: &errs, Stderr: &errs, LookupEnv: none}); cfg == nil {
			return fmt.Errorf("%q: %s", line, &errs)
		}
		args = args[:i]
	}
	if len(args) < 2 || !slices.Contains([]string{"install", "uninstall", "start", "stop", "restart", "status"}, args[1]) {
		return fmt.Errorf("%q: no action", args)
	}
	return parsed(c, args)
}

func upgrade(_ command, args []string) error {
	words := []string{box.installed("bin/socket_vmnet2")}
	for _, a := range args {
		words = append(words, box.client(a))
	}
	out, err := box.run(box.dir, words...)
	if err == nil && !strings.Contains(out, "upgraded from") && !strings.Contains(out, `"to"`) {
		err = fmt.Errorf("no answer: %s", out)
	}
	return err
}

// asked looks at the options, which are in front of the arguments. What the commands print is on pages with tests of their own.
func asked(_ command, args []string) error {
	n := 1
	for n < len(args) && strings.HasPrefix(args[n], "-") && args[n] != "--" {
		n++
	}
	return helps(box.dir, append([]string{box.installed("bin/socket_vmnet2")}, args[:n]...))
}

// here leaves out options that name places of the reader's, for which the sandbox has its own.
func here(args []string) []string {
	return slices.DeleteFunc(slices.Clone(args), func(a string) bool {
		return strings.HasPrefix(a, "--root=") || strings.HasPrefix(a, "--home=") || strings.HasPrefix(a, "--from=")
	})
}

// staged runs install and rollback below a directory in which there is nothing yet.
func staged(_ command, args []string) error {
	args = here(args)
	dir, err := os.MkdirTemp(box.dir, "stage")
	if err != nil {
		return err
	}
	words := func(args []string) []string {
		w := append([]string{box.installed("bin/socket_vmnet2")}, args[0], "--root="+dir)
		return append(w, args[1:]...)
	}
	if args[0] == "rollback" { // there must be something to go back from
		do := []string{"install"}
		for _, a := range args[1:] {
			if strings.HasPrefix(a, "--prefix") {
				do = append(do, a)
			}
		}
		if _, err := box.run(box.dir, words(do)...); err != nil {
			return err
		}
	}
	_, err = box.run(box.dir, words(args)...)
	return err
}

// examine runs doctor on a directory in which there is nothing.
func examine(_ command, args []string) error {
	dir, err := os.MkdirTemp(box.dir, "root")
	if err != nil {
		return err
	}
	words := append([]string{box.installed("bin/socket_vmnet2"), args[0], "--root=" + dir}, here(args[1:])...)
	_, err = box.run(box.dir, words...)
	return err
}

func migrate(_ command, args []string) error {
	args = here(args)
	dir, err := os.MkdirTemp(box.dir, "root")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(dir, "Users/somebody"), 0o755); err != nil {
		return err
	}
	words := append([]string{box.installed("bin/socket_vmnet2"), args[0], "--root=" + dir, "--home=/Users/somebody"}, args[1:]...)
	out, err := box.run(box.dir, words...)
	if err != nil && out != "" && strings.Contains(err.Error(), "exit status 2") {
		return nil // nothing to migrate there
	}
	return err
}

// tryOut starts it until it says that it is ready.
func tryOut(_ command, args []string) error {
	dir, err := box.fresh()
	if err != nil {
		return err
	}
	p, err := box.start(dir, box.installed("bin/socket_vmnet2"), args...)
	if err != nil {
		return err
	}
	if err := p.until("printed the lines", func() bool { return strings.Contains(p.out.String(), "networks") }); err != nil {
		return err
	}
	return p.stop()
}

// makefile has make read the goals and variables, without running anything.
func makefile(c command) error {
	_, err := box.run(root, append([]string{"make", "-n"}, c.args()...)...)
	return err
}

// goTool looks for the package that a go command names, and for its flags in the package's source.
func goTool(c command) error {
	args := c.args()
	if len(args) == 0 {
		return errors.New("go without a command")
	}
	const module = "github.com/socket-vmnet2/socket_vmnet2"
	for i, a := range args[1:] {
		switch {
		case strings.HasPrefix(a, "./"):
			dir := filepath.Join(root, strings.TrimSuffix(a, "/..."))
			if m, _ := filepath.Glob(dir + "/*.go"); len(m) == 0 && !strings.HasSuffix(a, "...") {
				return fmt.Errorf("no package %s", a)
			}
			if err := sourceKnows(dir, args[0], args[i+2:]); err != nil {
				return err
			}
			if args[0] == "run" {
				return nil
			}
		case strings.HasPrefix(a, module):
			path, _, _ := strings.Cut(strings.TrimPrefix(a, module), "@")
			if m, _ := filepath.Glob(filepath.Join(root, path, "*.go")); len(m) == 0 {
				return fmt.Errorf("no package %s", a)
			}
		case args[0] == "test" && args[i] == "-run":
			if err := testExists(a); err != nil {
				return err
			}
		}
	}
	return nil
}

// sourceKnows looks for the flags of a program, or of a test behind -args, in its source.
func sourceKnows(dir, verb string, args []string) error {
	if verb == "test" {
		i := slices.Index(args, "-args")
		if i < 0 {
			return nil
		}
		args = args[i+1:]
	}
	var source []byte
	_ = filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, ".go") {
			b, _ := os.ReadFile(path)
			source = append(source, b...)
		}
		return nil
	})
	for _, a := range args {
		name, _, _ := strings.Cut(strings.TrimLeft(a, "-"), "=")
		if strings.HasPrefix(a, "-") && name != "help" && !bytes.Contains(source, []byte(`"`+name+`"`)) {
			return fmt.Errorf("%s has no flag %s", dir, a)
		}
	}
	return nil
}

// testExists looks for a test by the first part of a pattern.
func testExists(pattern string) error {
	name := regexp.MustCompile(`\w+`).FindString(pattern)
	found := errors.New("found")
	err := filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && d.Name() == ".git" {
			return filepath.SkipDir
		}
		if !strings.HasSuffix(path, "_test.go") {
			return nil
		}
		b, err := os.ReadFile(path)
		if err == nil && bytes.Contains(b, []byte("\nfunc "+name)) {
			return found
		}
		return err
	})
	if errors.Is(err, found) {
		return nil
	}
	return errors.Join(fmt.Errorf("no test %s", name), err)
}

// script runs our own scripts as far as their options go.
func script(c command) error {
	path := filepath.Join(root, c.words[0])
	if _, err := os.Stat(path); err != nil {
		return err
	}
	switch strings.TrimPrefix(c.words[0], "./") {
	case "test/perf.sh":
		return helps(root, append([]string{perfProgram()}, c.args()...))
	case "test/e2e/setup.sh":
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, a := range c.args() {
			if !regexp.MustCompile(`(?m)^(.*\| )?` + regexp.QuoteMeta(a) + `( \|.*)?\) ;;`).Match(text) {
				return fmt.Errorf("setup.sh does not know %q", a)
			}
		}
		return nil
	}
	return fmt.Errorf("nobody knows the script %s", c.words[0])
}
