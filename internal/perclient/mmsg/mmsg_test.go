// SPDX-License-Identifier: Apache-2.0

package mmsg

import (
	"bytes"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
)

func TestMain(m *testing.M) {
	// The simulator's handlers are heard for as long as the process lives.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/socket-vmnet2/socket_vmnet2/internal/network/vmnet/ffi.serveAnswers"))
}

// A way is one way to send and receive. Each test runs on all that there are on this system.
type way struct {
	names   bool // whether it can tell and take names
	receive func(names bool) (*Receiver, error)
	send    func(fd int, to []byte, b frame.Batch, as []byte) (int, error)
	prepare func(t testing.TB)
}

var ways = map[string]way{
	"the system's best": {names: true, receive: newReceiver, send: send},
	"plain":             {names: true, receive: newPlain, send: sendPlain},
}

// eachWay runs f as a subtest on every way.
func eachWay(t *testing.T, f func(t *testing.T, w way)) {
	t.Helper()
	for name, w := range ways {
		t.Run(name, func(t *testing.T) {
			if w.prepare != nil {
				w.prepare(t)
			}
			f(t, w)
		})
	}
}

func (w way) receiver(t testing.TB, names bool) *Receiver {
	t.Helper()
	r, err := w.receive(names)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, r.way.free()) })
	return r
}

// socketPair is two connected datagram sockets that block, as a hostile process may have them.
func socketPair(t testing.TB) (a, b int) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM, 0)
	require.NoError(t, err)
	for _, fd := range fds {
		require.NoError(t, unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUF, 1<<20)) // the length of a datagram
		require.NoError(t, unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, 4<<20)) // what waits, on macOS
	}
	t.Cleanup(func() {
		for _, fd := range fds {
			_ = unix.Close(fd)
		}
	})
	return fds[0], fds[1]
}

// message is n bytes that tell which message they are from.
func message(i, n int) []byte {
	m := make([]byte, n)
	for k := range m {
		m[k] = byte(i*31 + k/7)
	}
	return m
}

// write sends messages of the given lengths one by one.
func write(t testing.TB, fd int, lens ...int) (sent [][]byte) {
	t.Helper()
	for i, n := range lens {
		m := message(i, n)
		require.NoError(t, sendFrame(fd, nil, m))
		sent = append(sent, m)
	}
	return sent
}

// frames are copies of the frames of a batch, after checking that it is what a Batch must be.
func frames(t testing.TB, b frame.Batch) (list [][]byte) {
	t.Helper()
	it := b.Iter()
	for it.Next() {
		require.GreaterOrEqual(t, len(it.Frame()), frame.MinLen)
		list = append(list, bytes.Clone(it.Frame()))
	}
	require.Equal(t, len(b.Bytes()), it.End())
	require.Len(t, list, b.Len())
	return list
}

// batchOf is a batch of messages of the given lengths.
func batchOf(lens ...int) (b frame.Batch, list [][]byte) {
	var buf []byte
	for i, n := range lens {
		m := message(i, n)
		list = append(list, m)
		buf = frame.Append(buf, m)
	}
	return frame.NewBatch(buf, len(lens)), list
}

// repeat is n times the same length.
func repeat(n, length int) (lens []int) {
	for range n {
		lens = append(lens, length)
	}
	return lens
}

func TestReceiveGolden(t *testing.T) {
	eachWay(t, func(t *testing.T, w way) {
		a, b := socketPair(t)
		r := w.receiver(t, false)
		for _, m := range []string{"VFKT", "", "0123456789abc", "0123456789abcd", "VFKX", "ABCDEFGHIJKLMNO"} {
			require.NoError(t, sendFrame(a, nil, []byte(m)))
		}
		n, err := r.Receive(b)
		require.NoError(t, err)
		require.Equal(t, 6, n)
		batch, runts, long := r.Pack(0, n)
		assert.Equal(t, "0000000e"+hex.EncodeToString([]byte("0123456789abcd"))+"0000000f"+hex.EncodeToString([]byte("ABCDEFGHIJKLMNO")),
			hex.EncodeToString(batch.Bytes()))
		assert.Equal(t, []int{2, 3, 0}, []int{batch.Len(), runts, long}, "the hello is no runt")
	})
}

