// SPDX-License-Identifier: Apache-2.0

package passing

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/socket-vmnet2/socket_vmnet2/internal/handoff"
	"github.com/socket-vmnet2/socket_vmnet2/internal/passing/client"
	"github.com/socket-vmnet2/socket_vmnet2/internal/passing/proto"
	"github.com/socket-vmnet2/socket_vmnet2/internal/vnet"
)

// handedOver is what a new image would find, of descriptors fds, which it takes over.
func handedOver(t *testing.T, fds []int) *handoff.In {
	t.Helper()
	b, err := json.Marshal(handoff.Manifest{Version: handoff.Version, PID: os.Getpid(), FDs: fds})
	require.NoError(t, err)
	f, err := os.CreateTemp(t.TempDir(), "")
	require.NoError(t, err)
	require.NoError(t, os.Remove(f.Name()))
	_, err = f.Write(b)
	require.NoError(t, err)
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 3)
	require.NoError(t, err)
	require.NoError(t, f.Close())
	require.NoError(t, os.Setenv("SOCKET_VMNET2_HANDOFF", strconv.Itoa(fd)))
	in, err := handoff.Inherited()
	require.NoError(t, err)
	require.NotNil(t, in)
	return in
}

// duplicated is v with descriptors of its own, as if they had stayed open over an exec, and those.
func duplicated(t *testing.T, v Saved) (d Saved, fds []int) {
	t.Helper()
	b, err := json.Marshal(v) // as the manifest has it
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(b, &d))
	dup := func(fd *int) {
		if *fd < 0 {
			return
		}
		n, err := unix.FcntlInt(uintptr(*fd), unix.F_DUPFD_CLOEXEC, 3)
		require.NoError(t, err)
		*fd = n
		fds = append(fds, n)
	}
	for i := range d.Sessions {
		x := &d.Sessions[i]
		dup(&x.Session.Link.FD)
		dup(&x.Conn.FD)
		dup(&x.Theirs)
	}
	for i := range d.Unread {
		dup(&d.Unread[i].FD)
	}
	return d, fds
}

// standStill has the server and its sessions stand still.
func (r *rig) standStill(t *testing.T) {
	t.Helper()
	r.Pause()
	r.clients.pause()
	r.clients.each(func(x *fakeSession) {
		require.Eventually(t, func() bool {
			select {
			case <-x.done:
				return true
			default:
				return x.stands.Load()
			}
		}, patience, time.Millisecond, "a session does not stand still")
	})
}

// save is what another image finds, of a rig that stands.
func (r *rig) save(t *testing.T) (Saved, *handoff.In) {
	t.Helper()
	v, fds := duplicated(t, r.Save(&handoff.Out{}))
	return v, handedOver(t, fds)
}

// next has another server take over what r has saved. The old one ends without a word to anybody, as in an exec.
func (r *rig) next(t *testing.T, v Saved, in *handoff.In) {
	t.Helper()
	old, clients := r.Server, r.clients
	r.clients = &fakeClients{ready: clients.ready}
	r.Server = NewServer(old.opts)
	r.self, r.times, r.watch.every = old.self, old.times, old.watch.every
	r.serve, r.restore = r.clients.Serve, r.clients.Restore
	r.takeOver(in, v)
	in.CloseRest()
	r.now.Store(r.Server)

	old.mu.Lock()
	for c := range old.unread {
		_ = c.Close()
	}
	for m := range old.members {
		if m.conn.UnixConn != nil {
			_ = m.conn.Close()
		}
		if m.theirs != proto.None {
			_ = unix.Close(m.theirs)
			m.theirs = proto.None
		}
	}
	old.mu.Unlock()
	clients.abandon()
	old.Stop()
	clients.running.Wait()
	limit, end := context.WithTimeout(t.Context(), patience)
	defer end()
	old.Wait(limit)
	require.NoError(t, limit.Err(), "connections of the old image are left")
	// Links that were not closed, which would shut down sockets that others share, go with the memory.
	t.Cleanup(func() { runtime.GC(); runtime.GC() })
}

