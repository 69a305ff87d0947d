// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/socket-vmnet2/socket_vmnet2/internal/ops/find"
	"github.com/socket-vmnet2/socket_vmnet2/internal/status"
)

// facts are what several checks look at. They are gathered once, and only read then.
type facts struct {
	System
	*find.Inventory
	sockets []*socket
	macOS   string // version, as in "26.1"; empty: not known, or no macOS
}

// A socket is one that a daemon has, had or will have.
type socket struct {
	Path    string
	By      []string       // what names it
	Server  *find.Server   // the process that serves it, by its command line
	Status  *status.Status // what its daemon tells
	AskErr  error          // why it does not
	control string         // path of the control socket
	exists  bool
	node    node
}

// maxSockets bounds how many sockets are looked at.
const maxSockets = 64

// gather collects them.
func gather(ctx context.Context, s System) *facts {
	look, cancel := context.WithTimeout(ctx, factTime)
	defer cancel()
	f := &facts{System: s, Inventory: find.Look(look, s.System)}
	f.macOS = f.macOSVersion(look)
	f.findSockets()
	f.askAll(ctx)
	return f
}

// askAll asks every daemon, all at once.
func (f *facts) askAll(ctx context.Context) {
	if f.Ask == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	var all sync.WaitGroup
	for _, k := range f.sockets {
		all.Go(func() { k.Status, k.AskErr = f.ask(ctx, k.control) })
	}
	all.Wait()
}

// macOSVersion asks sw_vers(1), which prints the version and nothing else. A staged system has it in a property list.
func (f *facts) macOSVersion(ctx context.Context) string {
	if f.GOOS != "darwin" {
		return ""
	}
	if f.Run != nil {
		if out, err := f.Run(ctx, "/usr/bin/sw_vers", "-productVersion"); err == nil {
			return firstLine(find.Clean(strings.TrimSpace(string(out))))
		}
	}
	var v struct{ ProductVersion string }
	_ = f.readPlist("/System/Library/CoreServices/SystemVersion.plist", &v)
	return find.Clean(v.ProductVersion)
}

// macMajor is the major version of macOS, 0 if it is not known.
func (f *facts) macMajor() int {
	major, _, _ := strings.Cut(f.macOS, ".")
	n, _ := strconv.Atoi(major)
	return max(n, 0)
}

func (f *facts) systemName() string {
	if f.GOOS != "darwin" {
		return f.GOOS
	}
	return strings.TrimSpace("macOS " + f.macOS)
}

// findSockets collects the sockets of daemons, jobs and networks, those that were named, and those that minikube looks for.
func (f *facts) findSockets() {
	for i, s := range f.Setups() {
		if k := f.socket(s.Socket, s.By); k != nil && i < len(f.Servers) {
			k.Server = &f.Servers[i]
		}
	}
	for _, s := range f.Sockets {
		f.socket(s, "")
	}
	f.findDaemons()
	for _, s := range find.MinikubeSockets {
		if fi, err := f.Stat(s); err == nil && isSocket(fi.Mode()) {
			f.socket(s, "")
		}
	}
	f.sockets = slices.DeleteFunc(f.sockets, func(k *socket) bool { return !f.asked(k.Path) })
	for _, k := range f.sockets {
		n, err := f.lstat(k.Path)
		k.exists, k.node = err == nil, n
	}
}

// findDaemons adds the daemons that are found by their sockets, and where their control sockets are.
func (f *facts) findDaemons() {
	var found []find.Daemon
	switch {
	case f.Dial == nil:
	case len(f.Sockets) == 0:
		found = find.Daemons(f.System.System)
	default:
		for _, s := range f.Sockets {
			found = append(found, find.One(f.System.System, s))
		}
	}
	for _, d := range found {
		k := f.socket(d.Socket, "")
		if k == nil && d.Control != "" { // a runtime directory was named, and its socket is not known
			k = f.socket(filepath.Dir(d.Control), "")
		}
		if k == nil {
			continue
		}
		if d.Control != "" {
			k.control = d.Control
		}
		if k.Server == nil && d.PID != 0 {
			k.Server = &find.Server{Process: find.Process{PID: d.PID, UID: -1}, Ours: !d.Old}
		}
	}
}

// socket is the known socket at a path, added if need be; nil for what is no absolute path.
func (f *facts) socket(path, by string) *socket {
	if !filepath.IsAbs(path) || len(f.sockets) >= maxSockets {
		return nil
	}
	i := slices.IndexFunc(f.sockets, func(k *socket) bool { return f.same(k.Path, path) })
	if i < 0 {
		i = len(f.sockets)
		f.sockets = append(f.sockets, &socket{Path: filepath.Clean(path), control: filepath.Clean(path) + ".d/control"})
	}
	if by != "" {
		f.sockets[i].By = append(f.sockets[i].By, by)
	}
	return f.sockets[i]
}

func (f *facts) same(a, b string) bool { return find.SamePath(a, b) || f.Real(a) == f.Real(b) }

// asked tells whether a socket is among those that were asked for, if any were.
func (f *facts) asked(path string) bool {
	return len(f.Sockets) == 0 || slices.ContainsFunc(f.Sockets, func(s string) bool { return f.same(s, path) })
}

// errOlder says that a daemon has no status: it is of a version before that.
var errOlder = errors.New("it is older than this program and does not describe itself")

// ask asks one daemon for its status.
func (f *facts) ask(ctx context.Context, controlSocket string) (*status.Status, error) {
	code, answer, err := f.Ask(ctx, filepath.Join(f.Root, controlSocket), "/v1/status")
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

// serving are the sockets whose daemons tell of themselves, or seem to run.
func (f *facts) serving() (all []*socket) {
	for _, k := range f.sockets {
		if k.Status != nil || k.Server != nil {
			all = append(all, k)
		}
	}
	return all
}

// telling are those whose daemons tell of themselves.
func (f *facts) telling() []*socket {
	return slices.DeleteFunc(f.serving(), func(k *socket) bool { return k.Status == nil })
}
