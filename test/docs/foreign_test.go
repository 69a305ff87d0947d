// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
)

// foreign are programs of others, by name and verb, with the options that pages may use; "*" for any. A program without verbs has
// the verb "". They are after the programs' own pages and sources.
var foreign = map[string]map[string]string{
	"limactl": {
		"start": "--name --set --tty --vm-type", "stop": "-f", "create": "--name --set --tty --vm-type", "edit": "--set --start --tty",
		"list": "--json -q", "shell": "*", "sudoers": "--check", "delete": "-f", "--version": "",
	},
	"minikube": {
		"start": "-p --profile --driver --network --socket-vmnet-path --socket-vmnet-client-path --vmnet-offloading",
		"stop":  "-p --profile", "delete": "-p --profile", "ip": "-p --profile", "ssh": "*", "profile list": "", "status": "-p --profile",
	},
	"colima": {
		"start": "-p --profile --vm-type --network-address --network-mode --network-interface", "stop": "-p --profile -f",
		"status": "-p --profile", "list": "", "restart": "-p --profile", "ssh": "*", "delete": "-p --profile",
	},
	"tart": {"run": "--net-softnet --no-graphics", "ip": "--resolver"},
	"brew": {
		"install": "--HEAD", "uninstall": "", "upgrade": "--fetch-HEAD", "tap": "", "untap": "", "trust": "--formula", "list": "--versions", "info": "",
		"services start": "", "services stop": "", "services restart": "", "services list": "", "services info": "",
		"link": "", "unlink": "", "--prefix": "", "update": "", "test": "", "audit": "--new --strict",
	},
	"port": {"install": "", "uninstall": "", "load": "", "unload": "", "installed": ""},
	"launchctl": {
		"bootstrap": "", "bootout": "", "enable": "", "disable": "", "kickstart": "-k -p -kp", "print": "", "print-disabled": "",
		"list": "", "load": "-w", "unload": "-w",
	},
	"systemctl": {
		"start": "--user", "stop": "--user", "restart": "--user", "status": "--user", "enable": "--now --user", "disable": "--now --user",
		"daemon-reload": "--user", "is-active": "--user", "edit": "", "--user start": "", "--user stop": "", "--user restart": "",
		"--user status": "", "--user enable": "--now", "--user disable": "--now", "--user daemon-reload": "",
	},
	"journalctl": {"": "-u -f -n --user --user-unit -b -e"},
	"git": {
		"clone": "", "checkout": "", "tag": "-a -m", "push": "", "config": "", "commit": "-s --amend -m", "rebase": "--signoff",
		"log": "--oneline", "diff": "", "status": "", "describe": "",
	},
	"gh": {
		"attestation verify": "--owner --repo", "release download": "--repo --pattern", "release create": "*", "run watch": "",
	},
	"codesign":  {"": "--verify --strict --verbose --display --entitlements --force --sign --identifier -d -v -"},
	"rcodesign": {"print-signature-info": "", "sign": "--entitlements-xml-path --code-signature-flags"},
	"wireshark": {"": "-k -i -"},
	"tcpdump":   {"": "-r"},
	"tshark":    {"": "-r -Y"},
	"tar":       {"": "-x -z -f -C -t -c --strip-components"},
}

// plain are tools of the system, whose options nobody gets wrong for our sake.
var plain = []string{
	"apt-get", "arp", "bash", "cat", "cd", "chmod", "chown", "cmp", "command", "cp", "defaults", "diff", "echo", "export", "grep", "head", "id",
	"ifconfig", "install", "ip", "iperf3", "kill", "less", "log", "ls", "lsof", "machrun", "man", "mandoc", "mkdir", "mv", "nc", "netstat", "newsyslog",
	"otool", "pgrep", "ping", "pkill", "plutil", "printf", "ps", "pwd", "reboot", "rm", "route", "scutil", "sed", "sh", "sha256sum", "shasum",
	"shellcheck", "sleep", "socketfilterfw", "source", "ssh", "stat", "sw_vers", "systemd-analyze", "systemd-sysusers", "tail", "tee", "test", "top", "uname", "unset",
	"visudo", "vtool", "xattr", "zsh",
}