func TestReceive(t *testing.T) {
	const eth, most = frame.MaxEthernetLen, MaxLen
	for name, c := range map[string]struct {
		lens        []int
		runts, long int
	}{
		"one":                         {lens: []int{60}},
		"empty":                       {lens: []int{0}, runts: 1},
		"shortest":                    {lens: []int{13, 14, 15}, runts: 1},
		"a full batch":                {lens: repeat(BatchLen, eth)},
		"around the Ethernet length":  {lens: []int{eth - 1, eth, eth + 1, eth, 60, eth + 2}},
		"longest":                     {lens: []int{most}},
		"longest one too many":        {lens: []int{most + 1}, long: 1},
		"the longest around others":   {lens: []int{most, 60, most, eth, most}},
		"others around the longest":   {lens: []int{60, most, eth, 9014, 14}},
		"long ones with others":       {lens: []int{9014, most + 1, 60, 9014, most + 2000, eth}, long: 2},
		"runt in the middle of a far": {lens: []int{9014, 0, 9014, 13, 60}, runts: 2},
	} {
		t.Run(name, func(t *testing.T) {
			eachWay(t, func(t *testing.T, w way) {
				a, b := socketPair(t)
				sent := write(t, a, c.lens...)
				r := w.receiver(t, false)
				n, err := r.Receive(b)
				require.NoError(t, err)
				require.Equal(t, len(sent), n)
				var want [][]byte
				for i, m := range sent {
					data, long := r.Msg(i)
					assert.Equal(t, len(m) > most, long)
					assert.True(t, bytes.Equal(m[:min(len(m), most)], data), "message %d", i)
					assert.Equal(t, len(data), cap(data), "an append must not reach the next one")
					assert.Nil(t, r.Name(i))
					if len(m) >= frame.MinLen && len(m) <= most {
						want = append(want, m)
					}
				}
				batch, runts, long := r.Pack(0, n)
				assert.Equal(t, []int{c.runts, c.long}, []int{runts, long})
				equalFrames(t, want, frames(t, batch))
				_, err = r.Receive(b)
				assert.Equal(t, unix.EAGAIN, err)
			})
		})
	}
}

func equalFrames(t testing.TB, want, got [][]byte) {
	t.Helper()
	require.Len(t, got, len(want))
	for i := range want {
		require.True(t, bytes.Equal(want[i], got[i]), "frame %d: want %d bytes, have %d", i, len(want[i]), len(got[i]))
	}
}

func TestReceiveErrors(t *testing.T) {
	eachWay(t, func(t *testing.T, w way) {
		_, b := socketPair(t)
		r := w.receiver(t, false)
		n, err := r.Receive(b) // a socket that blocks
		assert.Equal(t, unix.EAGAIN, err)
		assert.Zero(t, n)
		_, err = r.Receive(-1)
		assert.Equal(t, unix.EBADF, err)
		batch, runts, long := r.Pack(0, BatchLen)
		assert.Equal(t, []int{0, 0, 0}, []int{batch.Len(), runts, long})
	})
}

func TestSend(t *testing.T) {
	for name, lens := range map[string][]int{
		"none":              {},
		"one":               {60},
		"one long":          {MaxLen},
		"a few":             {14, 1514, 60, 9014},
		"exactly a batch":   repeat(BatchLen, 100),
		"two batches and 1": repeat(2*BatchLen+1, 100),
		"long ones":         {MaxLen, 60, MaxLen, 14, MaxLen},
	} {
		t.Run(name, func(t *testing.T) {
			eachWay(t, func(t *testing.T, w way) {
				a, b := socketPair(t)
				batch, want := batchOf(lens...)
				sent, err := w.sender().Send(a, nil, batch)
				require.NoError(t, err)
				require.Equal(t, len(want), sent)
				equalFrames(t, want, w.readAll(t, b))
			})
		})
	}
}

func (w way) sender() *Sender { return &Sender{send: w.send} }

// readAll receives all that waits.
func (w way) readAll(t testing.TB, fd int) (list [][]byte) {
	t.Helper()
	r := w.receiver(t, false)
	for {
		n, err := r.Receive(fd)
		if err == unix.EAGAIN {
			return list
		}
		require.NoError(t, err)
		for i := range n {
			m, long := r.Msg(i)
			require.False(t, long)
			list = append(list, bytes.Clone(m))
		}
	}
}

