// SPDX-License-Identifier: Apache-2.0

package setup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/socket-vmnet2/socket_vmnet2/internal/compat"
	"github.com/socket-vmnet2/socket_vmnet2/internal/ops/find"
)

// JobOptions are what a command line says.
type JobOptions struct {
	Network   string   // shared, host or bridged; empty: shared
	Interface string   // with bridged
	Name      string   // of a job that is none of these
	User      bool     // of the user, not of the system
	Activated bool     // the manager makes the socket
	Prefix    string   // where the program is, as PREFIX/bin/socket_vmnet2
	Daemon    []string // its command line; empty: the network's own
	// Installing: the job will be written. Otherwise only its name counts.
	Installing bool

	Out  io.Writer
	Dry  bool              // print what would be done
	Warn func(text string) // what a dry run would be refused for
}

const (
	labelBase = "io.github.socket-vmnet2"
	unitBase  = "socket_vmnet2"
	// linuxRun is where the sockets of systemd's services are: it belongs to the user that they run as.
	linuxRun   = "/run/socket_vmnet2"
	linuxState = "/var/lib/socket_vmnet2"
	// linuxGroup is the group that may use the sockets on Linux: the users of KVM.
	linuxGroup = "kvm"
	linuxUser  = "socket_vmnet2"
	// unprivileged is the kernel of macOS 26, from which on vmnet needs no root.
	unprivileged = 25
)

// A job is one daemon as its manager knows it, on one system, and what is done with it.
type job struct {
	*system
	JobOptions
	manager manager

	Name    string // launchd's label, or the name of the unit without .service
	Title   string // of its network
	Program string
	Args    []string
	Socket  string // the last of Args

	Group   string // systemd: of the daemon and its socket
	LogDir  string // launchd
	LogName string // launchd: in front of stdout and stderr
	Runtime string // systemd, of the user: the directory of the socket, as %t knows it

	ctx     context.Context //nolint:containedctx // of the one call of Do or Status
	changed bool            // there was a step
	again   bool            // the library is asked again for a while
	err     error           // of a step
}

// Names of jobs and of interfaces, and what is special to systemd in a word of ExecStart= (systemd.service(5)).
const (
	nameRule      = `^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$`
	interfaceRule = `^[A-Za-z][A-Za-z0-9]{0,14}$`
	specialRule   = "[ \"'\\\\%$]|^;?$"
)

// fits tells whether s is as a rule has it. The daemon is the same program and does not wait for rules to be compiled.
func fits(rule, s string) bool { return regexp.MustCompile(rule).MatchString(s) }

// reserved are names that a network has.
var reserved = []string{"shared", "host", "bridged", "activated", "agent", unitBase}

// NewJob is the job that o names. An error is a bad command line, or a network that there is not on this system.
func NewJob(sys *system, o JobOptions) (*job, error) {
	o.Network, o.Prefix = cmp.Or(o.Network, "shared"), cmp.Or(o.Prefix, Prefix())
	suffix, err := sys.suffix(o)
	if err != nil {
		return nil, err
	}
	j := &job{system: sys, JobOptions: o, Name: unitBase, Title: cmp.Or(suffix, o.Network), Program: filepath.Join(o.Prefix, "bin", "socket_vmnet2")}
	switch {
	case suffix != "" && sys.GOOS != "darwin":
		j.Name += "-" + suffix
	case suffix != "" && o.Name == "":
		j.Name += "." + suffix
	case suffix != "":
		j.Name = suffix
	}
	j.manager = systemd{j}
	if sys.GOOS == "darwin" {
		j.manager = launchd{j}
		j.Name = labelBase + "." + j.Name
		j.LogDir = "/var/log/socket_vmnet2"
		if o.User {
			j.LogDir = filepath.Join(sys.Home, "Library/Logs/socket_vmnet2")
		}
		if suffix != "" {
			j.LogName = suffix + "."
		}
	}
	if !o.Installing {
		return j, nil
	}
	if !filepath.IsAbs(o.Prefix) {
		return nil, fmt.Errorf("invalid --prefix=%s: use an absolute path", o.Prefix)
	}
	return j, j.arguments(suffix)
}

