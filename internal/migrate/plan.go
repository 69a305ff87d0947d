// SPDX-License-Identifier: Apache-2.0

package migrate

// Format is the number of the JSON document's format: it changes when a key changes its meaning or goes.
const Format = 1

// What a plan comes to.
const (
	VerdictMigrate = "migrate" // there is something to move
	VerdictDone    = "done"    // socket_vmnet2 is there, and nothing is left to move
	VerdictNothing = "nothing" // no socket_vmnet was found
)

// A Plan is what was found and what to do about it. Its JSON form is documented in docs/migrate.md.
type Plan struct {
	Format  int    `json:"format"`
	Verdict string `json:"verdict"`
	Program string `json:"program"`
	Version string `json:"version"`
	Root    string `json:"root,omitempty"`

	Installs  []Install  `json:"installs"`
	Jobs      []Job      `json:"jobs"`
	Daemons   []Daemon   `json:"daemons"`
	Networks  []Network  `json:"networks"`
	Machines  []Machine  `json:"machines"`
	Conflicts []Conflict `json:"conflicts"`
	Changes   []Change   `json:"changes"`
	Problems  []Problem  `json:"problems"`
	Looked    []string   `json:"looked"`
}

func newPlan(s System) *Plan {
	return &Plan{
		Format: Format, Verdict: VerdictNothing, Program: s.Program, Version: s.Version, Root: s.Root,
		Installs: []Install{}, Jobs: []Job{}, Daemons: []Daemon{}, Networks: []Network{}, Machines: []Machine{},
		Conflicts: []Conflict{}, Changes: []Change{}, Problems: []Problem{}, Looked: []string{},
	}
}

// Where an install comes from.
const (
	KindUpstream = "make install"
	KindHomebrew = "homebrew"
	KindMacPorts = "macports"
	KindColima   = "colima"
	KindRancher  = "rancher-desktop"
	KindFinch    = "finch"
	KindOther    = "other"
)

// An Install is a socket_vmnet program on the disk.
type Install struct {
	Kind    string `json:"kind"`
	Prefix  string `json:"prefix"`
	Program string `json:"program"`
	Links   string `json:"links_to,omitempty"` // the file that Program leads to by links
	Version string `json:"version,omitempty"`
	Missing bool   `json:"missing"` // a job or a configuration names it, and it is not there
	Ours    bool   `json:"socket_vmnet2"`
	Backup  bool   `json:"backup"`           // install left what was there before, so that rollback can restore it
	Unsafe  string `json:"unsafe,omitempty"` // why Lima would refuse it
}

// A Job is a launchd job that runs a socket_vmnet.
type Job struct {
	Label     string   `json:"label"`
	Path      string   `json:"path"`
	Owner     string   `json:"owner"` // upstream, homebrew, macports, socket_vmnet2 or other
	User      bool     `json:"user_agent"`
	Arguments []string `json:"arguments"`
	State     string   `json:"state,omitempty"` // what launchctl says: running, not running, not loaded; empty: not asked
	daemonArgs
}

// daemonArgs is what a daemon's command line says.
type daemonArgs struct {
	Program   string `json:"program"`
	Socket    string `json:"socket,omitempty"`
	Mode      string `json:"mode,omitempty"`
	Gateway   string `json:"gateway,omitempty"`
	Subnet    string `json:"subnet,omitempty"`
	Interface string `json:"interface,omitempty"`
	Pidfile   string `json:"pidfile,omitempty"`
}

// A Daemon is a running socket_vmnet.
type Daemon struct {
	PID       int      `json:"pid"`
	UID       int      `json:"uid"`
	Ours      bool     `json:"socket_vmnet2"`
	StartedBy string   `json:"started_by"`
	Arguments []string `json:"arguments"`
	daemonArgs
}

// How far Lima's sudoers file is what Lima asks for.
const (
	SudoersInSync     = "in sync"
	SudoersOutOfSync  = "out of sync"
	SudoersMissing    = "missing"
	SudoersUnreadable = "not readable"
)

// A Network is one that Lima starts a daemon for, from a networks.yaml.
type Network struct {
	Tool    string `json:"tool"` // lima, colima, rancher-desktop or finch
	Config  string `json:"config"`
	Name    string `json:"name"`
	Group   string `json:"group"`
	Sudoers string `json:"sudoers_file,omitempty"`
	State   string `json:"sudoers,omitempty"`
	daemonArgs
	used bool // an instance names it
}

// How a machine is attached to a daemon.
const (
	AttachReconnect  = "qemu-stream-reconnect" // -netdev stream with reconnect or reconnect-ms
	AttachStream     = "qemu-stream"           // -netdev stream without, or not known
	AttachDescriptor = "qemu-fd"               // -netdev socket,fd=3
	AttachVZ         = "vz"                    // Lima's VZ driver
	AttachKrunkit    = "krunkit"
	AttachOther      = "other"
)

// What a restart of its daemon means for a machine.
const (
	EffectReconnects = "reconnects" // back by itself
	EffectRestart    = "restart"    // no network until the machine is restarted
	EffectNotRunning = "not running"
	EffectNone       = "none" // its daemon is not moved
)

// A Machine is a virtual machine, or another program, that uses a socket.
type Machine struct {
	Tool    string `json:"tool"` // lima, colima, minikube, qemu, krunkit, vfkit, rancher-desktop, finch
	Name    string `json:"name"`
	Home    string `json:"home,omitempty"` // the tool's directory
	VM      string `json:"vm,omitempty"`   // qemu, vz, krunkit
	Running bool   `json:"running"`
	PID     int    `json:"pid,omitempty"`
	Network string `json:"network,omitempty"` // of Lima, by name
	Socket  string `json:"socket,omitempty"`
	Attach  string `json:"attach"`
	Effect  string `json:"effect"`
	Outage  string `json:"outage"`
	Why     string `json:"why"`
	Restart string `json:"restart,omitempty"` // the commands that restart it

	stop, start string
}

// A Conflict is something that is in the way, or will be.
type Conflict struct {
	Kind string `json:"kind"` // unsafe-path, two-jobs, two-installs, mixed, sudoers, subnet, stale-socket
	Text string `json:"text"`
	Fix  string `json:"fix"`
}

// A Step is one command of a plan.
type Step struct {
	Command string `json:"command"`
	Note    string `json:"note,omitempty"`
}

// A Change moves one set-up over.
type Change struct {
	ID       string   `json:"id"`
	Title    string   `json:"title"`
	State    string   `json:"state"` // to do, done, or left alone
	Why      string   `json:"why,omitempty"`
	Files    []string `json:"files"` // that change
	Machines []string `json:"machines"`
	Steps    []Step   `json:"steps"`
	Check    []Step   `json:"check"`
	Undo     []Step   `json:"undo"`
}

// What is to be done about a set-up.
const (
	StateToDo  = "to do"
	StateDone  = "done"
	StateAlone = "left alone"
)

// A Problem is something that could not be read.
type Problem struct {
	Path  string `json:"path"`
	Error string `json:"error"`
	Fix   string `json:"fix"`
}