func (r *rig) upgrade(t *testing.T) {
	t.Helper()
	r.standStill(t)
	v, in := r.save(t)
	r.next(t, v, in)
}

// carried are the ways in which a client may have come.
var carried = []struct {
	name      string
	transport proto.Transport
	adopt     *proto.Request // nil: bare
	attach    bool
	lifeline  bool
}{
	{name: "attach dgram", attach: true, transport: proto.Datagram, lifeline: true},
	{name: "attach stream", attach: true, transport: proto.Stream, lifeline: true},
	{name: "adopt bare", transport: proto.Datagram},
	{name: "adopt dgram", transport: proto.Datagram, adopt: &proto.Request{}},
	{name: "adopt stream", transport: proto.Stream, adopt: &proto.Request{Transport: proto.Stream}},
	{name: "adopt dgram and wait", transport: proto.Datagram, adopt: &proto.Request{Wait: true}, lifeline: true},
	{name: "adopt stream and wait", transport: proto.Stream, adopt: &proto.Request{Transport: proto.Stream, Wait: true}, lifeline: true},
}

// come brings a client: its end of the socket, and the lifeline if there is one.
func (r *rig) come(t *testing.T, i int) (end, lifeline *os.File) {
	t.Helper()
	c := carried[i]
	if c.attach {
		a := r.attach(t, proto.Request{Transport: c.transport, Name: "web", MAC: testMAC})
		return a.File, a.Lifeline
	}
	kept, a := r.adopt(t, c.transport, c.adopt)
	if a.Lifeline != nil {
		t.Cleanup(func() { _ = a.Lifeline.Close() })
	}
	return kept, a.Lifeline
}

// wire is a frame of n bytes as it goes over a transport.
func wire(n int, t proto.Transport) []byte {
	if t == proto.Stream {
		return append(binary.BigEndian.AppendUint32(nil, uint32(n)), ethernet(n)...)
	}
	return ethernet(n)
}

// TestUpgrade: clients are served on, however they came, over several upgrades and a failed one, and end as they do otherwise.
func TestUpgrade(t *testing.T) {
	for i, c := range carried {
		for _, ends := range []string{"lifeline", "socket"} {
			if ends == "lifeline" && !c.lifeline {
				continue
			}
			t.Run(c.name+", "+ends, func(t *testing.T) {
				r := newRig(t, func(r *rig) { elsewhere(r); r.watch.every = 10 * time.Millisecond })
				end, lifeline := r.come(t, i)
				x := r.clients.session(t, 0)
				exchange(t, end, c.transport)

				for range 3 {
					r.standStill(t)
					v, in := r.save(t)
					require.Len(t, v.Sessions, 1)
					assert.Equal(t, c.lifeline, v.Sessions[0].Conn.FD >= 0)
					_, err := end.Write(wire(60, c.transport)) // waits in the socket
					require.NoError(t, err)
					stats := x.link.Stats()
					r.next(t, v, in)
					y := r.clients.session(t, 0)
					require.NotNil(t, y.restored)
					assert.Equal(t, x.client.Log, y.client.Log)
					got := make([]byte, len(wire(60, c.transport)))
					_, err = io.ReadFull(end, got)
					require.NoError(t, err)
					assert.Equal(t, wire(60, c.transport), got)
					stats.ToNetFrames++
					stats.ToNetBytes += 60
					stats.ToClientFrames++
					stats.ToClientBytes += 60
					require.Eventually(t, func() bool { return y.link.Stats().Queued == 0 }, patience, time.Millisecond) // the client has it before the sender knows
					assert.Equal(t, stats, y.link.Stats(), "counters go on")
					exchange(t, end, c.transport)
					x = y

					r.standStill(t) // and the exec fails
					_, in = r.save(t)
					in.CloseRest()
					r.clients.resume()
					r.Resume()
					exchange(t, end, c.transport)
				}
				r.mu.Lock()
				open := r.open
				r.mu.Unlock()
				assert.Equal(t, c.lifeline, open == 1, "%d connections", open)
				if ends == "lifeline" {
					require.NoError(t, lifeline.Close())
					require.ErrorIs(t, x.ended(t), errLifeline)
					return
				}
				require.NoError(t, end.Close())
				if reason := x.unheard(t); reason != nil { // else its link has seen it
					require.ErrorIs(t, reason, errPeerGone)
				}
				if lifeline != nil {
					atEnd(t, lifeline)
				}
			})
		}
	}
}

