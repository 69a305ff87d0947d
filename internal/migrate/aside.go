// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/socket-vmnet2/socket_vmnet2/internal/shell"
)

// replaceAside is for what a package manager keeps, or what others than root can change: our programs go to DefaultPrefix, and
// what the old one serves is moved there, socket by socket.
func (f *finder) replaceAside(in Install) Change {
	name := map[string]string{KindHomebrew: "Homebrew's socket_vmnet", KindMacPorts: "MacPorts' socket_vmnet"}[in.Kind]
	if name == "" {
		name = "socket_vmnet"
	}
	c := newChange(idOf(in), name+" at "+in.Prefix, StateToDo,
		"Its files stay as they are: its package manager would put them back, or Lima would not take them. socket_vmnet2 goes to "+
			DefaultPrefix+" and serves the same sockets, so that clients need no change.")
	if in.Missing {
		c.Why = "It has gone, so what names it cannot start. socket_vmnet2 goes to " + DefaultPrefix + " and takes its place there."
	}
	jobs, networks := f.jobsOf(in), f.networksOf(in)
	if len(jobs)+len(networks) == 0 && !slices.ContainsFunc(f.plan.Daemons, func(d Daemon) bool { return f.isOf(in, d.Program) }) {
		c.State = StateAlone
		c.Why = "Nothing here runs it. Its socket_vmnet_client, which minikube uses, works with either daemon."
		return c
	}
	c.Machines = f.machinesOf(in)
	c.Check = []Step{{command(f.installed(DefaultPrefix), "--version"), "prints " + f.Version}}
	own := f.installOf(DefaultPrefix + "/bin/socket_vmnet")
	first := (own == nil || own.Missing) && !slices.ContainsFunc(f.plan.Changes, func(o Change) bool { return len(o.Steps) > 0 && o.Steps[0].Command == f.install(DefaultPrefix) })
	if first {
		c.Files = f.installedFiles(DefaultPrefix)
		c.Steps = append(c.Steps, Step{f.install(DefaultPrefix), "copies files; no machine notices"})
	}
	var undo []Step
	for _, j := range jobs {
		undo = append(undo, f.moveJob(in, j, &c)...)
	}
	undo = append(undo, f.moveDaemons(in, &c)...)
	forth, back := f.moveNetworks(networks)
	c.Steps, undo = append(c.Steps, forth...), append(undo, back...)
	for _, s := range forth {
		if n := networks[0]; strings.HasPrefix(s.Command, "sed") {
			c.Files = append(c.Files, n.Config, n.Sudoers)
		}
	}
	c.Steps = append(c.Steps, f.restartMachines(in)...)
	if first {
		undo = append(undo, Step{f.rollback(DefaultPrefix), "removes what was installed"})
	}
	c.Undo = append(undo, f.restartMachines(in)...)
	return c
}

// jobsOf are the jobs that run an install, without those that have been moved.
func (f *finder) jobsOf(in Install) []Job {
	return slices.DeleteFunc(slices.Clone(f.plan.Jobs), func(j Job) bool { return !f.isOf(in, j.Program) || f.replaced(j) })
}

// replaced tells whether a job is no more than a file that a package manager left, and one of ours has its socket.
func (f *finder) replaced(j Job) bool {
	return j.State == notLoaded && slices.ContainsFunc(f.plan.Jobs, func(o Job) bool {
		return o.Owner == "socket_vmnet2" && j.Owner != o.Owner && samePath(o.Socket, j.Socket)
	})
}

func (f *finder) networksOf(in Install) []Network {
	return slices.DeleteFunc(slices.Clone(f.plan.Networks), func(n Network) bool { return !f.isOf(in, n.Program) })
}

// A newService is the job of ours that takes another's place.
type newService struct {
	options []string // that name it
	label   string
}

// newService chooses a name that no job has yet: that of the network, or else one after who had the job before.
func (f *finder) newService(j Job) newService {
	const base = "io.github.socket-vmnet2."
	s := newService{[]string{"--network=shared"}, base + "socket_vmnet2"}
	switch {
	case j.Mode == "bridged" && j.Interface != "":
		s = newService{[]string{"--network=bridged", "--interface=" + j.Interface}, base + "socket_vmnet2.bridged." + j.Interface}
	case j.Mode == "host":
		s = newService{[]string{"--network=host"}, base + "socket_vmnet2.host"}
	}
	taken := func(label string) bool {
		return slices.Contains(f.services, label) || slices.ContainsFunc(f.plan.Jobs, func(o Job) bool { return o.Label == label })
	}
	for n := 1; taken(s.label); n++ {
		name := j.Owner
		if n > 1 {
			name = fmt.Sprintf("%s%d", j.Owner, n)
		}
		s = newService{[]string{"--name=" + name}, base + name}
	}
	f.services = append(f.services, s.label)
	return s
}

