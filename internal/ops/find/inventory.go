// SPDX-License-Identifier: Apache-2.0

package find

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/internal/compat"
	"github.com/socket-vmnet2/socket_vmnet2/internal/hostfs"
	"github.com/socket-vmnet2/socket_vmnet2/internal/printable"
)

// An Inventory is what of socket_vmnet and socket_vmnet2 a machine has. All text in it is printable and short.
type Inventory struct {
	Programs []program `json:"programs"`
	Jobs     []Job     `json:"jobs"`
	Units    []Unit    `json:"units"`
	Networks []network `json:"networks"`
	Servers  []server  `json:"daemons"`
	Clients  []client  `json:"clients"`
	Problems []problem `json:"problems"`

	Processes map[int]Process `json:"-"` // nil: they are not known
	Booted    bool            `json:"-"` // systemd runs
}

// A problem is something that could not be read.
type problem struct {
	Path  string `json:"path"`
	Error string `json:"error"`
	Root  bool   `json:"needs_root"` // sudo would help
}

// A search is one look. It fills its inventory.
type search struct {
	System
	*Inventory
	ctx context.Context //nolint:containedctx // of the one call of Look
}

// lookTime is how long the programs that are asked may take in all.
const lookTime = 12 * time.Second

func newSearch(ctx context.Context, s System) *search {
	return &search{System: s, ctx: ctx, Inventory: &Inventory{
		Programs: []program{}, Jobs: []Job{}, Units: []Unit{}, Networks: []network{}, Servers: []server{}, Clients: []client{}, Problems: []problem{},
	}}
}

// Look makes the inventory of s.
func Look(ctx context.Context, s System) *Inventory {
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	f := newSearch(ctx, s)
	f.findProcesses()
	f.findPrograms()
	f.findJobs()
	f.findUnits()
	for _, j := range f.Jobs {
		f.addNamed(j.Program, "the job "+j.Label+" ("+j.Path+")")
	}
	f.findLima()
	f.findColima()
	f.findMinikube()
	f.nameServers()
	f.findMonitors()
	return f.Inventory
}

// findProcesses lists the processes and the daemons among them.
func (f *search) findProcesses() {
	if f.System.Processes == nil {
		return
	}
	list, err := f.System.Processes(f.ctx)
	if err != nil {
		f.problem("the list of processes", fmt.Errorf("%w: what runs is not known", err))
		return
	}
	f.Inventory.Processes = map[int]Process{}
	for _, p := range list {
		p.Args, p.Exe = cleanAll(p.Args), Clean(p.Exe)
		f.Inventory.Processes[p.PID] = p
		if !isDaemon(p) {
			continue
		}
		s := server{Process: p, setup: setupOf(p.Args)}
		s.Program = p.Executable()
		s.Ours, s.By = compat.PersonalityOf(s.Program) == compat.New, fmt.Sprintf("process %d", p.PID)
		for _, path := range []*string{&s.Socket, &s.Pidfile, &s.RuntimeDir} {
			*path = p.absolute(*path)
		}
		f.Servers = append(f.Servers, s)
	}
}

// byHand is what started a daemon that no job, no tool and no configuration knows.
const byHand = "hand"

// nameServers says what started each daemon, and whether its program is ours whatever its name.
func (f *search) nameServers() {
	for i := range f.Servers {
		d := &f.Servers[i]
		f.addProgram(d.Program)
		if p := f.programAt(d.Program); p != nil && p.Ours {
			d.Ours = true
		}
		job := slices.IndexFunc(f.Jobs, func(j Job) bool { return SamePath(j.Socket, d.Socket) })
		network := slices.IndexFunc(f.Networks, func(n network) bool { return SamePath(n.Socket, d.Socket) })
		switch {
		case job >= 0 && d.PPID == 1:
			d.StartedBy = "the job " + f.Jobs[job].Label
		case network >= 0:
			d.StartedBy = f.Networks[network].Tool + " for its network " + f.Networks[network].Name
		case strings.HasPrefix(d.Program, "/opt/colima/"):
			d.StartedBy = "colima"
		default:
			d.StartedBy = byHand
		}
	}
}

// maxText is the longest text that is taken over from what is read, in bytes: longer than any path.
const maxText = 1024

