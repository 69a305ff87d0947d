// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
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
	jobs, networks := f.jobsOf(in), f.networksOf(in)
	if len(jobs)+len(networks)+len(f.socketsOf(in)) == 0 {
		c.State = StateAlone
		c.Why = "Nothing here runs it. Its socket_vmnet_client, which minikube uses, works with either daemon."
		return c
	}
	c.Machines = f.machinesOf(in)
	own := f.installOf(DefaultPrefix + "/bin/socket_vmnet")
	first := own == nil && !slices.ContainsFunc(f.plan.Changes, func(o Change) bool { return len(o.Steps) > 0 && o.Steps[0].Command == f.install(DefaultPrefix) })
	if first {
		c.Files = f.installedFiles(DefaultPrefix)
		c.Steps = append(c.Steps, Step{f.install(DefaultPrefix), "copies files; no machine notices"})
	}
	var undo []Step
	for i, j := range jobs {
		forth, back := f.moveJob(in, j, i)
		c.Steps, undo = append(c.Steps, forth...), append(undo, back...)
		c.Files = append(c.Files, "/Library/LaunchDaemons/"+serviceLabel(j, i)+".plist")
	}
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
	c.Check = f.asideChecks(jobs)
	return c
}

func (f *finder) jobsOf(in Install) []Job {
	return slices.DeleteFunc(slices.Clone(f.plan.Jobs), func(j Job) bool { return !f.isOf(in, j.Program) })
}

func (f *finder) networksOf(in Install) []Network {
	return slices.DeleteFunc(slices.Clone(f.plan.Networks), func(n Network) bool { return !f.isOf(in, n.Program) })
}

// serviceNetwork are the options of service for what a job runs; the n-th job beside one of that kind gets a name.
func serviceNetwork(j Job, n int) []string {
	switch {
	case n > 0:
		return []string{fmt.Sprintf("--name=moved%d", n)}
	case j.Mode == "bridged" && j.Interface != "":
		return []string{"--network=bridged", "--interface=" + j.Interface}
	case j.Mode == "host":
		return []string{"--network=host"}
	}
	return []string{"--network=shared"}
}

// serviceLabel is the label of the job that service makes then.
func serviceLabel(j Job, n int) string {
	const ours = "io.github.socket-vmnet2.socket_vmnet2"
	switch {
	case n > 0:
		return fmt.Sprintf("%s.moved%d", ours, n)
	case j.Mode == "bridged" && j.Interface != "":
		return ours + ".bridged." + j.Interface
	case j.Mode == "host":
		return ours + ".host"
	}
	return ours
}

// moveJob has a job of ours serve the socket of another, and back.
func (f *finder) moveJob(in Install, j Job, n int) (forth, back []Step) {
	stop, start := f.jobSwitch(in, j)
	program := f.installed(DefaultPrefix)
	args := append([]string{program, "service", "install"}, serviceNetwork(j, n)...)
	args = append(append(args, "--"), j.Arguments[1:]...)
	remove := append([]string{program, "service", "uninstall"}, serviceNetwork(j, n)...)
	forth = []Step{
		{stop, "no network on " + j.Socket + " from here on"},
		{"sudo " + command(args...), "the same options and the same socket: the network is back"},
	}
	back = []Step{{"sudo " + command(remove...), ""}, {start, "the old daemon again"}}
	return forth, back
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
	return sudo + "launchctl bootout " + shellTarget(f.jobTarget(j)), sudo + "launchctl bootstrap " + domain + " " + quote(j.Path)
}

// brewPrefix is where the Homebrew is that a program came with.
func brewPrefix(program string) string {
	if strings.HasPrefix(program, "/usr/local/") {
		return "/usr/local"
	}
	return "/opt/homebrew"
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
			fmt.Sprintf(`sed -i%s 's|^\( *socketVMNet:\).*|\1 "%s/bin/socket_vmnet"|' %s`, suffix, DefaultPrefix, quote(file)),
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

func (f *finder) asideChecks(jobs []Job) []Step {
	all := []Step{{command(f.installed(DefaultPrefix), "--version"), "prints " + f.Version}}
	for i, j := range jobs {
		args := append([]string{f.installed(DefaultPrefix), "service", "status"}, serviceNetwork(j, i)...)
		all = append(all, Step{"sudo " + command(args...), "says that it runs"})
	}
	return all
}
