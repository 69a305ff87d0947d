// SPDX-License-Identifier: Apache-2.0

package handover

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
)

// patience is how long a test waits for what must happen.
const patience = 20 * time.Second

// role is the environment variable that makes this test binary another program.
const role = "HANDOFF_TEST_ROLE"

func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == CheckArgument { // as the new program
		syscall.Exit(newProgram()) // the race detector would have os.Exit wait for a second
	}
	switch os.Getenv(role) {
	case "path":
		path, err := StartPath(os.Args[0])
		fmt.Print(path, " ", err)
		syscall.Exit(0)
	case "old":
		os.Exit(oldImage())
	case "new":
		os.Exit(newImage())
	case "again":
		os.Exit(againAndAgain())
	case "early":
		os.Exit(earlySignal())
	}
	goleak.VerifyTestMain(m)
}

// image is this test binary in a role.
func image(t *testing.T, name string, args ...string) *exec.Cmd {
	t.Helper()
	c := exec.Command(os.Args[0], args...)
	c.Args[0] = "socket_vmnet2-as-it-was-called"
	c.Env = append(os.Environ(), role+"="+name, "GORACE=atexit_sleep_ms=0")
	c.Stderr = os.Stderr
	return c
}

// things are what the images of TestExec hand over.
type things struct {
	Listener, Conn, Lock, Rest int
	Dir                        string
}

// report is what the new image tells.
type report struct {
	PID       int
	Argv      []string
	State     string
	Heard     string // from the connection
	Inherited []int  // descriptors that a child would get
	Left      string // the error of one that was not taken
	Env       bool
	Again     bool
}

// oldImage hands over to newImage. os.Args[1] is a directory.
func oldImage() int {
	dir := os.Args[1]
	var o Out
	th := things{Dir: dir}
	ln := must(net.ListenUnix("unix", &net.UnixAddr{Name: dir + "/s", Net: "unix"}))
	ln.SetUnlinkOnClose(false)
	conn := must(ln.AcceptUnix())
	lock := must(os.OpenFile(dir+"/lock", os.O_CREATE|os.O_RDWR, 0o600))
	fine(syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB))
	rest, _, err := os.Pipe()
	fine(err)
	for _, x := range []struct {
		c  syscall.Conn
		to *int
	}{{ln, &th.Listener}, {conn, &th.Conn}, {lock, &th.Lock}, {rest, &th.Rest}} {
		*x.to = o.Conn(x.c)
	}
	_ = os.Setenv(role, "new")
	fine(Exec(&o, nil, th, os.Args[0+2], os.Args, append(os.Environ(), envName+"=stale")))
	return 1
}

// newImage looks at what it got.
func newImage() int {
	in := must(Inherited())
	var th things
	fine(in.Get(&th))
	r := report{PID: os.Getpid(), Argv: os.Args, State: th.Dir, Inherited: openToChildren()}
	_, r.Env = os.LookupEnv(envName)
	again, err := Inherited()
	r.Again = again != nil || err != nil

	ln, conn := must(Socket[*net.UnixListener](in, th.Listener)), must(Socket[*net.UnixConn](in, th.Conn))
	lock := must(in.File(th.Lock))
	in.CloseRest()
	_, err = unix.FcntlInt(uintptr(th.Rest), unix.F_GETFD, 0)
	r.Left = fmt.Sprint(err)

	buf := make([]byte, 100)
	r.Heard = string(buf[:must(conn.Read(buf))])
	fine(json.NewEncoder(conn).Encode(r))
	next := must(ln.AcceptUnix()) // the lock is still held when this is answered
	must(next.Write([]byte("served")))
	fine(next.Close())
	fine(ln.Close())
	must(os.Lstat(th.Dir + "/s"))
	fine(lock.Close())
	return 0
}

// openToChildren are this process's descriptors above 2 that are not close-on-exec.
func openToChildren() []int {
	list := []int{}
	for fd := 3; fd < 200; fd++ {
		if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err == nil && flags&unix.FD_CLOEXEC == 0 {
			list = append(list, fd)
		}
	}
	return list
}

