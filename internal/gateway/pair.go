// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"errors"
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

// A Pair is one end. One goroutine at a time reads and one writes.
type Pair struct {
	*net.UnixConn
	raw        syscall.RawConn
	takesFiles bool       // the gateway's end; what a gateway sends to a daemon's is closed by the kernel
	files      []*os.File // came and were not taken

	// Of one read and one write, which would be on the heap otherwise.
	tryRead, tryWrite   func(fd uintptr) bool
	in                  []byte
	out                 vector
	readWait, writeWait bool
	nRead, nWritten     int
	readErr, writeErr   error
	msg                 message
}

// PairOf makes a Pair of a connection.
func PairOf(conn *net.UnixConn) (*Pair, error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return nil, err
	}
	p := &Pair{UnixConn: conn, raw: raw}
	p.tryRead, p.tryWrite = p.readOnce, p.writeOnce
	return p, nil
}

// ReadWire reads what is there; with wait it waits for something. io.EOF is the end of the
// other side.
func (p *Pair) ReadWire(b []byte, wait bool) (int, error) {
	p.in, p.readWait = b, wait
	if err := p.raw.Read(p.tryRead); err != nil {
		return 0, err
	}
	return p.nRead, p.readErr
}

func (p *Pair) readOnce(fd uintptr) bool {
	var n int
	var oob []byte
	var err error
	if p.takesFiles {
		n, oob, err = p.msg.receive(fd, p.in)
	} else {
		n, err = readNow(fd, p.in)
	}
	p.nRead, p.readErr = n, nil
	switch {
	case errors.Is(err, unix.EAGAIN):
		return !p.readWait
	case errors.Is(err, unix.ECONNRESET), err == nil && n == 0 && len(p.in) > 0: // reset: it ended with something unread
		p.readErr = io.EOF
	case err != nil:
		p.readErr = err
	case len(oob) > 0:
		p.keepFiles(oob)
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
	p.out, p.writeWait = vector{head, b}, wait
	err := p.raw.Write(p.tryWrite)
	p.out = vector{}
	if err != nil {
		return 0, err
	}
	return p.nWritten, p.writeErr
}

func (p *Pair) writeOnce(fd uintptr) bool {
	n, err := p.out.write(fd)
	p.nWritten, p.writeErr = n, nil
	if errors.Is(err, syscall.EAGAIN) {
		return !p.writeWait
	}
	p.writeErr = err
	return true
}

// A vector is what is written at once.
type vector [2][]byte

// message is what one read needs.
type message struct{ oob [256]byte }
