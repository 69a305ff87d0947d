// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// pairBuffer is how much the pair holds each way, in bytes: what some connections have under way at once. With a quarter of it the
// gateway had to wait for the daemon again and again, which cost a tenth of a processor's time. Without root Linux gives less.
const pairBuffer = 1 << 20

// NewPair makes the two ends: the daemon's, and the gateway's, which is to be inherited.
func NewPair() (daemon *net.UnixConn, gateway *os.File, err error) {
	syscall.ForkLock.RLock() // children do not inherit them
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err != nil {
		syscall.ForkLock.RUnlock()
		return nil, nil, os.NewSyscallError("socketpair", err)
	}
	for _, fd := range fds {
		unix.CloseOnExec(fd)
	}
	syscall.ForkLock.RUnlock()
	for _, fd := range fds {
		for _, option := range bufferOptions {
			_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, option, pairBuffer)
		}
	}
	ours := os.NewFile(uintptr(fds[0]), "gateway")
	gateway = os.NewFile(uintptr(fds[1]), "daemon")
	defer ours.Close()
	c, err := net.FileConn(ours)
	if err != nil {
		return nil, nil, errors.Join(err, gateway.Close())
	}
	return c.(*net.UnixConn), gateway, nil
}

// readSize is how much is read from a pair at once, in bytes.
const readSize = 256 << 10

// bulk is from how much in one read on, in bytes, more is taken to be on its way.
const bulk = 16 << 10

// A Pair is one end. One goroutine at a time reads and one writes.
type Pair struct {
	*net.UnixConn
	// Yields lets the other side run before this one goes to sleep in the midst of a transfer: to be woken for each packet would cost
	// more than to read it.
	Yields bool

	raw   syscall.RawConn
	buf   []byte // what was read; have bytes of it are no whole frame or message yet
	have  int
	oob   []byte     // for what comes with messages; nil: the kernel closes it, as for a daemon
	files []*os.File // came and were not taken

	// Of one read and one write, which would be on the heap otherwise.
	tryRead, tryWrite   func(fd uintptr) bool
	head, body          []byte // to write
	readWait, writeWait bool
	nRead, nWritten     int
	readErr, writeErr   error
}

// PairOf makes a Pair of a connection, of which rest was read already.
func PairOf(conn *net.UnixConn, rest []byte) (*Pair, error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return nil, err
	}
	p := &Pair{UnixConn: conn, raw: raw, buf: make([]byte, readSize)}
	p.have = copy(p.buf, rest)
	p.tryRead, p.tryWrite = p.readOnce, p.writeOnce
	return p, nil
}

// Rest is what was read of a frame or message that has not fully arrived.
func (p *Pair) Rest() []byte { return p.buf[:p.have] }

// Receive waits until something is there, and has to handle what is there as a whole. io.EOF is the end of the other side.
func (p *Pair) Receive(to *Parser) error {
	if p.have == len(p.buf) { // a long message
		p.buf = append(p.buf, make([]byte, len(p.buf))...)
	}
	transfer := p.Yields && p.nRead >= bulk
	err := p.read(!transfer)
	if transfer && p.nRead == 0 && err == nil {
		yield()
		err = p.read(true)
	}
	if err != nil {
		return err
	}
	n := p.have + p.nRead
	used, err := to.Parse(p.buf[:n])
	p.have = copy(p.buf, p.buf[used:n])
	if err != nil {
		return fmt.Errorf("it sent what cannot be: %w", err)
	}
	return nil
}

// read reads what is there; with wait it waits for something.
func (p *Pair) read(wait bool) error {
	p.readWait, p.nRead = wait, 0
	if err := p.raw.Read(p.tryRead); err != nil {
		return err
	}
	return p.readErr
}

func (p *Pair) readOnce(fd uintptr) bool {
	n, control, err := receiveNow(fd, p.buf[p.have:], p.oob)
	p.nRead, p.readErr = n, nil
	switch {
	case errors.Is(err, unix.EAGAIN):
		return !p.readWait
	case errors.Is(err, unix.ECONNRESET), err == nil && n == 0: // reset: it ended with something unread
		p.readErr = io.EOF
	case err != nil:
		p.readErr = err
	case control > 0:
		p.keepFiles(p.oob[:control])
	}
	return true
}

func (p *Pair) keepFiles(oob []byte) {
	messages, _ := unix.ParseSocketControlMessage(oob)
	for _, m := range messages {
		fds, _ := unix.ParseUnixRights(&m)
		for _, fd := range fds {
			unix.CloseOnExec(fd)
			p.files = append(p.files, os.NewFile(uintptr(fd), "forward"))
		}
	}
}

// WriteWire writes what the pair takes of head and b; with wait it waits until that is something.
func (p *Pair) WriteWire(head, b []byte, wait bool) (int, error) {
	p.head, p.body, p.writeWait, p.nWritten = head, b, wait, 0
	err := p.raw.Write(p.tryWrite)
	p.head, p.body = nil, nil
	return p.nWritten, cmp.Or(err, p.writeErr)
}

func (p *Pair) writeOnce(fd uintptr) bool {
	p.nWritten, p.writeErr = sendNow(fd, p.head, p.body)
	if errors.Is(p.writeErr, syscall.EAGAIN) {
		p.writeErr = nil
		return !p.writeWait
	}
	return true
}
