// SPDX-License-Identifier: Apache-2.0

package unixgram

import (
	"fmt"
	"net"
	"os"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
	"github.com/socket-vmnet2/socket_vmnet2/internal/mmsg"
)

// Credit. What a client has not read is charged to the send buffer of the socket that sent it, and the shared socket has one
// for all of its clients: without a limit, one that does not read fills it, and nobody gets anything any more. So each has a
// share, in the bytes that the system charges, which are more than a frame's. What was sent is counted as unread until the
// system says that the client has read all of it.
//
// Shares shrink as clients come, but what a deaf client was once sent stays charged. So shares are such that all clients that
// came one after another and never read leave room for the next one: the sum of share(n) over all n is below 3/4. The first
// quarter of the buffer is for whoever comes first, so that clients that do read have more than a share.
//
// One user may have any number of clients, but counts as userClients at most: all of that user's clients together have no more
// unread than so many shares. Only the first quarter knows no users.

const (
	// fullShares is how many clients share half of the buffer evenly.
	fullShares = 8

	// common is the part of the buffer that is for whoever comes first: one of so many.
	common = 4

	// userClients is how many clients of one user shares are made for.
	userClients = 16

	// maxUnasked is how often in a row it is guessed that a client has not read.
	maxUnasked = 2

	// maxAccounts bounds the clients of the shared socket, with those that have gone and left something unread.
	maxAccounts = 1024

	// maxUserAccounts bounds those of one user.
	maxUserAccounts = 512
)

// errTooMany: a client is not served through the shared socket.
var errTooMany = fmt.Errorf("its user has %d clients already, or had them, which have left what was sent to them unread", maxUserAccounts)

// share is what one of n clients may have unread, in charged bytes of a send buffer of size bytes.
func share(size, n int) int {
	if n <= fullShares {
		return size / (2 * fullShares)
	}
	return 2 * size / n / n
}

// charge is an upper limit of what Linux charges for a datagram of n bytes: the data with its management behind it in a
// piece of memory whose size is a power of two, above 16 KiB the rest in pages, and a struct sk_buff.
func charge(n int) int {
	const (
		overhead = 320 + 64 // struct skb_shared_info, rounded up, and what rounding n may add
		skb      = 256      // struct sk_buff
		maxPiece = 16 << 10
	)
	page := os.Getpagesize()
	rest := 0
	if page == 4096 && n+overhead > maxPiece {
		rest = (n + overhead - maxPiece + page - 1) / page * page
		n = maxPiece - overhead
	}
	piece := 512
	for piece < n+overhead {
		piece *= 2
	}
	return piece + rest + skb
}

// A shared is the sending side of the shared socket.
type shared struct {
	fd   int
	size int // bytes of the send buffer, as the system counts

	accounts atomic.Int32 // that are open or unsettled, of one user userClients at most

	// use keeps Close from closing the descriptor while a send is under way.
	use    sync.RWMutex
	closed bool

	mu    sync.Mutex
	users map[uint32]*user
	left  []leftover // by clients that have gone
	diags diagnoser
}

// newShared sets the buffers of the shared socket and has its datagrams carry their sender's user.
func newShared(fd int) (*shared, error) {
	enlarge(fd, unix.SO_RCVBUF, sharedBufLen)
	size, err := enlargeShared(fd)
	if err != nil {
		return nil, err
	}
	return &shared{fd: fd, size: size, users: map[uint32]*user{}, diags: diagnoser{shared: fd}}, nil
}

// sweep forgets the leftovers that were read or have gone, and reports whether there are more.
func (s *shared) sweep() bool {
	s.mu.Lock()
	left := s.left
	s.left = nil
	s.mu.Unlock()
	kept := left[:0]
	for _, l := range left {
		if s.read(&l.account, l.target) || !l.target.alive() {
			s.end(&l.account)
			l.target.Close()
			continue
		}
		kept = append(kept, l)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.left = append(s.left, kept...)
	return len(s.left) > 0
}

// close ends all sends, for the descriptor to be closed.
func (s *shared) close() {
	s.use.Lock()
	s.closed = true
	s.use.Unlock()
	s.mu.Lock()
	for _, l := range s.left {
		l.target.Close()
	}
	s.left = nil
	s.mu.Unlock()
	s.diags.close()
}

// send sends the frames of b that a has credit for to t.
func (s *shared) send(via *mmsg.Sender, a *account, t *Target, b frame.Batch) (taken int, err error) {
	s.use.RLock()
	defer s.use.RUnlock()
	if s.closed {
		return 0, net.ErrClosed
	}
	if t.pin.via == "" && !t.Same() {
		return 0, unix.ENOENT
	}
	for b.Len() > 0 {
		now := s.afford(a, t, b)
		if now.Len() == 0 {
			return taken, nil
		}
		n, err := via.Send(s.fd, t.to, now)
		for it, i := now.Iter(), 0; i < n && it.Next(); i++ {
			a.charge(charge(len(it.Frame())))
		}
		taken += n
		if err != nil {
			return taken, err
		}
		b = b.After(n)
	}
	return taken, nil
}

// afford is the head of b that a has credit for.
func (s *shared) afford(a *account, t *Target, b frame.Batch) frame.Batch {
	limit := a.limit(share(s.size, int(s.accounts.Load())))
	if now := within(b, limit-a.used); now.Len() > 0 {
		return now
	}
	out := s.outstanding()
	if out == 0 {
		a.clear()
	}
	if now := within(b, max(limit-a.used, s.size/common-out)); now.Len() > 0 {
		return now
	}
	if a.used > 0 {
		if !a.emptied(s, t, out) {
			return frame.Batch{}
		}
		a.clear()
		limit = a.limit(share(s.size, int(s.accounts.Load())))
		if now := within(b, limit); now.Len() > 0 {
			return now
		}
	}
	// One frame is always within the credit, but all frames that are more than a share leave half of the buffer alone.
	it := b.Iter()
	it.Next()
	if c := charge(len(it.Frame())); c > limit && limit >= charge(frame.MaxEthernetLen) && out+c > s.size/2 {
		return frame.Batch{}
	}
	return frame.NewBatch(b.Bytes()[:it.End()], 1)
}

// within is the head of b that is charged at most limit bytes.
func within(b frame.Batch, limit int) frame.Batch {
	n := 0
	for it := b.Iter(); it.Next(); n++ {
		if limit -= charge(len(it.Frame())); limit < 0 {
			break
		}
	}
	return b.Head(n)
}

// read reports whether the client has read everything, and notes it.
func (s *shared) read(a *account, t *Target) bool {
	if s.outstanding() == 0 || s.diags.empty(&a.peer, t) {
		a.clear()
		return true
	}
	return false
}