// TestSendToAFullSocket counts on each frame that was taken: what the error belongs to is the next one.
func TestSendToAFullSocket(t *testing.T) {
	eachWay(t, func(t *testing.T, w way) {
		a, b := socketPair(t) // blocking: a call that waited would never end
		require.NoError(t, unix.SetsockoptInt(a, unix.SOL_SOCKET, unix.SO_SNDBUF, 64<<10))
		require.NoError(t, unix.SetsockoptInt(b, unix.SOL_SOCKET, unix.SO_RCVBUF, 64<<10)) // that counts on macOS
		require.NoError(t, unix.SetNonblock(a, !canSendNow))
		batch, want := batchOf(repeat(300, 1514)...)
		sent, err := w.sender().Send(a, nil, batch)
		assert.Contains(t, []error{unix.EAGAIN, unix.ENOBUFS}, err)
		assert.Positive(t, sent)
		assert.Less(t, sent, 300)
		equalFrames(t, want[:sent], w.readAll(t, b))
	})
}

func TestSendErrors(t *testing.T) {
	eachWay(t, func(t *testing.T, w way) {
		a, b := socketPair(t)
		require.NoError(t, unix.SetsockoptInt(a, unix.SOL_SOCKET, unix.SO_SNDBUF, 10<<10))
		batch, want := batchOf(100, 200, 40000, 300)
		sent, err := w.sender().Send(a, nil, batch)
		assert.Equal(t, unix.EMSGSIZE, err)
		require.Equal(t, 2, sent, "those in front of the one that is too long")
		equalFrames(t, want[:2], w.readAll(t, b))

		_, err = w.sender().Send(-1, nil, batch)
		assert.Equal(t, unix.EBADF, err)
		require.NoError(t, unix.Shutdown(b, unix.SHUT_RD))
		for _, lens := range [][]int{{60}, {60, 60}} {
			batch, _ = batchOf(lens...)
			sent, err = w.sender().Send(a, nil, batch)
			assert.Equal(t, takesNoMore, err)
			assert.Zero(t, sent)
		}
	})
}

// bound is a datagram socket at path; none without.
func bound(t testing.TB, path string) int {
	t.Helper()
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM, 0)
	require.NoError(t, err)
	t.Cleanup(func() { _ = unix.Close(fd) })
	if path != "" {
		require.NoError(t, unix.Bind(fd, &unix.SockaddrUnix{Name: path}))
	}
	return fd
}

func TestNames(t *testing.T) {
	dir := t.TempDir()
	long := filepath.Join(dir, strings.Repeat("x", longestPath-len(dir)-1))
	eachWay(t, func(t *testing.T, w way) {
		if !w.names {
			batch, _ := batchOf(60)
			_, err := w.receive(true)
			require.Error(t, err)
			_, err = w.sender().Send(0, []byte("/x"), batch)
			require.Error(t, err)
			return
		}
		here := filepath.Join(dir, "shared")
		_ = os.Remove(here) // the other way's
		shared := bound(t, here)
		r := w.receiver(t, true)
		for _, path := range append([]string{"", filepath.Join(dir, "client"), long}, otherNames...) {
			client := bound(t, path)
			if path != "" && path[0] == '/' {
				defer os.Remove(path)
			}
			batch, want := batchOf(60, 1514)
			sent, err := w.sender().Send(client, []byte(here), batch)
			require.NoError(t, err)
			require.Equal(t, 2, sent)
			n, err := r.Receive(shared)
			require.NoError(t, err)
			require.Equal(t, 2, n)
			name := path
			if path != "" && path[0] == '@' {
				name = "\x00" + path[1:]
			}
			for i := range n {
				assert.Equal(t, name, string(r.Name(i)))
				assert.Equal(t, path == "", r.Name(i) == nil)
				data, _ := r.Msg(i)
				assert.True(t, bytes.Equal(want[i], data))
			}
			if path == "" {
				continue
			}
			for _, lens := range [][]int{{60}, {60, 1514}} { // and back by that name
				batch, want = batchOf(lens...)
				_, err = w.sender().Send(shared, []byte(name), batch)
				require.NoError(t, err)
				equalFrames(t, want, w.readAll(t, client))
			}
		}
	})
}

func TestSendToNames(t *testing.T) {
	eachWay(t, func(t *testing.T, w way) {
		if !w.names {
			return
		}
		fd := bound(t, "")
		for name, c := range map[string]struct {
			to   string
			want []error
		}{
			"nothing there": {filepath.Join(t.TempDir(), "x"), []error{unix.ENOENT}},
			"too long":      {"/" + strings.Repeat("x", 200), []error{unix.ENAMETOOLONG, unix.EINVAL}},
			"an empty name": {"", []error{unix.EINVAL}},
			"not a socket":  {"/dev/null", []error{unix.ECONNREFUSED, unix.ENOTSOCK}},
			"none abstract": {"\x00none", []error{unix.ECONNREFUSED, unix.ENOENT, unix.EINVAL}},
		} {
			for _, lens := range [][]int{{60}, {60, 60}} {
				batch, _ := batchOf(lens...)
				sent, err := w.sender().Send(fd, []byte(c.to), batch)
				assert.Contains(t, c.want, err, "%s, %d frames", name, len(lens))
				assert.Zero(t, sent)
			}
		}
	})
}

