// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"net/netip"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/socket-vmnet2/socket_vmnet2/internal/ops/find"
	"github.com/socket-vmnet2/socket_vmnet2/internal/status"
)

// A socket is one that a daemon has, had or will have.
type socket struct {
	Path    string
	By      []string       // what names it
	Server  *find.Server   // the process that serves it, by its command line
	Status  *status.Status // what its daemon tells
	AskErr  error          // why it does not
	control string         // path of the control socket
}

// maxSockets bounds how many sockets are looked at.
const maxSockets = 64

// gather begins an examination with the inventory and what all daemons tell.
func gather(ctx context.Context, s System) *exam {
	look, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	x := &exam{System: s, Inventory: find.Look(look, s.System), ctx: look, proposed: map[string]netip.Prefix{}, findings: []finding{}, skipped: []omission{}}
	x.macOS = x.macOSVersion()
	x.findSockets()
	if s.Ask == nil {
		return x
	}
	ctx, cancel = context.WithTimeout(ctx, askTime)
	defer cancel()
	var all sync.WaitGroup
	for _, k := range x.sockets {
		all.Go(func() { k.Status, k.AskErr = x.ask(ctx, k.control) })
	}
	all.Wait()
	return x
}

// macOSVersion asks sw_vers(1), which prints the version and nothing else. A staged system has it in a property list.
func (x *exam) macOSVersion() string {
	if x.GOOS != "darwin" {
		return ""
	}
	if out, err := x.program("/usr/bin/sw_vers", "-productVersion"); err == nil {
		return firstLine(find.Clean(strings.TrimSpace(out)))
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

func (x *exam) systemName() string {
	if x.GOOS != "darwin" {
		return x.GOOS
	}
	return strings.TrimSpace("macOS " + x.macOS)
}

// findSockets collects the sockets of daemons, jobs and networks, those that were named, and those at usual places.
func (x *exam) findSockets() {
	for i, s := range x.Setups() {
		if k := x.socket(s.Socket, s.By); k != nil && i < len(x.Servers) {
			k.Server, k.control = &x.Servers[i], find.ControlOf(s.Socket, s.RuntimeDir)
		}
	}
	for _, s := range x.Sockets {
		k := x.socket(s, "")
		if fi, err := x.Stat(s); err == nil && fi.IsDir() && k != nil { // a runtime directory, whose socket is not known
			k.control = find.ControlOf("", s)
		}
	}
	for _, s := range x.Controlled() {
		x.socket(s, "")
	}
	for _, s := range find.MinikubeSockets {
		if at, err := x.node(s); err == nil && at.Type() == fs.ModeSocket {
			x.socket(s, "")
		}
	}
	x.sockets = slices.DeleteFunc(x.sockets, func(k *socket) bool { return !x.asked(k.Path) })
}

// socket is the known socket at a path, added if need be; nil for what is no absolute path.
func (x *exam) socket(path, by string) *socket {
	if !filepath.IsAbs(path) || len(x.sockets) >= maxSockets {
		return nil
	}
	i := slices.IndexFunc(x.sockets, func(k *socket) bool { return x.same(k.Path, path) })
	if i < 0 {
		i = len(x.sockets)
		x.sockets = append(x.sockets, &socket{Path: filepath.Clean(path), control: find.ControlOf(filepath.Clean(path), "")})
	}
	if by != "" {
		x.sockets[i].By = append(x.sockets[i].By, by)
	}
	return x.sockets[i]
}

func (x *exam) same(a, b string) bool { return find.SamePath(a, b) || x.Real(a) == x.Real(b) }

// asked tells whether a socket is among those that were asked for, if any were.
func (x *exam) asked(path string) bool {
	return len(x.Sockets) == 0 || slices.ContainsFunc(x.Sockets, func(s string) bool { return x.same(s, path) })
}

// ask asks one daemon for its status.
func (x *exam) ask(ctx context.Context, controlSocket string) (*status.Status, error) {
	_, answer, err := x.Ask(ctx, filepath.Join(x.Root, controlSocket), "/v1/status")
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
func (x *exam) serving() (all []*socket) {
	for _, k := range x.sockets {
		if k.Status != nil || k.Server != nil {
			all = append(all, k)
		}
	}
	return all
}

// telling are those whose daemons tell of themselves.
func (x *exam) telling() []*socket {
	return slices.DeleteFunc(x.serving(), func(k *socket) bool { return k.Status == nil })
}
