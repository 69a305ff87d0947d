// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"path/filepath"
	"slices"
	"strings"

	"howett.net/plist"

	"github.com/socket-vmnet2/socket_vmnet2/internal/find"
	"github.com/socket-vmnet2/socket_vmnet2/internal/migrate"
	"github.com/socket-vmnet2/socket_vmnet2/internal/status"
)

// facts are what several checks look at. They are gathered once, and only read then.
type facts struct {
	System
	plan      *migrate.Plan
	processes map[int]find.Process
	known     bool // the processes are
	places    []*place
	macOS     string // version, as in "26.1"; empty: not known, or no macOS
	findings  []Finding
	skipped   []Skip
}

// A place is a socket that a daemon has, had or will have.
type place struct {
	Socket  string
	By      []string        // what names it
	Daemon  *migrate.Daemon // the process that serves it, by its command line
	Status  *status.Status  // what its daemon tells
	AskErr  error           // why it does not
	control string          // path of the control socket
	exists  bool
	node    node
}

// usualSockets is where minikube looks for a socket, in its order.
var usualSockets = []string{"/var/run/socket_vmnet", "/opt/homebrew/var/run/socket_vmnet", "/usr/local/var/run/socket_vmnet"}

// maxPlaces bounds how many sockets are looked at.
const maxPlaces = 64

// gather never takes longer than its times: what hangs is a finding.
func gather(ctx context.Context, s System) *facts {
	f := &facts{System: s, plan: &migrate.Plan{}, findings: []Finding{}, skipped: []Skip{}}
	var found []find.Daemon
	f.limited(ctx, factTime, []task{
		{"installs", "what is installed", func(ctx context.Context) (func(), error) {
			p := migrate.Find(ctx, migrate.System{
				Root: s.Root, Homes: s.Homes, GOOS: s.GOOS, Program: s.Program, Version: s.Version, Env: s.Env, Run: s.Run, Processes: s.Processes,
			})
			return func() { f.plan = p }, nil
		}},
		{"daemons", "which processes run", func(ctx context.Context) (func(), error) {
			if s.Processes == nil {
				return nil, nil
			}
			all, err := s.Processes(ctx)
			return func() { f.takeProcesses(all) }, err
		}},
		{"macos", "the version of macOS", func(ctx context.Context) (func(), error) {
			version := s.macOSVersion(ctx)
			return func() { f.macOS = version }, nil
		}},
		{"daemons", "which daemons run", func(context.Context) (func(), error) {
			if s.Find == nil {
				return nil, nil
			}
			all := s.Find(s.Sockets)
			return func() { found = all }, nil
		}},
	})
	f.limited(ctx, placeTime, []task{{"daemons", "where the sockets are", func(context.Context) (func(), error) {
		g := *f
		g.findPlaces(found)
		return func() { f.places = g.places }, nil
	}}})
	f.askAll(ctx)
	return f
}

func (f *facts) takeProcesses(all []find.Process) {
	f.known, f.processes = true, map[int]find.Process{}
	for _, p := range all {
		f.processes[p.PID] = p
	}
}

// macOSVersion asks sw_vers(1), which prints the version and nothing else. A staged system has it in a property list.
func (s System) macOSVersion(ctx context.Context) string {
	if s.GOOS != "darwin" {
		return ""
	}
	if s.Run != nil {
		if out, err := s.Run(ctx, "/usr/bin/sw_vers", "-productVersion"); err == nil {
			return firstLine(migrate.Clean(strings.TrimSpace(string(out))))
		}
	}
	var v struct{ ProductVersion string }
	if s.readPlist("/System/Library/CoreServices/SystemVersion.plist", &v) != nil {
		return ""
	}
	return migrate.Clean(v.ProductVersion)
}

func (f *facts) systemName() string {
	if f.GOOS != "darwin" {
		return f.GOOS
	}
	return strings.TrimSpace("macOS " + f.macOS)
}

// readPlist reads a property list in any of its forms.
func (s System) readPlist(path string, into any) error {
	b, err := s.readFile(path)
	if err != nil {
		return err
	}
	return decodePlist(b, into)
}

func decodePlist(b []byte, into any) (err error) {
	defer func() {
		if recover() != nil { // the parser is not made for files that lie
			err = errors.New("is no property list")
		}
	}()
	_, err = plist.Unmarshal(b, into)
	return err
}