// TestExec has one real program replaced by another one, and looks at it from outside.
func TestExec(t *testing.T) {
	dir := t.TempDir()
	c := image(t, "old", dir, os.Args[0])
	require.NoError(t, c.Start())
	pid := c.Process.Pid
	defer func() { _ = c.Process.Kill() }()
	path := filepath.Join(dir, "s")
	var conn net.Conn
	require.Eventually(t, func() (ok bool) {
		var err error
		conn, err = net.Dial("unix", path)
		return err == nil
	}, patience, 5*time.Millisecond)
	defer conn.Close()
	require.NoError(t, conn.SetDeadline(time.Now().Add(patience)))
	_, err := conn.Write([]byte("stream"))
	require.NoError(t, err)

	var r report
	require.NoError(t, json.NewDecoder(conn).Decode(&r))
	assert.Equal(t, pid, r.PID)
	assert.Equal(t, c.Args, r.Argv, "argv[0] too")
	assert.Equal(t, dir, r.State)
	assert.Equal(t, "stream", r.Heard)
	assert.Subset(t, openToChildren(), r.Inherited, "of descriptors above 2: what this process has from its own parent")
	assert.False(t, r.Env)
	assert.False(t, r.Again)
	assert.Equal(t, unix.EBADF.Error(), r.Left)

	lock, err := os.Open(dir + "/lock")
	require.NoError(t, err)
	defer lock.Close()
	assert.Equal(t, syscall.EAGAIN, syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB), "the lock is held throughout")

	next, err := net.Dial("unix", path)
	require.NoError(t, err)
	defer next.Close()
	buf := make([]byte, 10)
	require.NoError(t, next.SetDeadline(time.Now().Add(patience)))
	n, err := next.Read(buf)
	require.NoError(t, err)
	assert.Equal(t, "served", string(buf[:n]))
	require.NoError(t, c.Wait())
}

// TestExecFails: everything is as it was, and it can be tried again.
func TestExecFails(t *testing.T) {
	a, b, err := os.Pipe()
	require.NoError(t, err)
	defer a.Close()
	defer b.Close()
	var before, after unix.Rlimit
	require.NoError(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &before))
	heard := Signals()
	open := openToChildren()
	for range 2 {
		var o Out
		fd := o.Conn(a)
		err := Exec(&o, nil, nil, "/nowhere/at/all", []string{"x"}, os.Environ())
		require.EqualError(t, err, "exec /nowhere/at/all: no such file or directory")
		flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
		require.NoError(t, err)
		assert.Equal(t, unix.FD_CLOEXEC, flags)
		assert.Equal(t, open, openToChildren())
		require.NoError(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &after))
		assert.Equal(t, before, after)
		require.NoError(t, syscall.Kill(os.Getpid(), syscall.SIGTERM))
		select {
		case <-heard:
			<-came // for the next time
		case <-time.After(patience):
			require.Fail(t, "signals are still blocked")
		}
	}
}

// TestExecRefuses what cannot be handed over, before anything is changed.
func TestExecRefuses(t *testing.T) {
	a, b, err := os.Pipe()
	require.NoError(t, err)
	defer b.Close()
	free := int(a.Fd())
	require.NoError(t, a.Close())
	for _, c := range []struct {
		name  string
		o     func() *Out
		state any
		want  string
	}{
		{"number that is not open", func() *Out { o := &Out{}; o.FD(987654); return o }, nil, "hand over descriptor 987654: bad file descriptor"},
		{"number that the manifest gets", func() *Out { o := &Out{}; o.FD(free); return o }, nil, "hand over descriptor " + strconv.Itoa(free)},
		{"stderr", func() *Out { o := &Out{}; o.FD(2); return o }, nil, "descriptor 2 is always inherited"},
		{"closed file", func() *Out { o := &Out{}; o.Conn(a); return o }, nil, "hand over a descriptor: use of closed file"},
		{"no JSON", func() *Out { return &Out{} }, func() {}, "write the manifest: json: unsupported type"},
	} {
		t.Run(c.name, func(t *testing.T) {
			open := openToChildren()
			require.ErrorContains(t, Exec(c.o(), nil, c.state, "/nowhere", []string{"x"}, nil), c.want)
			assert.Equal(t, open, openToChildren())
		})
	}
}