// TestPausedAgainAndAgain: a lifeline is watched on after pauses so short that its watch sees none of them.
func TestPausedAgainAndAgain(t *testing.T) {
	r := newRig(t, elsewhere)
	a := r.attach(t, proto.Request{})
	for range 1000 {
		r.Pause()
		r.Resume()
	}
	require.NoError(t, a.Lifeline.Close())
	require.ErrorIs(t, r.clients.session(t, 0).ended(t), errLifeline)
}

// TestUpgradeOfABoundSocket whose first sender is not known, comes while nobody listens, and then is known.
func TestUpgradeOfABoundSocket(t *testing.T) {
	r := newRig(t, func(r *rig) { elsewhere(r); r.opts.Trust.AllowUIDs = []uint32{uint32(os.Geteuid())} })
	dir := shortDir(t)
	path := filepath.Join(dir, "b")
	f := bindAt(t, path)
	_, err := client.Adopt(t.Context(), r.dir, f, nil)
	require.NoError(t, err)
	require.NoError(t, f.Close())
	r.clients.session(t, 0)

	r.standStill(t)
	v, in := r.save(t)
	require.True(t, v.Sessions[0].Pending)
	in.CloseRest() // the exec fails
	r.clients.resume()
	r.Resume()

	r.standStill(t)
	v, in = r.save(t)
	vm, err := net.DialUnix("unixgram", &net.UnixAddr{Name: filepath.Join(dir, "vm"), Net: "unixgram"}, &net.UnixAddr{Name: path, Net: "unixgram"})
	require.NoError(t, err)
	t.Cleanup(func() { _ = vm.Close() })
	require.NoError(t, vm.SetDeadline(time.Now().Add(2*patience)))
	_, err = vm.Write(ethernet(77))
	require.NoError(t, err)
	r.next(t, v, in)
	buf := make([]byte, 100)
	n, err := vm.Read(buf)
	require.NoError(t, err)
	assert.Equal(t, ethernet(77), buf[:n])

	r.standStill(t)
	v, in = r.save(t)
	require.False(t, v.Sessions[0].Pending)
	r.next(t, v, in)
	_, err = vm.Write(ethernet(60))
	require.NoError(t, err)
	n, err = vm.Read(buf)
	require.NoError(t, err)
	assert.Equal(t, ethernet(60), buf[:n])
}

