// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

const (
	// keepPause is the distance of the first two attempts to reach a daemon that has gone; it doubles up to keepPauseMost.
	keepPause     = 50 * time.Millisecond
	keepPauseMost = time.Second
	// keepSteady is how long a session lasts with a daemon that has really come back.
	keepSteady = 5 * time.Second
	// keepPatience is how long a daemon may take to answer: vmnet may take seconds to start an interface.
	keepPatience = time.Minute
)

// Keep is Adopt for a link that outlives the daemon: after each end of the daemon it hands the same file over to the next one at
// the same socket, for as long as that takes. The device at the other end of the pair keeps its descriptor and loses the frames of the
// meantime. Give the link a name, a hardware address or an interface id, and the next daemon knows it again.
//
// The first request must succeed. After that the link lasts until the context is done, Close is called, or Wait returns why it
// cannot go on: what the daemon refuses for good, or ErrKicked. Keep does not come back after a kick, which has shut the file down
// in every process: make a new pair if the machine shall go on.
//
// Keep has a duplicate of file, which the caller closes after Keep. At the end it closes the duplicate, by which the device learns.
// Info stays that of the first daemon. The transport is Datagram: the daemon ends a stream when it stops.
func Keep(ctx context.Context, socket string, file *os.File, opts ...Option) (*Link, error) {
	o, err := options(opts)
	switch {
	case err != nil:
	case o.detached:
		err = errors.New("WithoutLifeline is for Adopt: the lifeline tells Keep when the daemon has gone")
	case o.request.Transport != Datagram:
		err = errors.New("Keep is for datagrams: the daemon ends a stream when it stops")
	default:
		file, err = duplicate(file)
	}
	if err != nil {
		return nil, fmt.Errorf("attach: %w", err)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	k := &keeper{notify: o.notify, adopt: func() (*Link, error) {
		limit, stop := context.WithTimeout(ctx, keepPatience)
		defer stop()
		return Adopt(limit, socket, file, opts...)
	}}
	first, err := k.adopt()
	if err != nil {
		cancel(nil)
		file.Close()
		return nil, err
	}
	l := &Link{Info: first.Info, done: make(chan struct{})}
	l.close = sync.OnceValue(func() error {
		cancel(net.ErrClosed)
		<-l.done
		return nil
	})
	go func() {
		defer close(l.done)
		defer cancel(nil)
		defer file.Close()
		l.err = k.run(ctx, first)
	}()
	return l, nil
}

// A keeper is what a kept link is made of.
type keeper struct {
	adopt  func() (*Link, error)
	notify func(error) // nil: nothing is to be told
}

// run stays with one daemon after the other, from l on, and returns why it ends.
func (k *keeper) run(ctx context.Context, l *Link) error {
	for pause := keepPause; ; {
		began := time.Now()
		err := l.Wait(ctx)
		l.Close()
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.Is(err, ErrKicked):
			return err
		case time.Since(began) > keepSteady:
			pause = keepPause
		}
		for err != nil {
			k.tell(err)
			select {
			case <-ctx.Done():
				return context.Cause(ctx)
			case <-time.After(pause):
			}
			pause = min(2*pause, keepPauseMost)
			l, err = k.adopt()
			switch {
			case err != nil && ctx.Err() != nil:
				return context.Cause(ctx)
			case forGood(err):
				return err
			}
		}
		k.tell(nil)
	}
}

func (k *keeper) tell(err error) {
	if k.notify != nil {
		k.notify(err)
	}
}

// forGood reports whether the daemon will refuse the same again.
func forGood(err error) bool {
	for _, c := range []Code{ErrBadRequest, ErrUnsupportedVersion, ErrTooLong, ErrBadDescriptor, ErrDenied} {
		if errors.Is(err, c) {
			return true
		}
	}
	return false
}

// duplicate is file again, closed in children.
func duplicate(file *os.File) (dup *os.File, err error) {
	if file == nil {
		return nil, os.ErrInvalid
	}
	raw, err := file.SyscallConn()
	if err != nil {
		return nil, fmt.Errorf("descriptor to hand over: %w", err)
	}
	cerr := raw.Control(func(fd uintptr) {
		syscall.ForkLock.RLock()
		defer syscall.ForkLock.RUnlock()
		var n int
		if n, err = syscall.Dup(int(fd)); err == nil {
			syscall.CloseOnExec(n)
			dup = os.NewFile(uintptr(n), file.Name())
		}
	})
	if err = errors.Join(cerr, err); err != nil {
		return nil, fmt.Errorf("duplicate the descriptor: %w", err)
	}
	return dup, nil
}
