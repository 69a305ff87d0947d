// SPDX-License-Identifier: Apache-2.0

package link

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
	"github.com/socket-vmnet2/socket_vmnet2/internal/mmsg"
)

// loadEnv has this test binary be the clients of a benchmark instead: it holds how many frames of which length to send.
const loadEnv = "LINK_TEST_LOAD"

// benchWindow is how much is under way at most, in bytes: less than the queue holds, so that no frame is dropped.
const benchWindow = 1 << 20

// BenchmarkDatagramRelay carries frames from one datagram client to another and reports the processor time that this takes
// per frame: batched, as a Datagram does it, and with one call per frame. The clients are another process, whose time does
// not count. At most 256 frames are under way, so that none is dropped.
func BenchmarkDatagramRelay(b *testing.B) {
	for _, length := range []int{64, 1514, 9014} {
		for _, r := range []struct {
			name  string
			relay func(b *testing.B, in, out *net.UnixConn) (stop func())
		}{{"batched", relayBatched}, {"per frame", relaySingly}} {
			b.Run(r.name+"/"+strconv.Itoa(length), func(b *testing.B) {
				in, from := datagramPair(b)
				out, to := datagramPair(b)
				stop := r.relay(b, in, out)
				clients := exec.CommandContext(b.Context(), os.Args[0])
				clients.Env = append(os.Environ(), fmt.Sprintf("%s=%d %d", loadEnv, b.N, length))
				clients.Stderr = os.Stderr
				for _, c := range []*net.UnixConn{from, to} {
					f, err := c.File()
					require.NoError(b, err)
					defer f.Close()
					clients.ExtraFiles = append(clients.ExtraFiles, f)
				}
				require.NoError(b, clients.Start())
				before := processorTime()
				require.NoError(b, clients.Wait())
				b.ReportMetric(float64(processorTime()-before)/float64(b.N), "cpu-ns/frame")
				stop()
			})
		}
	}
}

func processorTime() time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// generateLoad sends frames to descriptor 3 and receives as many from descriptor 4.
func generateLoad(load string) {
	var total, length int
	if _, err := fmt.Sscan(load, &total, &length); err != nil {
		panic(err)
	}
	window := make(chan struct{}, benchWindow/(mmsg.BatchLen*(length+frame.PrefixLen)))
	go func() {
		s, batch := mmsg.NewSender(), numbered(0, mmsg.BatchLen, length)
		for left := total; left > 0; {
			window <- struct{}{}
			rest := batch.After(max(0, mmsg.BatchLen-left))
			left -= rest.Len()
			for rest.Len() > 0 {
				n, err := s.Send(3, nil, rest)
				if rest = rest.After(n); err != nil {
					_, _ = unix.Poll([]unix.PollFd{{Fd: 3, Events: unix.POLLOUT}}, -1)
				}
			}
		}
	}()
	r, err := mmsg.NewReceiver(false)
	if err != nil {
		panic(err)
	}
	for got, freed := 0, 0; got < total; {
		n, err := r.Receive(4)
		if err != nil {
			_, _ = unix.Poll([]unix.PollFd{{Fd: 4, Events: unix.POLLIN}}, -1)
		}
		for got += n; got-freed >= mmsg.BatchLen; freed += mmsg.BatchLen {
			<-window
		}
	}
}

// deliver is a Handler that passes frames on.
type deliver struct{ frame.Sink }

func (d deliver) Frames(b frame.Batch) { d.Deliver(b) }

func relayBatched(b *testing.B, in, out *net.UnixConn) func() {
	b.Helper()
	from, err := NewDatagram(in, DatagramOptions{})
	require.NoError(b, err)
	to, err := NewDatagram(out, DatagramOptions{})
	require.NoError(b, err)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = from.Run(deliver{to})
	}()
	return func() {
		from.Shutdown(DrainOne)
		<-done
		_ = from.Close()
		_ = to.Close()
	}
}

// relaySingly does the same with one call per frame.
func relaySingly(b *testing.B, in, out *net.UnixConn) func() {
	b.Helper()
	from, err := in.SyscallConn()
	require.NoError(b, err)
	to, err := NewDatagram(out, DatagramOptions{})
	require.NoError(b, err)
	to.out.p = &singlePipe{*to.out.p.(*datagramPipe)}
	done := make(chan struct{})
	go func() {
		defer close(done)
		buf := make([]byte, frame.PrefixLen+mmsg.MaxLen)
		_ = from.Read(func(fd uintptr) bool {
			for {
				n, err := readNow(int(fd), buf[frame.PrefixLen:], false)
				if err != nil {
					return false
				}
				frame.PutPrefix(buf, n)
				to.Deliver(frame.NewBatch(buf[:frame.PrefixLen+n], 1))
			}
		})
	}()
	return func() {
		_ = in.SetReadDeadline(time.Unix(1, 0))
		<-done
		_ = in.Close()
		_ = to.Close()
	}
}

// A singlePipe sends with one call per frame.
type singlePipe struct{ datagramPipe }

func (p *singlePipe) Send(b frame.Batch) (sent int, err error) {
	it := b.Iter()
	for it.Next() {
		if _, err := writeOnce(p.fd, it.Frame()); err != nil {
			return sent, err
		}
		sent++
	}
	return sent, nil
}