// TestUpgradeOfRequests: those that have begun are finished or told; those that have not, and those whose interface is not there
// yet, do not notice.
func TestUpgradeOfRequests(t *testing.T) {
	const silent = 70
	for _, fails := range []bool{false, true} {
		t.Run(fmt.Sprintf("fails=%v", fails), func(t *testing.T) {
			started := make(chan struct{})
			r := newRig(t, func(r *rig) {
				elsewhere(r)
				r.times.request, r.times.pause = 2*patience, 200*time.Millisecond
				r.clients.ready = func(ctx context.Context) (vnet.PortInfo, error) {
					select {
					case <-started:
						return testInfo, nil
					case <-ctx.Done():
						return vnet.PortInfo{}, ctx.Err()
					}
				}
			})
			owed := r.ask(t, "attach", `{"transport":"stream"}`+"\n")
			r.clients.session(t, 0)
			gone := r.ask(t, "attach", "{}\n")
			r.clients.session(t, 1)
			partial, finished := r.ask(t, "attach", `{"version":`), r.ask(t, "attach", `{"version":`)
			r.until(t, func() bool { return len(r.pause.busy) == 4 })
			var quiet []*net.UnixConn
			for range silent {
				quiet = append(quiet, r.dial(t, "attach"))
			}
			r.until(t, func() bool { return len(r.unread) == silent })

			var pausing sync.WaitGroup
			pausing.Go(r.Pause)
			require.Eventually(t, func() bool { return r.paused() != nil }, patience, time.Millisecond)
			_, err := io.WriteString(finished, "1x}\n") // in time, and wrong
			require.NoError(t, err)
			refused(t, finished, proto.BadRequest)
			refused(t, partial, proto.Stopping)
			pausing.Wait()
			r.standStill(t)
			v, in := r.save(t)
			require.Len(t, v.Sessions, 2)
			require.Len(t, v.Unread, silent)
			require.NoError(t, gone.Close())
			if fails {
				in.CloseRest()
				r.clients.resume()
				r.Resume()
			} else {
				r.next(t, v, in)
				i := slices.IndexFunc(v.Sessions, func(x SavedSession) bool { return x.Transport == proto.Datagram })
				require.ErrorIs(t, r.clients.session(t, i).ended(t), errLifeline)
			}
			close(started)
			m, reply := readReply(t, owed)
			require.Nil(t, reply.Error)
			end := os.NewFile(uintptr(m.FD), "end")
			defer func() { _ = end.Close() }()
			exchange(t, end, proto.Stream)
			for _, c := range quiet {
				_, err := io.WriteString(c, "{}\n")
				require.NoError(t, err)
			}
			for _, c := range quiet {
				m, reply := readReply(t, c)
				require.Nil(t, reply.Error)
				m.Close()
				require.NoError(t, c.Close())
			}
			require.NoError(t, owed.Close())
		})
	}
}

// TestUpgradeWithoutADescriptor: a client of whom something is missing costs itself only, with one line in the log, and sees it.
func TestUpgradeWithoutADescriptor(t *testing.T) {
	for _, what := range []string{"socket", "lifeline"} {
		t.Run(what, func(t *testing.T) {
			r := newRig(t, elsewhere)
			lost := r.attach(t, proto.Request{Name: "lost"})
			other := r.attach(t, proto.Request{Transport: proto.Stream})
			r.standStill(t)
			v, in := r.save(t)
			for i := range v.Sessions {
				x := &v.Sessions[i]
				switch {
				case x.Transport == proto.Stream:
				case what == "socket":
					x.Session.Link.FD = 12345
				default:
					x.Conn.FD = 12345
				}
			}
			r.next(t, v, in)
			assert.Equal(t, 1, strings.Count(r.log.String(), "level=WARN"), r.log)
			assert.Contains(t, r.log.String(), "a client is lost in the upgrade")
			assert.Equal(t, 1, r.clients.count())
			exchange(t, other.File, proto.Stream)
			atEnd(t, lost.Lifeline)
			require.Eventually(t, func() bool { // once the old image's memory has gone
				runtime.GC()
				_, err := lost.File.Write(ethernet(60))
				return err != nil
			}, patience, time.Millisecond)
		})
	}
}

// TestPauseAndStop: a paused server can be stopped.
func TestPauseAndStop(t *testing.T) {
	r := newRig(t, elsewhere)
	a := r.attach(t, proto.Request{})
	silent := r.dial(t, "attach")
	r.until(t, func() bool { return len(r.unread) == 1 })
	r.Pause()
	r.Pause() // again
	r.Stop()
	refused(t, silent, proto.Stopping)
	r.clients.stop()
	atEnd(t, a.Lifeline)
	r.Resume()
}