// TestNoChildInherits starts children all the while descriptors are handed over, which fails each time.
func TestNoChildInherits(t *testing.T) {
	dir := t.TempDir()
	f, err := os.Create(dir + "/handed-over")
	require.NoError(t, err)
	defer f.Close()
	children := func() string {
		const script = `for fd in 3 4 5 6 7 8 9 10 11 12; do if (eval ": <&$fd") 2>/dev/null; then echo $fd; fi; done`
		out, err := exec.Command("sh", "-c", script).Output()
		assert.NoError(t, err)
		return string(out)
	}
	before := children()
	var wg sync.WaitGroup
	var execs atomic.Int64
	ctx, stop := context.WithCancel(t.Context())
	wg.Go(func() {
		for ; ctx.Err() == nil; execs.Add(1) {
			var o Out
			o.Conn(f)
			assert.Error(t, o.exec(nil, dir, []string{"x"}, nil))
		}
	})
	for i := 0; i < 20 || execs.Load() < 20; i++ { // whichever gets to run
		assert.Equal(t, before, children(), "descriptors that a child has beside those from this process's own parent")
	}
	stop()
	wg.Wait()
}

// againAndAgain replaces itself by itself until a stop signal comes, which ends it in order.
func againAndAgain() int {
	time.Sleep(30 * time.Millisecond) // a long start, in which signals are not asked for
	came := Signals()
	guards := strings.Count(os.Getenv(guardEnv), " ") == 0 && os.Getenv(guardEnv) != ""
	_, err := Inherited()
	switch {
	case errors.Is(err, ErrNotNeeded):
		return 0
	case guards:
		fmt.Println("guard", <-came)
		return inOrder
	}
	fine(err)
	if len(os.Args) == 1 { // the first image
		os.Args = append(os.Args, "once more")
	}
	fmt.Println(time.Now().UnixNano()) // another image
	select {
	case <-came:
		return inOrder
	case <-time.After(time.Millisecond):
	}
	self := os.Getenv("HANDOFF_TEST_SELF")
	g := must(NewGuard(self, os.Args, os.Environ()))
	err = Exec(&Out{}, g, nil, self, os.Args, os.Environ())
	g.Release()
	if errors.Is(err, ErrStopping) {
		<-came
		return inOrder
	}
	fine(err)
	return 1
}

// inOrder is the exit code of an image that got a stop signal.
const inOrder = 7

// TestStopSignalDuringExec sends a stop signal to a process that becomes another program all the time. Either an image gets
// it, or it is deadly, in the first moments of an image, and a guard gets it; but it is not lost.
func TestStopSignalDuringExec(t *testing.T) {
	const rounds = 10
	deadly, guards, lost := 0, 0, 0
	for i := range rounds {
		c := image(t, "again")
		c.Env = append(c.Env, "HANDOFF_TEST_SELF="+os.Args[0])
		out, err := c.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, c.Start())
		images := bufio.NewScanner(out)
		require.True(t, images.Scan())
		time.Sleep(time.Duration(i) * 9 * time.Millisecond) // somewhere in its life
		require.NoError(t, c.Process.Signal(syscall.SIGTERM))
		sent, since := time.Now(), 0
		for images.Scan() { // to its end
			if images.Text() == "guard terminated" {
				guards++
				continue
			}
			began, err := strconv.ParseInt(images.Text(), 10, 64)
			require.NoError(t, err)
			if began <= sent.UnixNano() {
				continue
			}
			if since++; since == 5 { // none of them would have begun
				require.NoError(t, c.Process.Signal(syscall.SIGTERM))
				sent, since, lost = time.Now(), 0, lost+1
			}
		}
		_ = c.Wait() // its state tells
		if code := c.ProcessState.ExitCode(); code != inOrder {
			status, _ := c.ProcessState.Sys().(syscall.WaitStatus)
			require.Equal(t, syscall.SIGTERM, status.Signal(), c.ProcessState.String())
			deadly++
		}
	}
	t.Logf("%d of %d ended by their guards, %d themselves, %d signals were lost", deadly, rounds, rounds-deadly, lost)
	assert.Equal(t, deadly, guards)
	if runtime.GOOS == "linux" { // elsewhere it was not tried
		assert.Zero(t, lost)
	}
}

// TestEarlySignal: a stop signal that comes before the new image asks for signals reaches it then.
func TestEarlySignal(t *testing.T) {
	c := image(t, "early")
	c.Env = append(c.Env, "HANDOFF_TEST_SELF="+os.Args[0])
	_ = c.Run()
	assert.Equal(t, inOrder, c.ProcessState.ExitCode(), c.ProcessState.String())
}