// Clean makes foreign text one short line: nothing that is read can move the cursor or flood the screen.
func Clean(text string) string { return printable.Line(text, maxText) }

func cleanAll(texts []string) []string {
	out := make([]string, len(texts))
	for i, t := range texts {
		out[i] = Clean(t)
	}
	return out
}

// problem notes that path could not be read, unless it is just not there.
func (f *search) problem(path string, err error) {
	if err == nil || Absent(err) {
		return
	}
	p := problem{Path: Clean(path), Error: Clean(hostfs.Reason(err)), Root: errors.Is(err, fs.ErrPermission)}
	if !slices.Contains(f.Problems, p) {
		f.Problems = append(f.Problems, p)
	}
}

// read returns a file's content, or nil: what is absent is no problem, all else is.
func (f *search) read(path string) []byte {
	b, err := f.ReadFile(path, maxFile)
	f.problem(path, err)
	return b
}

// list returns the names in a directory, sorted; none when it is not there, and some if there are too many.
func (f *search) list(dir string) (names []string) {
	d, err := f.openAt(dir, syscall.O_DIRECTORY)
	if err == nil {
		defer d.Close()
		names, err = d.Readdirnames(maxEntries + 1)
	}
	if len(names) > maxEntries {
		names, err = names[:maxEntries], fmt.Errorf("has more than %d entries; only some were looked at", maxEntries)
	}
	if !errors.Is(err, io.EOF) {
		f.problem(dir, err)
	}
	slices.Sort(names)
	return names
}

// exists tells whether something is at path.
func (f *search) exists(path string) bool {
	_, err := f.Stat(path)
	f.problem(path, err)
	return err == nil
}

// formats are what files should be, by how their names end.
var formats = map[string]string{".yaml": "YAML", ".json": "JSON", ".plist": "property list"}

// decode reads a file into a T with unmarshal.
func decode[T any](f *search, path string, unmarshal func([]byte, any) error) (out T, ok bool) {
	b := f.read(path)
	if b == nil {
		return out, false
	}
	if err := parse(func() error { return unmarshal(b, &out) }); err != nil {
		f.problem(path, fmt.Errorf("is not the %s that it should be: %s", formats[filepath.Ext(path)], FirstLine(err.Error())))
		return out, false
	}
	return out, true
}

// instanceName is what Lima and minikube take as a name, so no other can be one.
var instanceName = regexp.MustCompile(`^[A-Za-z0-9]+(?:[._-][A-Za-z0-9]+)*$`)

// decodeEach decodes the file of every instance below dir, and calls do with it.
func decodeEach[T any](f *search, dir, file string, unmarshal func([]byte, any) error, do func(name string, c T)) {
	for _, name := range f.list(dir) {
		if !instanceName.MatchString(name) {
			continue
		}
		if c, ok := decode[T](f, filepath.Join(dir, name, file), unmarshal); ok {
			do(name, c)
		}
	}
}

// parse calls a parser that is not made for files that lie.
func parse(run func() error) (err error) {
	defer func() {
		if recover() != nil {
			err = errors.New("its parser gave up")
		}
	}()
	return run()
}

// FirstLine is that of a program's or a parser's text.
func FirstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}

// programAt is the known program at a path, by either of its names; nil if there is none.
func (v *Inventory) programAt(path string) *program {
	for i := range v.Programs {
		if p := &v.Programs[i]; p.uses(path) {
			return p
		}
	}
	return nil
}

// Ours tells whether socket_vmnet2 is installed or runs.
func (v *Inventory) Ours() bool {
	return slices.ContainsFunc(v.Programs, func(p program) bool { return p.Ours }) || slices.ContainsFunc(v.Servers, func(d server) bool { return d.Ours })
}

// uses tells whether what is started at path is the program p.
func (p program) uses(path string) bool { return SamePath(p.Path, path) || SamePath(p.Links, path) }

// under is dirs below each home, and first what a variable of the environment names.
func (f *search) under(variable string, dirs ...string) (all []string) {
	if dir := f.Getenv(variable); filepath.IsAbs(dir) {
		all = append(all, filepath.Clean(dir))
	}
	for _, home := range f.Homes {
		for _, dir := range dirs {
			if dir = filepath.Join(home, dir); !slices.Contains(all, dir) {
				all = append(all, dir)
			}
		}
	}
	return all
}