// served tells whether a job that stays, or one that has been moved already, serves the socket of j.
func (f *finder) served(j Job) bool {
	if slices.Contains(f.moved, public(j.Socket)) {
		return true
	}
	return slices.ContainsFunc(f.plan.Jobs, func(o Job) bool {
		in := f.installOf(o.Program)
		return o.Label != j.Label && samePath(o.Socket, j.Socket) && in != nil && (in.Ours || in.inPlace())
	})
}

// moveJob has a job of ours serve the socket of another, and back.
func (f *finder) moveJob(in Install, j Job, c *Change) (undo []Step) {
	stop, start := f.jobSwitch(in, j)
	if f.served(j) {
		c.Steps = append(c.Steps, Step{stop, "another job serves " + j.Socket + " as well, and goes on to"})
		return []Step{{start, "as it was, with both"}}
	}
	f.moved = append(f.moved, public(j.Socket))
	s := f.newService(j)
	program := f.installed(DefaultPrefix)
	service := func(verb string, more ...string) string {
		return "sudo " + command(append(append([]string{program, "service", verb}, s.options...), more...)...)
	}
	c.Files = append(c.Files, "/Library/LaunchDaemons/"+s.label+".plist")
	c.Steps = append(
		c.Steps,
		Step{stop, "no network on " + j.Socket + " from here on"},
		Step{service("install", append([]string{"--"}, j.Arguments[1:]...)...), "the same options and the same socket: the network is back"},
	)
	c.Check = append(c.Check, Step{service("status"), "says that it runs"})
	return []Step{{service("uninstall"), ""}, {start, "the old daemon again"}}
}

// jobSwitch are the commands that stop and start a job for good.
func (f *finder) jobSwitch(in Install, j Job) (stop, start string) {
	sudo := "sudo "
	if j.User {
		sudo = ""
	}
	switch j.Owner {
	case "homebrew":
		brew := filepath.Join(brewPrefix(in.Program), "bin/brew")
		return sudo + command(brew, "services", "stop", "socket_vmnet"), sudo + command(brew, "services", "start", "socket_vmnet")
	case "macports":
		return "sudo /opt/local/bin/port unload socket_vmnet", "sudo /opt/local/bin/port load socket_vmnet"
	}
	domain := "system"
	if j.User {
		domain = `"gui/$(id -u)"`
	}
	return sudo + "launchctl bootout " + shellTarget(f.jobTarget(j)), sudo + "launchctl bootstrap " + domain + " " + shell.Quote(j.Path)
}

// brewPrefix is where the Homebrew is that a program came with.
func brewPrefix(program string) string {
	if strings.HasPrefix(program, "/usr/local/") {
		return "/usr/local"
	}
	return "/opt/homebrew"
}

// moveDaemons has our program run in place of daemons that were started by hand, and back.
func (f *finder) moveDaemons(in Install, c *Change) (undo []Step) {
	for _, d := range f.plan.Daemons {
		if !f.isOf(in, d.Program) || d.StartedBy != byHand {
			continue
		}
		sudo := ""
		if d.UID == 0 {
			sudo = "sudo "
		}
		args := append([]string{filepath.Join(filepath.Dir(f.installed(DefaultPrefix)), "socket_vmnet")}, d.Arguments[1:]...)
		c.Steps = append(c.Steps, Step{fmt.Sprintf("%skill %d && sleep 2 && %s%s", sudo, d.PID, sudo, command(args...)), "it was started by hand; the same with the new program"})
		undo = append(undo, Step{sudo + command(d.Arguments...), "the old daemon again, after the new one has been ended"})
	}
	return undo
}

// moveNetworks has Lima run the program below DefaultPrefix, and back.
func (f *finder) moveNetworks(networks []Network) (forth, back []Step) {
	var seen []string
	for _, n := range networks {
		if n.Tool != "lima" || slices.Contains(seen, n.Config) {
			continue
		}
		seen = append(seen, n.Config)
		file := f.local(n.Config)
		const suffix = ".before-socket_vmnet2"
		forth = append(forth, Step{
			fmt.Sprintf(`sed -i%s 's|^\( *socketVMNet:\).*|\1 "%s/bin/socket_vmnet"|' %s`, suffix, DefaultPrefix, shell.Quote(file)),
			"Lima runs the program from there; the file before is kept beside it",
		})
		back = append(back, Step{command("mv", file+suffix, file), ""})
		if n.Sudoers != "" && n.State != SudoersMissing {
			sudoers := Step{f.limaSudoersCommand(n), "the path in it must be the same, byte for byte"}
			forth, back = append(forth, sudoers), append(back, sudoers)
		}
	}
	return forth, back
}