func TestFreeListGivesMemoryBack(t *testing.T) {
	dropped := make(chan int, 10)
	p := Pool[int]{Drop: func(v int) { dropped <- v }, armed: true} // so that no timer runs beside the test
	for v := range 2 {
		p.Put(v)
	}
	p.low = 2 // as after a trim
	v, _ := p.Get()
	assert.Equal(t, 1, v, "the last one put is the warmest")
	p.trim()
	assert.Equal(t, 0, <-dropped, "it was not needed since")
	_, ok := p.Get()
	assert.False(t, ok)
	assert.False(t, p.armed, "no timer runs without need")
	p.Put(7)
	assert.Equal(t, 7, <-dropped)
	assert.False(t, p.armed)
}

// FuzzPack receives any sequence of messages, in any pieces, by every way.
func FuzzPack(f *testing.F) {
	f.Add([]byte{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}, uint8(3))
	f.Add(bytes.Repeat([]byte{7}, 32), uint8(32))
	f.Add([]byte{9, 5, 9, 8, 5, 9}, uint8(2))
	f.Add([]byte{1, 1, 6, 7, 6, 10}, uint8(1))
	lens := []int{0, 4, 13, 14, 15, 60, 1513, 1514, 1515, MaxLen, MaxLen + 1, 64 << 10, 9014, 1600, 32768, 69632}
	f.Fuzz(func(t *testing.T, which []byte, piece uint8) {
		if len(which) > BatchLen {
			which = which[:BatchLen]
		}
		for _, w := range ways {
			if w.prepare != nil {
				continue
			}
			a, b := socketPair(t)
			require.NoError(t, unix.SetsockoptInt(a, unix.SOL_SOCKET, unix.SO_SNDBUF, 8<<20))
			sum := 0
			var sent [][]byte
			for i, k := range which {
				n := lens[int(k)%len(lens)]
				if sum += n; sum > 190<<10 { // what a socket holds at least
					break
				}
				m := message(i, n)
				require.NoError(t, sendFrame(a, nil, m))
				sent = append(sent, m)
			}
			r := w.receiver(t, false)
			n, err := r.Receive(b)
			if len(sent) == 0 {
				require.Equal(t, unix.EAGAIN, err)
				continue
			}
			require.NoError(t, err)
			require.Equal(t, len(sent), n)
			checkPieces(t, r, sent, max(int(piece), 1))
		}
	})
}

// checkPieces packs what was received, so many messages at a time, and compares with what was sent.
func checkPieces(t *testing.T, r *Receiver, sent [][]byte, piece int) {
	t.Helper()
	var want, got [][]byte
	runts, long := 0, 0
	for i, m := range sent {
		switch {
		case len(m) > MaxLen:
			long++
		case len(m) >= frame.MinLen:
			want = append(want, m)
		default:
			runts++
		}
		data, cut := r.Msg(i)
		require.Equal(t, len(m) > MaxLen, cut)
		require.True(t, bytes.Equal(m[:min(len(m), MaxLen)], data))
	}
	for first := 0; first < len(sent); first += piece {
		b, s, l := r.Pack(first, min(first+piece, len(sent)))
		got = append(got, frames(t, b)...)
		runts -= s
		long -= l
	}
	require.Equal(t, []int{0, 0}, []int{runts, long})
	equalFrames(t, want, got)
}

func TestSendToOneThatLeft(t *testing.T) {
	eachWay(t, func(t *testing.T, w way) {
		fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM, 0)
		require.NoError(t, err)
		defer unix.Close(fds[0])
		require.NoError(t, unix.Close(fds[1]))
		batch, _ := batchOf(60, 60)
		_, err = w.sender().Send(fds[0], nil, batch)
		assert.Contains(t, []error{unix.ECONNREFUSED, unix.ECONNRESET, unix.ENOTCONN}, err)
		_, err = w.sender().Send(fds[0], nil, batch)
		assert.Equal(t, noPeer, err)
	})
}