// vmms are the programs whose network options are looked at.
var vmms = map[string]func(args []string) error{
	"vfkit": vfkit, "krunkit": krunkit, "qemu-system-x86_64": qemu, "qemu-system-aarch64": qemu, "vzguest": vzguest,
}

// known tells whether a program is in one of the tables.
func known(program string) bool {
	return ours[program] != nil || vmms[program] != nil || foreign[program] != nil || slices.Contains(plain, program)
}

// checkForeign holds a command of somebody else's program against what that program understands.
func checkForeign(c command) error {
	if vmm := vmms[c.program()]; vmm != nil {
		if err := vmm(c.args()); err != nil {
			return err
		}
		return realQEMU(c)
	}
	if slices.Contains(plain, c.program()) {
		return nil
	}
	verbs, ok := foreign[c.program()]
	if !ok {
		return fmt.Errorf("nobody knows the program %q: add it to the tables of this test, or put the block down as text", c.program())
	}
	return checkVerb(verbs, c.args())
}

// checkVerb looks for the longest verb that the words begin with, and for the options.
func checkVerb(verbs map[string]string, args []string) error {
	verb, ok := "", false
	for n := min(2, len(args)); n >= 0 && !ok; n-- {
		verb = strings.Join(args[:n], " ")
		_, ok = verbs[verb]
	}
	if !ok {
		return fmt.Errorf("it has no such command: %q", args)
	}
	options := strings.Fields(verbs[verb])
	if slices.Contains(options, "*") {
		return nil
	}
	for _, a := range args[len(strings.Fields(verb)):] {
		if a == "--" {
			return nil
		}
		name, _, _ := strings.Cut(a, "=")
		if strings.HasPrefix(name, "-") && !slices.Contains(options, name) {
			return fmt.Errorf("%q has no option %s, as far as this test knows", verb, name)
		}
	}
	return nil
}

// fakes are the programs that this test binary is in the sandbox, for what a client becomes.
func fakes() []string { return append(slices.Collect(maps.Keys(vmms)), "sleep") }

func isFake(program string) bool { return slices.Contains(fakes(), program) || actors[program] != nil }

// inFake tells whether this process is one of the fakes, which have the descriptor that their options name.
var inFake bool

// runFake looks at the options, and at the descriptor that they name: it is a socket.
func runFake(program string, args []string) error {
	inFake = true
	if act := actors[program]; act != nil {
		if w := os.Getenv(worldEnv); w != "" {
			return act(w, args)
		}
		return fmt.Errorf("%s outside of a world", program)
	}
	if program == "sleep" {
		return isSocket(3)
	}
	return vmms[program](slices.DeleteFunc(args, func(w string) bool { return w == "..." }))
}

func isSocket(fd int) error {
	var st syscall.Stat_t
	if err := syscall.Fstat(fd, &st); err != nil {
		return fmt.Errorf("descriptor %d: %w", fd, err)
	}
	if st.Mode&syscall.S_IFMT != syscall.S_IFSOCK {
		return fmt.Errorf("descriptor %d is no socket", fd)
	}
	return nil
}

// descriptor checks a number of one, in a fake also what it is.
func descriptor(text string) error {
	if text == "" || text == "{fd}" {
		return nil
	}
	fd, err := strconv.Atoi(text)
	if err != nil {
		return fmt.Errorf("%q is no descriptor", text)
	}
	if inFake {
		return isSocket(fd)
	}
	return nil
}

// option returns the arguments that follow name.
func option(args []string, name string) (all []string) {
	for i := 0; i+1 < len(args); i++ {
		if args[i] == name {
			all = append(all, args[i+1])
		}
	}
	return all
}

// keys reads kind,key=value,key=value and refuses keys that are not known.
func keys(text, kind string, known ...string) (map[string]string, error) {
	parts := strings.Split(text, ",")
	if parts[0] != kind {
		return nil, fmt.Errorf("%q, want %s", text, kind)
	}
	all := map[string]string{}
	for _, p := range parts[1:] {
		key, value, _ := strings.Cut(p, "=")
		if !slices.Contains(known, key) || value == "" || all[key] != "" {
			return nil, fmt.Errorf("%q: %s is no key of %s, has no value, or is there twice", text, key, kind)
		}
		all[key] = value
	}
	return all, descriptor(all["fd"])
}

