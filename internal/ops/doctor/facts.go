// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http"
	"net/netip"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/socket-vmnet2/socket_vmnet2/internal/daemon/control"
	"github.com/socket-vmnet2/socket_vmnet2/internal/ops/find"
	"github.com/socket-vmnet2/socket_vmnet2/internal/ops/freenet"
	"github.com/socket-vmnet2/socket_vmnet2/internal/status"
)

// A socket is one that a daemon has, had or will have. Err is why the daemon does not tell of itself.
type socket struct {
	*find.Daemon
	Status *status.Status // what its daemon tells
}

// gather begins an examination with the inventory and what all daemons tell.
func gather(ctx context.Context, s System) *exam {
	x := &exam{System: s, Inventory: find.Look(ctx, s.System), ctx: ctx, findings: []finding{}, skipped: []omission{}}
	x.macOS = x.macOSVersion()
	x.findSockets()
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	var all sync.WaitGroup
	for _, k := range x.sockets {
		all.Go(func() { x.ask(ctx, k) })
	}
	all.Wait()
	x.findSubnets()
	if s.Table != nil {
		x.table, x.tableErr = s.Table()
	}
	return x
}

// ask asks a socket's daemon for its status.
func (x *exam) ask(ctx context.Context, k *socket) {
	if x.Ask == nil {
		return
	}
	answer, err := x.Ask(ctx, filepath.Join(x.Root, k.Control))
	if err == nil {
		if err = json.Unmarshal(answer, &k.Status); err != nil {
			k.Status, err = nil, fmt.Errorf("the answer is not a status: %w", err)
		}
	}
	k.Err = err
}

// macOSVersion asks sw_vers(1), which prints the version and nothing else. A staged system has it in a property list.
func (x *exam) macOSVersion() string {
	if x.GOOS != "darwin" {
		return ""
	}
	if out, err := x.Output(x.ctx, "/usr/bin/sw_vers", "-productVersion"); err == nil {
		return find.FirstLine(find.Clean(strings.TrimSpace(out)))
	}
	var v struct{ ProductVersion string }
	_ = x.readPlist("/System/Library/CoreServices/SystemVersion.plist", &v)
	return find.Clean(v.ProductVersion)
}

// macMajor is the major version of macOS, 0 if it is not known.
func (x *exam) macMajor() int {
	major, _, _ := strings.Cut(x.macOS, ".")
	n, _ := strconv.Atoi(major)
	return max(n, 0)
}

// findSockets collects the sockets that are known or named, and those that minikube would find.
func (x *exam) findSockets() {
	named := slices.Clone(x.Named)
	for _, path := range find.MinikubeSockets {
		if at, err := x.node(path); err == nil && at.Type() == fs.ModeSocket {
			named = append(named, path)
		}
	}
	for _, k := range x.Daemons(x.System.System, named...) {
		if x.asked(k.Socket) {
			x.sockets = append(x.sockets, &socket{Daemon: k})
		}
	}
}

// asked tells whether a socket is among those that were asked for, if any were.
func (x *exam) asked(path string) bool {
	return len(x.Named) == 0 || slices.ContainsFunc(x.Named, func(s string) bool { return x.Same(s, path) })
}

// serving are the sockets whose daemons tell of themselves, or seem to run.
func (x *exam) serving() (all []*socket) {
	for _, k := range x.sockets {
		if k.Status != nil || k.PID != 0 {
			all = append(all, k)
		}
	}
	return all
}

// telling are those whose daemons tell of themselves.
func (x *exam) telling() []*socket {
	return slices.DeleteFunc(x.serving(), func(k *socket) bool { return k.Status == nil })
}

// A System is what there is to examine, and all that checks ask.
type System struct {
	find.System
	User  account    // for whom permissions are checked
	Named []string   // to look at, and at no other; empty: all that are found
	Reach netip.Addr // a guest that should be reachable; zero: none

	// A staged system has none of these, unless they are recorded.
	Table    func() (*freenet.Table, error)                                     // interfaces and routes
	Ask      func(ctx context.Context, control string) (json.RawMessage, error) // a control socket for its status
	Writable func(path string) error                                            // for the user: access(2)
	Group    func(gid int) string                                               // its name, or else its number
}

// Host is the machine itself, or below another root the files of a system.
func Host(s find.System) System {
	if s.Staged() {
		s.GOOS = stagedOS(s)
		return System{System: s, User: account{Staged: true}, Group: strconv.Itoa}
	}
	h := System{
		System: s, User: caller(), Table: freenet.System, Group: groupName,
		Ask: func(ctx context.Context, controlSocket string) (json.RawMessage, error) {
			_, answer, err := control.Ask(ctx, controlSocket, http.MethodGet, "/v1/status", nil)
			return answer, err
		},
	}
	if !h.User.Behind {
		h.Writable = func(path string) error { return unix.Access(path, unix.W_OK) }
	}
	return h
}

// stagedOS tells by a directory that only macOS has what kind of system is staged.
func stagedOS(s find.System) string {
	for _, dir := range []string{"/System/Library", "/Library/LaunchDaemons", "/Users", "/opt/homebrew"} {
		if _, err := s.Stat(dir); err == nil {
			return "darwin"
		}
	}
	return runtime.GOOS
}

// maxFile is the largest file that is read, in bytes: some thousand leases.
const maxFile = 1 << 20

func (s System) readFile(path string) ([]byte, error) { return s.ReadFile(path, maxFile) }

// readPlist reads a property list in any of its forms.
func (s System) readPlist(path string, into any) error {
	b, err := s.readFile(path)
	if err != nil {
		return err
	}
	return find.UnmarshalPlist(b, into)
}
