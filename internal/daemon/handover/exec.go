// SPDX-License-Identifier: Apache-2.0

package handover

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"slices"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// stopSignals end a daemon in order.
var stopSignals = []os.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGTERM}

// signals and came get the stop signals: the daemon reads the first, and only Exec looks at the second, so that it knows of a signal that
// the daemon has taken and not acted on yet. In an image that takes over both are there from before main on: without them the signals
// are deadly until the daemon asks for them. In every other process they are nil until Signals is called.
var signals, came = func() (_, _ chan os.Signal) {
	if os.Getenv(envName)+os.Getenv(guardEnv) == "" {
		return nil, nil
	}
	return watch(), watch()
}()

func watch() chan os.Signal {
	c := make(chan os.Signal, 1)
	signal.Notify(c, stopSignals...)
	return c
}

// Signals gets the stop signals of this process, also one that has come already in the life of this image. Nothing else of the process
// may ask for them, since Exec has them end the process in the moment of the exec.
func Signals() <-chan os.Signal {
	if signals == nil {
		signals, came = watch(), watch()
	}
	return signals
}

// ErrStopping is returned by Exec when a stop signal has come in the life of this image: the daemon should go on so that it can be stopped.
var ErrStopping = errors.New("not replaced, since a stop signal came")

// Exec replaces this program by the one at path, which gets argv (the first element being its name), env, state and what o
// collected; g is its guard, nil for none. It returns only with an error, and then all is as it was before: the descriptors are not inherited by children
// and signals arrive.
//
// No child can be started while descriptors are open to inheritance. A stop signal that came before is not lost: see ErrStopping; it is
// in the channel of Signals, even if it was taken from there before. One that comes later is in the channel that Signals of the new image
// returns, or ends the process, whose guard stops in order then.
func Exec(o *Out, g *guard, state any, path string, argv, env []string) error {
	f, err := o.write(state)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	memory := int(f.Fd())
	if o.fds[memory] { // it was closed, so it was free to be the manifest's
		return fmt.Errorf("hand over descriptor %d: %w", memory, unix.EBADF)
	}
	env, more := append(without(env), envName+"="+strconv.Itoa(memory)), []int{memory}
	if g != nil {
		if err := g.give(append(slices.Collect(maps.Keys(o.fds)), memory)); err != nil {
			return err
		}
		env, more = append(env, fmt.Sprintf("%s=%d %d", guardEnv, g.pair, g.pid)), append(more, g.pair)
	}

	var limit unix.Rlimit
	lerr := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit)
	err = o.exec(more, path, argv, env)
	if lerr == nil { // syscall.Exec has set what a new program should begin with
		_ = unix.Setrlimit(unix.RLIMIT_NOFILE, &limit)
	}
	runtime.KeepAlive(o)
	return err
}

// exec opens the descriptors to inheritance and replaces the program. Forks wait meanwhile.
func (o *Out) exec(more []int, path string, argv, env []string) error {
	syscall.ForkLock.Lock()
	defer syscall.ForkLock.Unlock()
	all := append(slices.Collect(maps.Keys(o.fds)), more...)
	defer func() {
		for _, fd := range all {
			unix.CloseOnExec(fd)
		}
	}()
	for _, fd := range all {
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_SETFD, 0); err != nil {
			return fmt.Errorf("hand over descriptor %d: %w", fd, err)
		}
	}
	for _, s := range stopSignals { // what the new image would never hear of ends the process now
		defer deadly(s.(syscall.Signal))()
	}
	quiesce()
	for _, c := range []chan os.Signal{signals, came} {
		if c != nil {
			signal.Stop(c) // what has come so far has been delivered when this returns
			defer signal.Notify(c, stopSignals...)
		}
	}
	select {
	case s := <-came:
		came <- s
		select {
		case signals <- s: // it may have come when that did not get it any more
		default:
		}
		return ErrStopping
	default:
	}
	return fmt.Errorf("exec %s: %w", path, syscall.Exec(path, argv, env))
}

// childEnv is the environment variable that holds the descriptor of what a parent gives a child.
const childEnv = "SOCKET_VMNET2_CHILD"

// FirstGiven is the number that the first file has in a child of Start.
const FirstGiven = 4

// Start starts this program again, as a child that is given files, and state, which names them by their numbers there.
func Start(state any, files []*os.File) (*exec.Cmd, error) {
	path, err := StartPath(os.Args[0])
	if err != nil {
		return nil, err
	}
	o := Out{}
	for i := range files {
		o.FD(FirstGiven + i)
	}
	m, err := o.write(state)
	if err != nil {
		return nil, err
	}
	defer func() { _ = m.Close() }()
	cmd := exec.Command(path)
	cmd.Args, cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Args, os.Stdin, os.Stdout, os.Stderr
	cmd.ExtraFiles, cmd.Env = append([]*os.File{m}, files...), append(os.Environ(), fmt.Sprintf("%s=%d", childEnv, FirstGiven-1))
	return cmd, cmd.Start()
}

// IsTold reports whether another process of the program seems to hand something over to this one: its parent, or the image before.
func IsTold() bool {
	return os.Getenv(envName)+os.Getenv(guardEnv)+os.Getenv(childEnv) != ""
}

// Given reads the state that the parent gave this process, if it did, into v; the files are the process's own. It is called once, as
// Inherited is, and checks as much: only a process of our user can have made it.
func Given(v any) error {
	text, ok := os.LookupEnv(childEnv)
	_ = os.Unsetenv(childEnv)
	if !ok {
		return nil
	}
	i, err := take(text, os.Getppid())
	if err == nil {
		err = i.Get(v)
	}
	if err != nil {
		return fmt.Errorf("take what the parent gives: %w", err)
	}
	return nil
}