// Prefix is where a job's program is unless another is named: packages have theirs in /usr.
func Prefix() string {
	if program, err := os.Executable(); err == nil && filepath.Dir(program) == "/usr/bin" {
		return "/usr"
	}
	return find.DefaultPrefix
}

// suffix is what the job's name has behind that of the shared network.
func (s *system) suffix(o JobOptions) (string, error) {
	switch {
	case !slices.Contains([]string{"shared", "host", "bridged"}, o.Network):
		return "", fmt.Errorf("--network=%s is none of shared, host and bridged", o.Network)
	case o.Interface != "" && o.Network != "bridged":
		return "", fmt.Errorf("--interface=%s is for --network=bridged", o.Interface)
	case o.Network == "bridged" && s.GOOS != "darwin":
		return "", errors.New("--network=bridged needs macOS: the network of this system is the embedded one, shared or host")
	case o.Network == "bridged" && o.Interface == "":
		return "", errors.New("--network=bridged needs --interface, such as --interface=en0; socket_vmnet2 --list-interfaces prints those that there are")
	case o.Interface != "" && !fits(interfaceRule, o.Interface):
		return "", fmt.Errorf("invalid --interface=%s: use the name of an interface, such as en0", o.Interface)
	case o.Name != "" && !fits(nameRule, o.Name):
		return "", fmt.Errorf("--name=%s cannot be the name of a job: letters, digits, - and _, 64 at most, the first a letter or digit", o.Name)
	case slices.Contains(reserved, o.Name):
		return "", fmt.Errorf("--name=%s is taken by the networks of --network: choose another", o.Name)
	case o.Name != "" && o.Installing && len(o.Daemon) == 0:
		return "", fmt.Errorf("--name=%s needs the daemon's options and SOCKET behind --, as in -- --vmnet-gateway=192.168.107.1 SOCKET", o.Name)
	case o.Name != "":
		return o.Name, nil
	}
	return map[string]string{"host": "host", "bridged": "bridged." + o.Interface}[o.Network], nil
}

// arguments fills in the daemon's command line: the one that was given, or the network's own. It refuses one that could not be a job's.
func (j *job) arguments(suffix string) error {
	j.Args = slices.Clone(j.Daemon)
	if len(j.Daemon) == 0 {
		j.Args = j.defaultArguments(suffix)
	}
	if n := len(j.Args) - 1; n >= 0 {
		j.Args[n] = j.owned(j.Args[n])
	}
	cfg, err := j.parse()
	if err != nil {
		return err
	}
	for _, word := range append([]string{j.Program}, j.Args...) {
		if j.GOOS != "darwin" && fits(specialRule, word) {
			return fmt.Errorf("%q: systemd cannot have this in a unit as it is; want no blank, quotation mark, backslash, %% or $ in it", word)
		}
	}
	switch {
	case j.JobOptions.Name == "" && string(cfg.Mode) != j.Network:
		return fmt.Errorf("the daemon's options make a network of another kind than --network=%s: add --vmnet-mode=%[1]s behind --, or say another --network or a --name", j.Network)
	case j.JobOptions.Name == "" && j.Network == "bridged" && cfg.Interface != j.Interface:
		return fmt.Errorf("the daemon's options name the interface %s and --interface is %s", cfg.Interface, j.Interface)
	case j.Activated && (cfg.SocketUser != "" || cfg.SocketGroupSet || cfg.SocketMode != compat.DefaultSocketMode):
		return errors.New("with --socket-activated the service manager makes the socket: leave out --socket-user, --socket-group and --socket-mode, " +
			"and change what it makes in the file that is installed")
	}
	j.Socket = cfg.SocketPath
	for what, path := range map[string]string{"SOCKET": cfg.SocketPath, "--pidfile": cfg.Pidfile, "--state-dir": cfg.StateDir, "--runtime-dir": cfg.RuntimeDir} {
		if path != "" && (what != "--runtime-dir" || path != compat.RuntimeDirNone) {
			if err := j.checkPlace(what, path); err != nil {
				return err
			}
		}
	}
	if j.GOOS == "darwin" {
		return nil
	}
	j.Group = linuxGroup
	if cfg.SocketGroupSet {
		j.Group = cfg.SocketGroup
	}
	if j.User {
		j.Runtime = j.userRuntime()
	} else if cfg.SocketUser != "" {
		return errors.New("--socket-user needs root, and the service runs as a user of its own: use --socket-group")
	}
	return nil
}

