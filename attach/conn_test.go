// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"syscall"
	"testing"
	"time"
)

// TestNoChildBetweenReceiveAndCloseOnExec: while a child is being started, nothing is received.
func TestNoChildBetweenReceiveAndCloseOnExec(t *testing.T) {
	pair, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	check(t, err)
	defer syscall.Close(pair[0])
	defer syscall.Close(pair[1])
	check(t, syscall.Sendmsg(pair[0], []byte("x"), syscall.UnixRights(pair[0]), nil, 0))
	got := make(chan int)
	syscall.ForkLock.Lock()
	go func() {
		_, _, _, fds, err := recvRights(pair[1], make([]byte, 1), make([]byte, 64))
		if err != nil {
			t.Error(err)
		}
		for _, fd := range fds {
			_ = syscall.Close(fd)
		}
		got <- len(fds)
	}()
	select {
	case <-got:
		syscall.ForkLock.Unlock()
		t.Fatal("a descriptor came that the child inherits")
	case <-time.After(50 * time.Millisecond): // as long as a child takes
		syscall.ForkLock.Unlock()
	}
	if n := <-got; n != 1 {
		t.Fatalf("%d descriptors came", n)
	}
}