// earlySignal hands over once, and is sent a signal at the begin of its main.
func earlySignal() int {
	if os.Getenv(envName) == "" {
		fine(Exec(&Out{}, nil, nil, os.Getenv("HANDOFF_TEST_SELF"), os.Args, os.Environ()))
	}
	fine(syscall.Kill(os.Getpid(), syscall.SIGTERM))
	came := Signals()
	_, err := Inherited()
	fine(err)
	select {
	case <-came:
		return inOrder
	case <-time.After(patience):
		return 1
	}
}

// TestErrStopping: after a stop signal there is no exec, whether or not it was taken from the channel, where it is then.
func TestErrStopping(t *testing.T) {
	heard := Signals()
	require.NoError(t, syscall.Kill(os.Getpid(), syscall.SIGHUP))
	for range 2 {
		require.Equal(t, syscall.SIGHUP, <-heard)
		require.ErrorIs(t, Exec(&Out{}, nil, nil, "/nowhere", []string{"x"}, nil), ErrStopping)
	}
	<-heard
	<-came // for other tests
}

// manifestFile makes a manifest's descriptor, open as Exec leaves it.
func manifestFile(t *testing.T, content []byte) int {
	t.Helper()
	f, err := memoryFile()
	require.NoError(t, err)
	_, err = f.WriteAt(content, 0)
	require.NoError(t, err)
	fd, err := unix.Dup(int(f.Fd()))
	require.NoError(t, err)
	require.NoError(t, f.Close())
	t.Cleanup(func() { _ = unix.Close(fd) })
	return fd
}

func encoded(t *testing.T, change func(m *manifest)) []byte {
	t.Helper()
	m := manifest{Version: manifestVersion, PID: os.Getpid(), State: []byte("1")}
	change(&m)
	b, err := json.Marshal(m)
	require.NoError(t, err)
	return b
}

