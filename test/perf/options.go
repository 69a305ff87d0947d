// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

const usage = `Usage: test/perf.sh VERB [OPTION]...

Verbs:
  create                            create the machines perf1 to perfCOUNT
  run                               measure all directions with one daemon
  host-to-vm, vm-to-host, vm-to-vm  measure one direction with an old and a new daemon in turn: A B B A ...
  report                            print tables of the results in OUT_DIR
  delete                            delete the machines perf1 to perfCOUNT

Options:
  -c COUNT       number of machines (default 2)
  -t SECONDS     time to transmit for (default 30)
  -v VM_TYPE     vz, qemu, krunkit (Lima on macOS; default vz), vzguest (test/vzguest on macOS) or qemu (Linux)
  -b IFACE       bridged mode with the host's interface IFACE (macOS)
  -o OUT_DIR     directory for results (default perf.out)
  -r ROUNDS      measurements of each daemon with an old and a new one (default 2)
  -s DAEMON      the daemon of run
  --old DAEMON   the old daemon (default on Linux: flood)
  --new DAEMON   the new daemon (default: tree)

DAEMON is one of
  a socket       of a daemon that is running, such as /var/run/socket_vmnet, which is what run takes on macOS without -s
  a program      that is started for the measurement, on macOS as root with sudo
  tree           this source tree's, built and started for the measurement, which is what run takes on Linux without -s
  flood          Linux: a stand-in for socket_vmnet, which runs on macOS only; vm-to-vm alone
`

var (
	errHelp  = errors.New("help")
	errUsage = errors.New("wrong command line")
)

var verbs = []string{"create", "run", "host-to-vm", "vm-to-host", "vm-to-vm", "report", "delete"}

// What is more than this is a slip.
const (
	maxCount   = 64
	maxSeconds = 24 * 60 * 60
	maxRounds  = 1000
)

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

	words []string // the command line
}

// mode is the network's mode as names of results have it.
func (o *options) mode() string {
	if o.iface != "" {
		return "bridged"
	}
	return "shared"
}

// config is the name of a directory with results of run.
func (o *options) config() string { return fmt.Sprintf("%s-%s-%d", o.mode(), o.vm, o.count) }

func usageError(format string, args ...any) error {
	return fmt.Errorf("%w: %s", errUsage, fmt.Sprintf(format, args...))
}

// parse reads a command line: a verb, then options with their value in the next word, or attached as in -c3 and --old=x.
func parse(args []string, goos string) (options, error) {
	o := options{count: 2, out: "perf.out", words: args}
	if len(args) == 0 {
		return o, usageError("no verb")
	}
	if slices.Contains([]string{"-h", "--help", "help"}, args[0]) {
		return o, errHelp
	}
	if o.verb = args[0]; !slices.Contains(verbs, o.verb) {
		return o, usageError("%q is no verb", o.verb)
	}
	for args = args[1:]; len(args) > 0; {
		name, value, attached := split(args[0])
		args = args[1:]
		if name == "-h" || name == "--help" {
			return o, errHelp
		}
		set := o.setter(name)
		switch {
		case set == nil && strings.HasPrefix(name, "-"):
			return o, usageError("there is no option %s", name)
		case set == nil:
			return o, usageError("what is %q for? Every value needs an option in front of it", name)
		case !attached && len(args) == 0:
			return o, usageError("%s needs a value", name)
		case !attached:
			value, args = args[0], args[1:]
		}
		if err := set(value); err != nil {
			return o, usageError("%s %s: %v", name, value, err)
		}
	}
	return o, o.check(goos)
}

// split takes an attached value off an option.
func split(word string) (name, value string, attached bool) {
	if strings.HasPrefix(word, "--") {
		return strings.Cut(word, "=")
	}
	if strings.HasPrefix(word, "-") && len(word) > 2 {
		return word[:2], word[2:], true
	}
	return word, "", false
}

// setter is what stores the value of an option, nil where there is none of that name.
func (o *options) setter(name string) func(string) error {
	return map[string]func(string) error{
		"-c":    number(&o.count, maxCount),
		"-t":    number(&o.seconds, maxSeconds),
		"-r":    number(&o.rounds, maxRounds),
		"-v":    text(&o.vm),
		"-b":    text(&o.iface),
		"-o":    text(&o.out),
		"-s":    text(&o.daemon),
		"--old": text(&o.old),
		"--new": text(&o.new),
	}[name]
}

func number(to *int, limit int) func(string) error {
	return func(s string) error {
		n, err := strconv.Atoi(s)
		if err != nil || n < 1 || n > limit {
			return fmt.Errorf("want a number from 1 to %d", limit)
		}
		*to = n
		return nil
	}
}

func text(to *string) func(string) error {
	return func(s string) error {
		if s == "" {
			return errors.New("want a value that is not empty")
		}
		*to = s
		return nil
	}
}

// check refuses what does not go together and fills in what depends on the system.
func (o *options) check(goos string) error {
	types := map[string][]string{"darwin": {"vz", "qemu", "krunkit", vzguest}, "linux": {"qemu"}}[goos]
	isComparison := strings.Contains(o.verb, "-to-")
	switch {
	case types == nil && o.verb != "report":
		return fmt.Errorf("machines are measured on macOS and Linux, this is %s; results can be read here: test/perf.sh report", goos)
	case o.verb == "report":
		return nil
	case o.vm == "":
		o.vm = types[0]
	case !slices.Contains(types, o.vm):
		return usageError("-v %s: on %s the types are %s", o.vm, map[string]string{"darwin": "macOS", "linux": "Linux"}[goos], strings.Join(types, ", "))
	}
	switch {
	case o.iface != "" && goos != "darwin":
		return errors.New("-b: bridged mode needs macOS")
	case strings.Contains(o.iface, "/"):
		return usageError("-b %s: want the name of an interface such as en0", o.iface)
	case o.daemon != "" && o.verb != "run":
		return usageError("-s is for the verb run; host-to-vm, vm-to-host and vm-to-vm have --old and --new")
	case o.old+o.new != "" && !isComparison:
		return usageError("--old and --new are for the verbs host-to-vm, vm-to-host and vm-to-vm; run has -s")
	case o.rounds != 0 && !isComparison:
		return usageError("-r is for the verbs host-to-vm, vm-to-host and vm-to-vm")
	case o.verb == "vm-to-vm" && o.count < 2:
		return usageError("vm-to-vm needs two machines: -c 2")
	}
	return o.complete(goos, isComparison)
}

func (o *options) complete(goos string, isComparison bool) error {
	if o.seconds == 0 {
		o.seconds = 30
	}
	if o.rounds == 0 {
		o.rounds = 2
	}
	if !isComparison {
		return nil
	}
	if o.new == "" {
		o.new = "tree"
	}
	if o.old == "" && goos == "linux" {
		o.old = "flood"
	}
	if o.old == "" {
		return usageError("--old is missing: the program socket_vmnet, or the socket of one that is running")
	}
	if o.old == "flood" && o.verb != "vm-to-vm" {
		return fmt.Errorf("%s with --old flood: the stand-in joins machines and has no host behind it. Measure vm-to-vm, or name another old daemon", o.verb)
	}
	return nil
}