// findPlaces collects the sockets.
func (f *facts) findPlaces(found []find.Daemon) {
	for i := range f.plan.Daemons {
		d := &f.plan.Daemons[i]
		if p := f.place(d.Socket, fmt.Sprintf("process %d", d.PID)); p != nil {
			p.Daemon = d
		}
	}
	for _, j := range f.plan.Jobs {
		f.place(j.Socket, "the job "+j.Label)
	}
	for _, n := range f.plan.Networks {
		f.place(n.Socket, n.Tool+"'s network "+n.Name)
	}
	for _, s := range f.Sockets {
		f.place(s, "")
	}
	f.findMore(found)
	for _, s := range usualSockets {
		if n, err := f.lstat(s); err == nil && n.Type() == fs.ModeSocket {
			f.place(s, "")
		}
	}
	f.places = slices.DeleteFunc(f.places, func(p *place) bool { return !f.asked(p.Socket) })
	for _, p := range f.places {
		n, err := f.lstat(p.Socket)
		p.exists, p.node = err == nil, n
	}
}

// findMore takes over the daemons that the machine has, beyond those that migrate knows.
func (f *facts) findMore(found []find.Daemon) {
	for _, d := range found {
		p := f.place(d.Socket, "")
		if p == nil && d.Control != "" { // a runtime directory was named, and nobody knows the socket
			p = f.place(filepath.Dir(d.Control), "")
		}
		if p == nil {
			continue
		}
		if d.Control != "" {
			p.control = d.Control
		}
		if p.Daemon == nil && d.PID != 0 {
			p.Daemon = &migrate.Daemon{PID: d.PID, UID: -1, Ours: !d.Old}
		}
	}
}

// place is the place of a socket, added if need be; nil for what is no absolute path.
func (f *facts) place(socket, by string) *place {
	if !filepath.IsAbs(socket) || len(f.places) >= maxPlaces {
		return nil
	}
	truly := f.truePath(socket)
	i := slices.IndexFunc(f.places, func(p *place) bool { return migrate.SamePath(p.Socket, socket) || f.truePath(p.Socket) == truly })
	if i < 0 {
		i = len(f.places)
		f.places = append(f.places, &place{Socket: filepath.Clean(socket), control: filepath.Clean(socket) + ".d/control"})
	}
	if by != "" {
		f.places[i].By = append(f.places[i].By, by)
	}
	return f.places[i]
}

// asked tells whether a socket is among those that were asked for, if any were.
func (f *facts) asked(socket string) bool {
	return len(f.Sockets) == 0 || slices.ContainsFunc(f.Sockets, func(s string) bool {
		return migrate.SamePath(s, socket) || f.truePath(s) == f.truePath(socket)
	})
}

// truePath is path without links in its directory.
func (f *facts) truePath(path string) string {
	if dir, err := f.files().Resolve(filepath.Dir(path)); err == nil {
		return filepath.Join(dir, filepath.Base(path))
	}
	return filepath.Clean(path)
}

// askAll asks every daemon for its status, all at once.
func (f *facts) askAll(ctx context.Context) {
	if f.Ask == nil {
		return
	}
	var tasks []task
	for _, p := range f.places {
		tasks = append(tasks, task{"daemons", "how the daemon at " + p.Socket + " is", func(ctx context.Context) (func(), error) {
			st, err := f.ask(ctx, p.control)
			return func() { p.Status, p.AskErr = st, err }, nil
		}})
	}
	f.limited(ctx, askTime, tasks)
}

// ask asks one daemon.
func (f *facts) ask(ctx context.Context, controlSocket string) (*status.Status, error) {
	code, answer, err := f.Ask(ctx, f.real(controlSocket), "/v1/status")
	if code == http.StatusNotFound {
		return nil, errOlder
	}
	if err != nil {
		return nil, err
	}
	var st status.Status
	if err := json.Unmarshal(answer, &st); err != nil {
		return nil, fmt.Errorf("the answer is no status: %w", err)
	}
	return &st, nil
}

// errOlder says that a daemon has no status: it is of a version before that.
var errOlder = errors.New("it is older than this program and does not describe itself")

// serving are the places that a daemon tells of, or seems to serve.
func (f *facts) serving() (all []*place) {
	for _, p := range f.places {
		if p.Status != nil || p.Daemon != nil {
			all = append(all, p)
		}
	}
	return all
}
