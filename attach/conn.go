// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"syscall"
)

// send writes one request, with a descriptor on its first byte if file is not nil.
func send(conn *net.UnixConn, line []byte, file *os.File) error {
	if file == nil {
		_, err := conn.Write(line)
		return err
	}
	raw, err := file.SyscallConn()
	if err != nil {
		return fmt.Errorf("descriptor to hand over: %w", err)
	}
	var sent error
	// Not file.Fd(), which takes O_NONBLOCK off the description that the daemon shares.
	err = raw.Control(func(fd uintptr) {
		var n int
		n, _, sent = conn.WriteMsgUnix(line, syscall.UnixRights(int(fd)), nil)
		if sent == nil && n < len(line) {
			_, sent = conn.Write(line[n:])
		}
	})
	if err != nil {
		return fmt.Errorf("descriptor to hand over: %w", err)
	}
	return sent
}

// receive reads one reply line and the descriptor that comes with it, if one does.
func receive(conn *net.UnixConn, path string) (line []byte, file *os.File, err error) {
	defer func() {
		if err != nil && file != nil {
			file.Close()
			file = nil
		}
	}()
	buf := make([]byte, maxReply)
	// For all descriptors that a message can bring, so that what was not asked for is closed: macOS, which allows 254, opens also those
	// that the buffer has no room for (unp_externalize and copyout_control in XNU's bsd/kern).
	oob := make([]byte, syscall.CmsgSpace(254*4))
	have := 0
	for {
		n, fds, err := recvmsg(conn, buf[have:], oob)
		for _, fd := range fds {
			if file == nil {
				file = os.NewFile(uintptr(fd), path)
				continue
			}
			_ = syscall.Close(fd)
			err = errors.Join(err, errors.New("the daemon's reply came with more than one descriptor"))
		}
		if err != nil {
			return nil, file, err
		}
		if n == 0 {
			return nil, file, fmt.Errorf("the daemon closed the connection without an answer: %w", io.ErrUnexpectedEOF)
		}
		have += n
		if i := bytes.IndexByte(buf[:have], '\n'); i >= 0 {
			return buf[:i+1], file, nil
		}
		if have == len(buf) {
			return nil, file, fmt.Errorf("%w (a line of more than %d bytes)", errReply, maxReply)
		}
	}
}

// recvmsg waits for bytes and descriptors. n = 0 and no error is the end.
func recvmsg(conn *net.UnixConn, buf, oob []byte) (n int, fds []int, err error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return 0, nil, err
	}
	var (
		oobn, flags int
		failed      error
	)
	err = raw.Read(func(fd uintptr) bool {
		for {
			n, oobn, flags, fds, failed = recvRights(int(fd), buf, oob)
			if !errors.Is(failed, syscall.EINTR) {
				return !errors.Is(failed, syscall.EAGAIN)
			}
		}
	})
	if err == nil {
		err = failed
	}
	if err != nil {
		return 0, fds, err
	}
	if oobn > 0 && flags&syscall.MSG_CTRUNC != 0 {
		return n, fds, errors.New("the descriptor was lost on its way: has this process too many open files?")
	}
	return n, fds, nil
}

// msgCloseOnExec is Linux's MSG_CMSG_CLOEXEC, which package syscall of other systems has no name for.
const msgCloseOnExec = 0x40000000

// recvRights receives without waiting, whatever the socket's flags are. Only Linux has a flag that makes the descriptors close-on-exec as
// they come, so no child may be started between receiving and marking them.
func recvRights(fd int, buf, oob []byte) (n, oobn, flags int, fds []int, err error) {
	how := syscall.MSG_DONTWAIT
	if runtime.GOOS == "linux" {
		how |= msgCloseOnExec
	}
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	n, oobn, flags, _, err = syscall.Recvmsg(fd, buf, oob, how)
	if err != nil {
		return 0, 0, 0, nil, err
	}
	if oobn > 0 {
		fds, err = rights(oob[:oobn])
	}
	for _, f := range fds {
		syscall.CloseOnExec(f)
	}
	return n, oobn, flags, fds, err
}

// rights returns the descriptors in a control message.
func rights(oob []byte) (fds []int, err error) {
	msgs, err := syscall.ParseSocketControlMessage(oob)
	if err != nil {
		return nil, err
	}
	for i := range msgs {
		got, err := syscall.ParseUnixRights(&msgs[i])
		if err == nil {
			fds = append(fds, got...)
		}
	}
	return fds, nil
}

// checkKind checks what came with the reply.
func checkKind(file *os.File, t Transport) error {
	if file == nil {
		return errors.New("came without a descriptor")
	}
	want := syscall.SOCK_DGRAM
	if t == Stream {
		want = syscall.SOCK_STREAM
	}
	raw, err := file.SyscallConn()
	if err != nil {
		return err
	}
	var kind int
	var failed error
	err = raw.Control(func(fd uintptr) { kind, failed = syscall.GetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_TYPE) })
	if err = errors.Join(err, failed); err != nil || kind != want {
		return fmt.Errorf("came with a descriptor that is no %s socket", t)
	}
	return nil
}

// Sizes of the socket buffers on the caller's end, in bytes. A stream is bounded by its sender's; 8 KiB, macOS's default,
// halves the speed. What is sent as datagrams is how far the machine may be ahead of the daemon on Linux, where a frame of 1,514 bytes is
// charged 2,304; on macOS it is the longest datagram, and 65,550 is the longest frame.
const (
	streamBuffer      = 256 << 10
	datagramReceive   = 4 << 20
	datagramSendLinux = 512 << 10
	datagramSendOther = 65 << 10
)

// enlarge makes the buffers of the caller's end as large as that, if they are smaller. Without it the link is slower, so an
// error does not matter.
func enlarge(file *os.File, t Transport) {
	snd, rcv := datagramSendOther, datagramReceive
	switch {
	case t == Stream:
		snd, rcv = streamBuffer, streamBuffer
	case runtime.GOOS == "linux":
		snd = datagramSendLinux
	}
	raw, err := file.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Control(func(fd uintptr) {
		for option, size := range map[int]int{syscall.SO_SNDBUF: snd, syscall.SO_RCVBUF: rcv} {
			is, err := syscall.GetsockoptInt(int(fd), syscall.SOL_SOCKET, option)
			if err != nil || is < size {
				_ = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, option, size)
			}
		}
	})
}
