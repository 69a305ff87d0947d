// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/socket-vmnet2/socket_vmnet2/internal/install/pathrules"
	"github.com/socket-vmnet2/socket_vmnet2/internal/shell"
)

// conflict notes c once.
func (f *finder) conflict(c Conflict) {
	c.Text, c.Fix = clean(c.Text), clean(c.Fix)
	if !slices.Contains(f.plan.Conflicts, c) {
		f.plan.Conflicts = append(f.plan.Conflicts, c)
	}
}

// findConflicts looks for what is in the way of a migration, or of the set-up as it is.
func (f *finder) findConflicts() {
	f.unsafePaths()
	f.sameJobs()
	f.manyInstalls()
	f.sudoersFiles()
	f.sharedSubnets()
	f.staleSockets()
}

// unsafePaths are programs that Lima refuses, where Lima is told to run them, and prefixes that install refuses.
func (f *finder) unsafePaths() {
	for _, n := range f.plan.Networks {
		in := f.installOf(n.Program)
		if in == nil || in.Missing || in.Kind == KindRancher || in.Kind == KindFinch {
			continue
		}
		why := ""
		if err := pathrules.Check(n.Program, pathrules.Options{Root: f.Root}); err != nil {
			why = err.Error()
		} else if in.Kind == KindHomebrew {
			why = "Homebrew's directories belong to who installed it, not to root"
		}
		if why != "" {
			f.conflict(Conflict{
				Kind: "unsafe-path", Text: fmt.Sprintf("Lima refuses to run %s, which %s names: %s", n.Program, n.Config, why),
				Fix: "the plan has Lima run the program below " + DefaultPrefix,
			})
		}
	}
	for _, in := range f.plan.Installs {
		if in.Unsafe != "" && in.inPlace() {
			f.conflict(Conflict{
				Kind: "unsafe-path", Text: "others than root could change what runs as root: " + in.Unsafe,
				Fix: "do that first: socket_vmnet2 install refuses " + in.Prefix + " as it is",
			})
		}
	}
}

// sameJobs are jobs for one socket: the second one that starts does not get it.
func (f *finder) sameJobs() {
	for i, a := range f.plan.Jobs {
		for _, b := range f.plan.Jobs[i+1:] {
			if samePath(a.Socket, b.Socket) && a.State != notLoaded && b.State != notLoaded {
				f.conflict(Conflict{
					Kind: "two-jobs", Text: fmt.Sprintf("the jobs %s (%s) and %s (%s) both serve %s", a.Label, a.Path, b.Label, b.Path, a.Socket),
					Fix: "keep one: sudo launchctl bootout " + shell.Quote("system/"+b.Label),
				})
			}
		}
	}
}

// manyInstalls tells of more than one socket_vmnet for general use.
func (f *finder) manyInstalls() {
	var general []string
	for _, in := range f.plan.Installs {
		if in.Missing {
			continue
		}
		switch in.Kind {
		case KindColima, KindRancher, KindFinch: // each tool its own
		default:
			general = append(general, in.Program)
		}
	}
	if len(general) > 1 {
		f.conflict(Conflict{
			Kind: "two-installs", Text: "there is more than one: " + strings.Join(general, ", "),
			Fix: "that works as long as they serve different sockets; afterwards keep one, so that updates reach what runs",
		})
	}
}

// sudoersFiles are those that Lima would complain of.
func (f *finder) sudoersFiles() {
	for _, n := range f.plan.Networks {
		if n.Tool != "lima" {
			continue
		}
		fix := f.limaSudoersCommand(n)
		switch n.State {
		case SudoersOutOfSync:
			f.conflict(Conflict{
				Kind: "sudoers", Text: n.Sudoers + " is not what Lima makes of " + n.Config + " (as far as known here; limactl sudoers --check tells)",
				Fix: fix,
			})
		case SudoersMissing:
			f.conflict(Conflict{
				Kind: "sudoers", Text: n.Sudoers + " is missing: without it Lima starts its networks only where sudo asks for no password",
				Fix: fix,
			})
		}
	}
}

// limaSudoersCommand is how Lima says to install the file: a limactl that fails leaves it as it is.
func (f *finder) limaSudoersCommand(n Network) string {
	return "limactl sudoers >etc_sudoers.d_lima && sudo install -o root -m 0440 etc_sudoers.d_lima " + shell.Quote(f.local(n.Sudoers))
}

// sharedSubnets are daemons that would make the same subnet.
func (f *finder) sharedSubnets() {
	users, sockets := map[string][]string{}, map[string][]string{}
	add := func(name string, d daemonArgs) {
		if d.Subnet != "" {
			users[d.Subnet] = append(users[d.Subnet], name+" ("+d.Socket+")")
			sockets[d.Subnet] = append(sockets[d.Subnet], public(d.Socket))
		}
	}
	for _, j := range f.plan.Jobs {
		if j.State == notLoaded {
			continue
		}
		add("the job "+j.Label, j.daemonArgs)
	}
	for _, n := range f.plan.Networks {
		if n.used {
			add(n.Tool+"'s network "+n.Name, n.daemonArgs)
		}
	}
	for _, subnet := range slices.Sorted(maps.Keys(users)) {
		slices.Sort(sockets[subnet])
		if len(slices.Compact(sockets[subnet])) > 1 {
			f.conflict(Conflict{
				Kind: "subnet", Text: "on " + subnet + " there are " + strings.Join(users[subnet], " and "),
				Fix: "run one at a time, or give the others another gateway: two daemons with a network each can take the subnet from each other",
			})
		}
	}
}

// staleSockets are sockets that minikube finds and that nobody listens at.
func (f *finder) staleSockets() {
	if !f.asked || !slices.ContainsFunc(f.plan.Machines, func(m Machine) bool { return m.Tool == "minikube" }) {
		return
	}
	for _, s := range minikubeSockets {
		if f.stat(s) == nil || slices.ContainsFunc(f.plan.Daemons, func(d Daemon) bool { return samePath(d.Socket, s) }) {
			continue
		}
		f.conflict(Conflict{
			Kind: "stale-socket", Text: s + " is there, but no daemon that serves it runs; minikube would take it for one",
			Fix: "start the daemon, or: sudo rm " + s,
		})
	}
}