func vfkit(args []string) error {
	devices := option(args, "--device")
	if len(devices) == 0 {
		return errors.New("no --device")
	}
	for _, d := range devices {
		k, err := keys(d, "virtio-net", "unixSocketPath", "fd", "mac", "type", "path")
		if err != nil {
			return err
		}
		if k["unixSocketPath"]+k["fd"]+k["path"] == "" || k["mac"] == "" {
			return fmt.Errorf("%s: no network, or no mac", d)
		}
	}
	return nil
}

func krunkit(args []string) error {
	devices := option(args, "--device")
	if len(devices) == 0 {
		return errors.New("no --device")
	}
	for _, d := range devices {
		k, err := keys(d, "virtio-net", "type", "path", "fd", "mac", "offloading")
		if err != nil {
			return err
		}
		if k["type"] != "unixgram" && k["type"] != "unixstream" || k["path"]+k["fd"] == "" || k["mac"] == "" {
			return fmt.Errorf("%s: no type that it has, or no mac", d)
		}
	}
	return nil
}

func vzguest(args []string) error {
	if len(option(args, "--socket")) != 1 {
		return errors.New("no --socket")
	}
	return nil
}

// netdevs are QEMU's that pages use, and their keys.
var netdevs = map[string][]string{
	"stream": {"id", "server", "addr.type", "addr.path", "reconnect-ms", "reconnect"},
	"dgram":  {"id", "local.type", "local.path", "local.str", "remote.type", "remote.path"},
	"socket": {"id", "fd"},
}

func qemu(args []string) error {
	ids := map[string]bool{}
	for _, n := range option(args, "-netdev") {
		kind, _, _ := strings.Cut(n, ",")
		k, err := keys(n, kind, netdevs[kind]...)
		if err != nil {
			return err
		}
		if k["local.type"] == "fd" {
			if err := descriptor(k["local.str"]); err != nil {
				return err
			}
		}
		ids[k["id"]] = true
	}
	for _, d := range option(args, "-device") {
		kind, _, _ := strings.Cut(d, ",")
		k, err := keys(d, kind, "netdev", "mac")
		if err != nil {
			return err
		}
		if !ids[k["netdev"]] {
			return fmt.Errorf("-device %s: there is no such netdev", d)
		}
		delete(ids, k["netdev"])
	}
	if len(ids) > 0 {
		return fmt.Errorf("netdevs without a device: %v", ids)
	}
	return nil
}

// qemuVersion is that of the QEMU of this machine, or 0.
var qemuVersion = sync.OnceValue(func() float64 {
	out, err := exec.Command("qemu-system-x86_64", "--version").Output()
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(out), "version ")
	parts := strings.SplitN(rest, ".", 3)
	if len(parts) < 3 {
		return 0
	}
	major, _ := strconv.Atoi(parts[0])
	minor, _ := strconv.Atoi(parts[1])
	return float64(major) + float64(minor)/100
})

// realQEMU has the QEMU of this machine, if there is one, open the network and make the device, and quit. What needs a descriptor is
// run by its client.
func realQEMU(c command) error {
	needs := func(a string) bool { return strings.Contains(a, "fd=") || strings.Contains(a, "{fd}") }
	if !strings.HasPrefix(c.program(), "qemu-system-") || qemuVersion() < 7.02 || slices.ContainsFunc(c.args(), needs) {
		return nil
	}
	words := []string{"qemu-system-x86_64", "-machine", "q35,accel=tcg", "-display", "none", "-nodefaults", "-S", "-monitor", "stdio"}
	for _, name := range []string{"-netdev", "-device"} {
		for _, v := range option(c.args(), name) {
			if qemuVersion() < 9.02 {
				v = strings.NewReplacer(",reconnect-ms=500", "", ",reconnect=1", "").Replace(v)
			}
			words = append(words, name, box.client(v))
		}
	}
	cmd := exec.Command(words[0], words[1:]...)
	cmd.Stdin = strings.NewReader("info network\nquit\n")
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "virtio-net-pci") {
		return fmt.Errorf("%s: %w\n%s", strings.Join(words, " "), err, out)
	}
	return nil
}