// parse reads the daemon's command line as the daemon does.
func (j *job) parse() (*compat.Config, error) {
	for _, word := range append([]string{j.Program}, j.Args...) {
		if !utf8.ValidString(word) || strings.ContainsFunc(word, func(r rune) bool { return r < ' ' || r == 0x7f || r == '\uFFFE' || r == '\uFFFF' }) {
			return nil, fmt.Errorf("%q has a control character, or is not text: the files of service managers take none", word)
		}
	}
	var out, stderr strings.Builder
	cfg, code := compat.Parse(compat.New, append([]string{"socket_vmnet2"}, j.Args...), compat.IO{
		Stdout: &out, Stderr: &stderr, LookupEnv: func(string) (string, bool) { return "", false },
	})
	switch {
	case cfg != nil && !cfg.ListInterfaces:
		return cfg, nil
	case cfg != nil || code == 0:
		return nil, errors.New("the daemon's options behind -- only print something: a service needs one that serves")
	}
	lines := strings.Split(strings.TrimSpace(stderr.String()), "\n")
	return nil, fmt.Errorf("the daemon's options behind --: %s", strings.TrimPrefix(lines[len(lines)-1], "ERROR| "))
}

// defaultArguments are those of socket_vmnet's own jobs, with its gateways.
func (j *job) defaultArguments(suffix string) []string {
	name := cmp.Or(suffix, "shared")
	socket := linuxRun + "/" + name
	switch {
	case j.User && j.GOOS == "darwin":
		socket = filepath.Join(j.Home, ".socket_vmnet2", name)
	case j.User:
		socket = j.userRuntime() + "/socket_vmnet2/" + name
	case j.GOOS == "darwin":
		socket = strings.TrimSuffix("/var/run/socket_vmnet."+suffix, ".")
	}
	switch j.Network {
	case "host":
		return []string{"--vmnet-mode=host", "--vmnet-gateway=192.168.106.1", socket}
	case "bridged":
		return []string{"--vmnet-mode=bridged", "--vmnet-interface=" + j.Interface, socket}
	}
	return []string{"--vmnet-gateway=192.168.105.1", socket}
}

// link is the path of a service's socket that documentation, commands and other programs use, the same as on macOS. On Linux it is a
// link, since /run is root's and the service is not.
func (j *job) link() string {
	if filepath.Dir(j.Socket) != linuxRun {
		return j.Socket
	}
	return strings.TrimSuffix("/var/run/socket_vmnet."+filepath.Base(j.Socket), ".shared")
}

// owned is the other way round: where the service makes the socket that link leads to.
func (j *job) owned(path string) string {
	name, usual := strings.CutPrefix(strings.TrimPrefix(path, "/var"), "/run/socket_vmnet")
	if !usual || j.GOOS == "darwin" || j.User || name != "" && (name[0] != '.' || strings.Contains(name, "/")) {
		return path
	}
	return linuxRun + "/" + cmp.Or(strings.TrimPrefix(name, "."), "shared")
}

// userRuntime is what systemd knows as %t in the user's units.
func (s *system) userRuntime() string {
	return cmp.Or(s.RuntimeDir, "/run/user/"+strconv.Itoa(s.UID))
}

// checkPlace refuses paths that the daemon could not use as a job.
func (j *job) checkPlace(what, path string) error {
	if !filepath.IsAbs(path) {
		return fmt.Errorf("%s (%s) is not an absolute path, and a job has no directory of yours", what, path)
	}
	path = filepath.Clean(path)
	if j.GOOS == "darwin" || j.User {
		return nil
	}
	inRun := strings.HasPrefix(path, linuxRun+"/")
	if what == "SOCKET" && filepath.Dir(path) == linuxRun || what != "SOCKET" && (inRun || strings.HasPrefix(path, linuxState+"/")) {
		return nil
	}
	return fmt.Errorf("%s (%s) must be in %s: the service has a user of its own and can write nowhere else; --user makes one that is yours", what, path, linuxRun)
}
