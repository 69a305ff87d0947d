// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/socket-vmnet2/socket_vmnet2/internal/faults"
	"github.com/socket-vmnet2/socket_vmnet2/internal/perclient/passfd/proto"
	"github.com/socket-vmnet2/socket_vmnet2/internal/testing/fakeguest"
	"github.com/socket-vmnet2/socket_vmnet2/internal/testing/vnettest"
)

// faultyName is the daemon that is built with points where it panics.
const faultyName = "socket_vmnet2-faults"

// buildFaulty builds it, once.
var buildFaulty = sync.OnceValue(func() error {
	flags := slices.Clone(buildFlags)
	if i := slices.Index(flags, "-tags"); i >= 0 {
		flags[i+1] += ",faults"
	} else {
		flags = append(flags, "-tags", "faults")
	}
	out, err := exec.Command("go", append(append([]string{"build"}, flags...), "-o", filepath.Join(binaries, faultyName), ".")...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
})

// A faulty is a daemon that panics when a test says so.
type faulty struct {
	*process
	file  string // says where it panics
	nonce int
}

func startFaulty(t *testing.T) *faulty {
	t.Helper()
	require.NoError(t, buildFaulty())
	dir := vnettest.ShortDir(t)
	f := &faulty{file: filepath.Join(dir, "faults")}
	sock := filepath.Join(dir, "s")
	c := command(faultyName, sock, append([]string{"--state-dir=" + stateRoot(t)}, datagramArgs...)...)
	c.Env = append(os.Environ(), faults.Env+"="+f.file)
	f.process = runDaemon(t, c, sock)
	f.panics = true
	f.ready(t)
	f.servesDatagrams(t)
	return f
}

// arm has the daemon panic at the points, once each, and disarms all others. It returns how many goroutines it has.
func (f *faulty) arm(t *testing.T, points ...string) (goroutines int) {
	t.Helper()
	f.nonce++
	text := fmt.Sprintln(f.nonce)
	for _, p := range points {
		text += p + " 1\n"
	}
	require.NoError(t, os.WriteFile(f.file+".new", []byte(text), 0o600))
	require.NoError(t, os.Rename(f.file+".new", f.file))
	require.Eventually(t, func() bool {
		b, _ := os.ReadFile(f.file + faults.AckSuffix)
		nonce, count, _ := strings.Cut(string(b), " ")
		goroutines, _ = strconv.Atoi(count)
		return nonce == strconv.Itoa(f.nonce)
	}, patience, time.Millisecond, "is it built with the tag?")
	return goroutines
}

// count is how often the log tells of a panic at point.
func (f *faulty) count(point string) int {
	return strings.Count(f.stderr.String(), "injected at "+point)
}

// marked is a frame over which a point panics.
func marked(dst, src net.HardwareAddr) []byte {
	return testFrame(dst, src, strings.Repeat(faults.Mark+" ", 20))
}

var victimMAC = net.HardwareAddr{2, 0, 0, 0, 0xf, 1}

// A victim is the client that an injected panic is about.
type victim struct {
	*faulty
	t    *testing.T
	s    *fakeguest.Guest // hears it
	way  vnettest.Transport
	link fakeguest.Link
}

// say sends a broadcast of the victim's until it was heard.
func (v *victim) say(text string) {
	v.t.Helper()
	hears(v.t, v.s, text, func() error { return v.link.Send(testFrame(fakeguest.Broadcast, victimMAC, text)) })
}

// An injection is a panic at a point.
type injection struct {
	point string
	ways  func(p *process) []vnettest.Transport // of the victim
	// before is what the victim does before the point is armed, and do what leads there. Both may be nil.
	before, do func(v *victim)
	ends       bool // the victim's session does
}

func (v *victim) dial()      { v.link = dialWay(v.t, v.way) }
func (v *victim) introduce() { v.dial(); v.say("here") }

// onePer is a way for each kind of link.
func onePer(p *process) []vnettest.Transport {
	return []vnettest.Transport{p.stream(), p.unconnected(), p.attach(proto.Datagram)}
}

func streamOnly(p *process) []vnettest.Transport { return []vnettest.Transport{p.stream()} }

// injections are the points in what serves one client.
func injections() []injection {
	flood := func(v *victim) {
		l := fakeguest.EthernetFrame(victimMAC, v.s.MAC(), fakeguest.TypeTest, []byte(strings.Repeat(faults.Mark+" ", 100)))
		before := v.count("link.drain")
		for range 400 {
			require.NoError(v.t, v.s.Send(slices.Repeat([][]byte{l}, 20)...))
			if v.count("link.drain") > before {
				return
			}
		}
		// It reads now, slowly: the drainer has something to do.
		_, err := fakeguest.New(v.link, fakeguest.Options{MAC: victimMAC})
		require.NoError(v.t, err)
	}
	toVictim := func(v *victim) { require.NoError(v.t, v.s.Send(marked(victimMAC, v.s.MAC()))) }
	fromVictim := func(v *victim) { _ = v.link.Send(marked(fakeguest.Broadcast, victimMAC)) }
	attachRaw := func(v *victim) {
		a, err := proto.Attach(v.t.Context(), v.sock, proto.Request{})
		if err == nil {
			_ = a.Close()
		}
	}
	all := []injection{
		{"perclient.frames", onePer, (*victim).introduce, fromVictim, true},
		{"link.deliver", onePer, (*victim).introduce, toVictim, true},
		{"link.drain", onePer, (*victim).introduce, flood, true},
		{"perclient.keep", onePer, nil, func(v *victim) {
			if l, err := v.way.Dial(v.t.Context()); err == nil { // one that asks is refused
				v.link = l
				_ = l.Send(testFrame(fakeguest.Broadcast, victimMAC, "never heard"))
			}
		}, true},
		{"perclient.end", onePer, (*victim).introduce, func(v *victim) { _ = v.link.Close() }, false},
		{"passing.request", streamOnly, nil, attachRaw, false},
		{"perclient.lifeline", streamOnly, nil, attachRaw, false},
		{"perclient.sweep", func(p *process) []vnettest.Transport {
			return []vnettest.Transport{vnettest.PathSocket(p.sock, markedDir(p), true)}
		}, (*victim).introduce, nil, true},
		{"dgram.read", func(p *process) []vnettest.Transport {
			return []vnettest.Transport{vnettest.PathSocket(p.sock, markedDir(p), false), vnettest.PathSocket(p.sock, markedDir(p), true)}
		}, (*victim).introduce, fromVictim, true},
	}
	if onSimulator() { // the others are the same ones
		return []injection{
			{"vmnet.send", onePer, (*victim).introduce, fromVictim, true},
			{"vmnet.read", onePer, (*victim).introduce, toVictim, false},
		}
	}
	return all
}

// markedDir is a directory whose name has the mark.
func markedDir(p *process) string {
	dir := filepath.Join(filepath.Dir(p.sock), faults.Mark)
	_ = os.Mkdir(dir, 0o755)
	return dir
}

// TestPanics: wherever the daemon panics over one client, that client ends, the log says so, and others, whose frames are
// flowing meanwhile, lose nothing. Afterwards nothing is left of it.
func TestPanics(t *testing.T) {
	t.Parallel()
	f := startFaulty(t)
	s1, s2, g := over(t, f.stream()), over(t, f.stream()), over(t, f.attach(proto.Datagram))
	introduce(t, s1, s2, g)
	for _, in := range injections() {
		for _, way := range in.ways(f.process) {
			t.Run(in.point+" "+way.Name, func(t *testing.T) { f.inject(t, in, way, s1, s2, g) })
		}
	}
	introduce(t, s1, s2, g)
}

func (f *faulty) inject(t *testing.T, in injection, way vnettest.Transport, s1, s2, g *fakeguest.Guest) {
	gone := strings.Count(f.stderr.String(), "client gone")
	files, goroutines := f.files(t), f.arm(t)
	v := &victim{faulty: f, t: t, s: s1, way: way}
	if in.before != nil {
		in.before(v)
	}
	stop := f.beside(t, [2]*fakeguest.Guest{s2, g}, [2]*fakeguest.Guest{g, s2})
	before := f.count(in.point)
	f.arm(t, in.point)
	if in.do != nil {
		in.do(v)
	}
	require.Eventually(t, func() bool { return f.count(in.point) > before }, patience, time.Millisecond, "no panic")
	if in.ends {
		require.Eventually(t, func() bool { return strings.Count(f.stderr.String(), "client gone") > gone }, patience, time.Millisecond, "no session ended")
	}
	stop()
	require.True(t, f.alive(), "%s", f.stderr)
	if v.link != nil {
		_ = v.link.Close()
		// A client that is not connected is known to have gone when a frame for it does not arrive.
		require.NoError(t, s1.Send(testFrame(victimMAC, s1.MAC(), "gone?")))
	}
	require.Eventually(t, func() bool {
		n, r := f.files(t), f.arm(t)
		return n <= files+1 && r <= goroutines+1 // the socket for questions about sockets, a timer that fires
	}, patience, 50*time.Millisecond, "descriptors or goroutines are left")
	for _, x := range []*fakeguest.Guest{s1, s2, g} {
		require.NoError(t, x.Err())
	}
}