// TestInheritedRefuses what any program may have put into the environment.
func TestInheritedRefuses(t *testing.T) {
	with := func(change func(m *manifest)) func(t *testing.T) string {
		return func(t *testing.T) string { return strconv.Itoa(manifestFile(t, encoded(t, change))) }
	}
	good := func(*manifest) {}
	type test struct {
		name string
		make func(t *testing.T) string
		want string
	}
	cases := []test{
		{"no number", func(*testing.T) string { return "x" }, `SOCKET_VMNET2_HANDOFF="x" is not a descriptor's number`},
		{"stderr", func(*testing.T) string { return "2" }, "is not a descriptor's number"},
		{"not open", func(*testing.T) string { return "987654" }, "bad file descriptor"},
		{"pipe", func(t *testing.T) string {
			a, b, err := os.Pipe()
			require.NoError(t, err)
			t.Cleanup(func() { _, _ = a.Close(), b.Close() })
			return strconv.Itoa(int(a.Fd()))
		}, "it is not a regular file"},
		{"file with a name", func(t *testing.T) string {
			f, err := os.OpenFile(t.TempDir()+"/m", os.O_CREATE|os.O_RDWR, 0o600)
			require.NoError(t, err)
			t.Cleanup(func() { _ = f.Close() })
			_, err = f.Write(encoded(t, good))
			require.NoError(t, err)
			return strconv.Itoa(int(f.Fd()))
		}, "it has a name in the file system"},
		{"others may write", func(t *testing.T) string {
			fd := manifestFile(t, encoded(t, good))
			require.NoError(t, unix.Fchmod(fd, 0o620))
			return strconv.Itoa(fd)
		}, "others may write it (mode 0620)"},
		{"too large", func(t *testing.T) string {
			fd := manifestFile(t, nil)
			require.NoError(t, unix.Ftruncate(fd, maxSize+1))
			return strconv.Itoa(fd)
		}, "more than the limit"},
		{"no JSON", func(t *testing.T) string { return strconv.Itoa(manifestFile(t, []byte("x"))) }, "read the manifest: invalid character"},
		{"another version", with(func(m *manifest) { m.Version = 1 }), "the manifest has version 1, this program reads version 3"},
		{"another process", with(func(m *manifest) { m.PID = 1 }), "the manifest is for process 1, this is process "},
		{"stderr listed", with(func(m *manifest) { m.FDs = []int{2} }), "descriptor 2, which cannot be or is there twice"},
		{"descriptor twice", with(func(m *manifest) { m.FDs = []int{7, 7} }), "descriptor 7, which cannot be or is there twice"},
		{"itself", func(t *testing.T) string {
			// The number of the next descriptor is known: it has just been free.
			fd := manifestFile(t, nil)
			b := encoded(t, func(m *manifest) { m.FDs = []int{fd} })
			_, err := unix.Pwrite(fd, b, 0)
			require.NoError(t, err)
			return strconv.Itoa(fd)
		}, "which cannot be or is there twice"},
	}
	if os.Geteuid() == 0 {
		cases = append(cases, test{"another user's", func(t *testing.T) string {
			fd := manifestFile(t, encoded(t, good))
			require.NoError(t, unix.Fchown(fd, 65534, -1))
			return strconv.Itoa(fd)
		}, "it belongs to user 65534, not to us (user 0)"})
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Setenv(envName, c.make(t))
			in, err := Inherited()
			require.ErrorContains(t, err, "take over from the image before: ")
			require.ErrorContains(t, err, c.want)
			assert.Nil(t, in)
			_, there := os.LookupEnv(envName)
			assert.False(t, there)
		})
	}
	t.Run("none", func(t *testing.T) {
		in, err := Inherited()
		require.NoError(t, err)
		assert.Nil(t, in)
	})
	t.Run("a good one", func(t *testing.T) {
		open, err := unix.Open("/dev/null", unix.O_RDONLY, 0)
		require.NoError(t, err)
		defer func() { _ = unix.Close(open) }()
		fd := manifestFile(t, encoded(t, func(m *manifest) { m.FDs = []int{open, 987654} }))
		t.Setenv(envName, strconv.Itoa(fd))
		in, err := Inherited()
		require.NoError(t, err)
		require.ErrorContains(t, in.Take(open, 987654), "take descriptor 987654 over: it was not handed over", "one that is not open costs those that need it")
		require.ErrorContains(t, in.Take(open, open), "is taken already")
		require.NoError(t, in.Take(open))
		var state int
		require.NoError(t, in.Get(&state))
		assert.Equal(t, 1, state)
		require.ErrorContains(t, in.Get(new(string)), "read the state in the manifest")
		_, err = unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
		assert.Equal(t, unix.EBADF, err, "it is closed")
	})
}

// TestSocketRefuses a descriptor of another kind, and returns no socket that is nil.
func TestSocketRefuses(t *testing.T) {
	f, err := unix.Open("/dev/null", unix.O_RDONLY, 0)
	require.NoError(t, err)
	_, err = Socket[*net.UnixConn](&In{left: map[int]bool{f: true}}, f)
	require.ErrorIs(t, err, unix.ENOTSOCK)
	require.ErrorContains(t, err, "take descriptor "+strconv.Itoa(f)+" over: ")
	c, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	require.NoError(t, err)
	defer c.Close()
	fd, err := unix.Dup((&Out{}).Conn(c))
	require.NoError(t, err)
	_, err = Socket[*net.UnixConn](&In{left: map[int]bool{fd: true}}, fd)
	require.ErrorContains(t, err, "it is no *net.UnixConn")
}

// FuzzDecode: no content makes it panic or lists a descriptor that cannot be.
func FuzzDecode(f *testing.F) {
	good, err := json.Marshal(manifest{Version: manifestVersion, PID: os.Getpid(), FDs: []int{4, 9}, State: []byte("1")})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add([]byte(`{"version":3,"pid":1,"fds":[-1]}`))
	f.Add([]byte(`{"version":1e9}`))
	f.Add([]byte("null"))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := decode(b, 3, os.Getpid())
		if err != nil {
			return
		}
		slices.Sort(m.FDs)
		if len(slices.Compact(slices.Clone(m.FDs))) != len(m.FDs) || len(m.FDs) > 0 && m.FDs[0] <= 3 || m.PID != os.Getpid() {
			t.Errorf("%q gives %+v", b, m)
		}
	})
}

// fine ends an image that is not.
func fine(err error) {
	if errors.Is(err, ErrNotNeeded) {
		os.Exit(0)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func must[T any](v T, err error) T {
	fine(err)
	return v
}
