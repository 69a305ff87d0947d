// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

const usage = `Usage: test/perf.sh VERB [OPTION]...

Verbs:
  create                            create the machines vmnet2-perf1 to vmnet2-perfCOUNT
  run                               measure all directions with one daemon
  host-to-vm, vm-to-host, vm-to-vm  measure one direction with an old and a new daemon in turn: A B B A ...
  delete                            delete the machines vmnet2-perf1 to vmnet2-perfCOUNT

Options:
  -c COUNT       number of machines (default 2)
  -t SECONDS     time to transmit for (default 30)
  -v VM_TYPE     vz, qemu, krunkit (Lima on macOS; default vz) or qemu (Linux)
  -b IFACE       bridged mode with the host's interface IFACE (macOS)
  -o OUT_DIR     directory for results (default perf.out)
  -r ROUNDS      measurements of each daemon with an old and a new one (default 2)
  -s DAEMON      the daemon of run
  --old DAEMON   the old daemon
  --new DAEMON   the new daemon (default: tree)

DAEMON is one of
  a socket       of a daemon that is running, such as /var/run/socket_vmnet, which is what run takes on macOS without -s
  a program      that is started for the measurement, on macOS as root with sudo
  tree           this source tree's, built and started for the measurement, which is what run takes on Linux without -s
`

var errHelp = errors.New("help")

// vmTypes are the types of machines on each system, the default first.
var vmTypes = map[string][]string{"darwin": {"vz", "qemu", "krunkit"}, "linux": {"qemu"}}

// options are what the command line says.
type options struct {
	verb     string
	count    int
	seconds  int
	vm       string
	iface    string // empty for shared mode
	out      string
	rounds   int
	daemon   string // the three are empty, or name a daemon as the usage has it
	old, new string
}

// config is the name of a directory with results of run, as socket_vmnet's script has it.
func (o *options) config() string {
	mode := "shared"
	if o.iface != "" {
		mode = "bridged"
	}
	return fmt.Sprintf("%s-%s-%d", mode, o.vm, o.count)
}

func usageError(format string, args ...any) error {
	return fmt.Errorf(format+"; test/perf.sh --help", args...)
}

// attached is a short option with its value in the same word, as in -c3.
var attached = regexp.MustCompile(`^-([ctvbors])([^=].*)$`)

// parse reads a command line: a verb, then options.
func parse(args []string, goos string) (options, error) {
	var o options
	if len(args) == 0 {
		return o, usageError("no verb")
	}
	words := []string{}
	for _, a := range args[1:] {
		words = append(words, attached.ReplaceAllString(a, "-$1=$2"))
	}
	f := flag.NewFlagSet("perf", flag.ContinueOnError)
	f.SetOutput(io.Discard)
	f.IntVar(&o.count, "c", 2, "")
	f.IntVar(&o.seconds, "t", 30, "")
	f.StringVar(&o.vm, "v", "", "")
	f.StringVar(&o.iface, "b", "", "")
	f.StringVar(&o.out, "o", "perf.out", "")
	f.IntVar(&o.rounds, "r", 2, "")
	f.StringVar(&o.daemon, "s", "", "")
	f.StringVar(&o.old, "old", "", "")
	f.StringVar(&o.new, "new", "", "")
	err := f.Parse(words)
	o.verb = args[0]
	switch {
	case errors.Is(err, flag.ErrHelp) || slices.Contains([]string{"-h", "--help", "help"}, o.verb):
		return o, errHelp
	case err != nil:
		return o, usageError("%w", err)
	case f.NArg() > 0:
		return o, usageError("what is %q for? Every value needs an option in front of it", f.Arg(0))
	}
	if err := o.check(goos); err != nil {
		return o, err
	}
	for _, path := range []*string{&o.out, &o.daemon, &o.old, &o.new} { // absolute, since the working directory changes
		if *path == "" || *path == wordTree {
			continue
		}
		if *path, err = filepath.Abs(*path); err != nil {
			return o, fmt.Errorf("find %s: %w", *path, err)
		}
	}
	return o, nil
}

// check refuses what does not go together and fills in what depends on the system.
func (o *options) check(goos string) error {
	types, comparison := vmTypes[goos], strings.Contains(o.verb, "-to-")
	if types == nil {
		return fmt.Errorf("machines are measured on macOS and Linux, this is %s", goos)
	}
	o.vm = cmp.Or(o.vm, types[0])
	if comparison {
		o.new = cmp.Or(o.new, wordTree)
	}
	switch {
	case !slices.Contains([]string{"create", "run", hostToVM, vmToHost, vmToVM, "delete"}, o.verb):
		return usageError("unknown verb %q", o.verb)
	case min(o.count, o.seconds, o.rounds) < 1 || o.count > 64: // more is a slip
		return usageError("-c wants a number from 1 to 64, -t and -r one from 1")
	case !slices.Contains(types, o.vm):
		return usageError("-v %s: the types here are %s", o.vm, strings.Join(types, ", "))
	case o.iface != "" && (goos != "darwin" || strings.Contains(o.iface, "/")):
		return usageError("-b %s: bridged mode needs macOS, and the name of an interface such as en0", o.iface)
	case o.daemon != "" && o.verb != "run":
		return usageError("-s is for the verb run; host-to-vm, vm-to-host and vm-to-vm have --old and --new")
	case o.old+o.new != "" && !comparison:
		return usageError("--old and --new are for the verbs host-to-vm, vm-to-host and vm-to-vm; run has -s")
	case comparison && o.old == "":
		return usageError("--old is missing: the program socket_vmnet, or the socket of one that is running")
	case o.verb == vmToVM && o.count < 2:
		return usageError("vm-to-vm needs two machines: -c 2")
	}
	return nil
}
