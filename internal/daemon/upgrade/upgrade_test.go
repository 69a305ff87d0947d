// SPDX-License-Identifier: Apache-2.0

package upgrade

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
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

// TestMain makes this test binary the new program when it is asked as one.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == CheckArgument {
		syscall.Exit(newProgram()) // the race detector would have os.Exit wait for a second
	}
	if os.Getenv("UPGRADE_TEST_START_PATH") != "" {
		path, err := StartPath(os.Args[0])
		fmt.Print(path, " ", err)
		syscall.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// behaviour is what newProgram reads beside itself: its environment is empty.
type behaviour struct {
	Crash, Hang, HangOnce, Orphan, Silent, Flood, Wrong, Exit1, Echo bool

	State string // the only content it can read
	Argv  string // what it does not understand
}

// newProgram is check mode.
func newProgram() int {
	self, err := os.Executable()
	if err != nil {
		return 1
	}
	var b behaviour
	if content, err := os.ReadFile(self + ".json"); err == nil {
		_ = json.Unmarshal(content, &b)
	}
	switch {
	case b.Crash:
		panic("it crashes\x1b[31m\n\tbadly")
	case b.HangOnce && os.Mkdir(self+".hung", 0o700) == nil, b.Hang:
		fmt.Fprintln(os.Stderr, "hanging")
		time.Sleep(time.Hour)
	case b.Silent:
		return 0
	case b.Wrong:
		fmt.Println(`{"proof":"nothing","version":"v2"}`)
		return 0
	case b.Echo:
		_, _ = io.Copy(os.Stdout, os.Stdin)
		return 0
	case b.Flood:
		line := strings.Repeat("flood", 1000)
		for range 1000 {
			fmt.Println(line)
			fmt.Fprintln(os.Stderr, line)
		}
		return 0
	case b.Orphan: // somebody else keeps the output open
		c := exec.Command("/bin/sleep", "3600")
		c.Stdout, c.Stderr = os.Stdout, os.Stderr
		if err := c.Start(); err != nil {
			return 1
		}
		_ = os.WriteFile(self+".orphan", fmt.Append(nil, c.Process.Pid), 0o600)
	}
	if err := surroundings(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	err = Answer(os.Stdin, os.Stdout, Checks{
		Version: "v2",
		Argv: func(argv []string, posixly bool) error {
			if b.Argv != "" && strings.Contains(strings.Join(argv, " "), b.Argv) {
				return errors.New("unknown option " + b.Argv)
			}
			if posixly {
				return errors.New("POSIXLY_CORRECT is set")
			}
			return nil
		},
		State: func(content []byte) error {
			if b.State != "" && b.State != string(content) {
				return fmt.Errorf("version %s is not known", content)
			}
			return nil
		},
	})
	if err == nil && b.Exit1 {
		err = errors.New("after all not")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// surroundings is what is wrong with how this process was started.
func surroundings() error {
	if filepath.Base(os.Args[0]) != "socket_vmnet2" {
		return fmt.Errorf("argv[0] is %q", os.Args[0])
	}
	if env := os.Environ(); len(env) > 0 {
		return fmt.Errorf("the environment is %q", env)
	}
	if pgid, err := unix.Getpgid(0); err != nil || pgid != os.Getpid() {
		return errors.New("it is in the daemon's process group")
	}
	for fd := 3; fd < 100; fd++ {
		if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err == nil && flags&unix.FD_CLOEXEC == 0 {
			return fmt.Errorf("descriptor %d is open", fd)
		}
	}
	return nil
}

// program is this test binary, at a path of its own, with that behaviour.
func program(t *testing.T, b behaviour) *Binary {
	t.Helper()
	dir := ownDir(t)
	self, err := os.Executable()
	require.NoError(t, err)
	path := filepath.Join(dir, "program")
	if err := os.Link(self, path); err != nil { // another file system
		content, err := os.ReadFile(self)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(path, content, 0o700))
	}
	content, err := json.Marshal(b)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path+".json", content, 0o600))
	found, err := Find(path)
	require.NoError(t, err)
	return found
}

// ownDir is a directory without links in its path that nobody else can write.
func ownDir(t *testing.T) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	require.NoError(t, os.Chmod(dir, 0o700))
	return dir
}

// shut closes those descriptors of the test process to children that its own parent left open.
func shut(t *testing.T) {
	t.Helper()
	for fd := 3; fd < 100; fd++ {
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err == nil {
			unix.CloseOnExec(fd)
		}
	}
}

func TestCheck(t *testing.T) {
	shut(t)
	a, b, err := os.Pipe()
	require.NoError(t, err)
	defer a.Close()
	defer b.Close()
	for _, c := range []struct {
		name string
		is   behaviour
		o    CheckOptions
		code code // empty: it is accepted
		text string
	}{
		{"good", behaviour{}, CheckOptions{}, "", ""},
		{"with state", behaviour{State: "1"}, CheckOptions{State: []byte("1")}, "", ""},
		{"much state", behaviour{}, CheckOptions{State: []byte(strings.Repeat("x", 4<<20))}, "", ""},
		{"unknown state", behaviour{State: "1"}, CheckOptions{State: []byte("2")}, CodeCheck, "it says: the daemon's state: version 2 is not known"},
		{"unknown option", behaviour{Argv: "--new"}, CheckOptions{Argv: []string{"d", "--new", "/s"}}, CodeCheck, "the daemon's command line: unknown option --new"},
		{"environment counts", behaviour{}, CheckOptions{POSIXLY: true}, CodeCheck, "POSIXLY_CORRECT is set"},
		{"crash", behaviour{Crash: true}, CheckOptions{}, CodeCheck, "refuses to take over, or cannot: exit status 2"},
		{"no answer", behaviour{Silent: true}, CheckOptions{}, CodeCheck, "is not a program that can take over"},
		{"wrong proof", behaviour{Wrong: true}, CheckOptions{}, CodeCheck, "is not a program that can take over"},
		{"echo", behaviour{Echo: true}, CheckOptions{}, CodeCheck, "is not a program that can take over"},
		{"flood", behaviour{Flood: true}, CheckOptions{}, CodeCheck, "is not a program that can take over"},
		{"good answer, bad end", behaviour{Exit1: true}, CheckOptions{}, CodeCheck, "after all not"},
		{"hangs once", behaviour{HangOnce: true}, CheckOptions{Time: 2 * time.Second}, "", ""},
		{"hangs", behaviour{Hang: true}, CheckOptions{Time: 300 * time.Millisecond}, CodeSlow, "did not answer within 300ms, twice"},
	} {
		t.Run(c.name, func(t *testing.T) {
			bin := program(t, c.is)
			if c.o.Time == 0 {
				c.o.Time = patience
			}
			if c.o.Argv == nil {
				c.o.Argv = []string{"socket_vmnet2", "/s"}
			}
			version, err := Check(t.Context(), bin, c.o)
			if c.code == "" {
				require.NoError(t, err)
				assert.Equal(t, "v2", version)
				return
			}
			r, ok := errors.AsType[*Refusal](err)
			require.True(t, ok, "%v", err)
			assert.Equal(t, c.code, r.Code)
			assert.Contains(t, r.Text, c.text)
			assert.Contains(t, r.Text, bin.Path)
			assert.Less(t, len(r.Text), 2000)
			assert.NotContains(t, r.Text, "\x1b")
			assert.NotContains(t, r.Text, "\n")
		})
	}
}

// TestCheckForeign: programs that know nothing of all this.
func TestCheckForeign(t *testing.T) {
	for _, c := range []struct{ name, content, text string }{
		{"nothing", "#!/bin/sh\n", "is not a program that can take over"},
		{"fails", "#!/bin/sh\nexit 1\n", "refuses to take over, or cannot: exit status 1"},
		{"script without an interpreter", "#!/nowhere/sh\n", "no such file or directory"},
		{"garbage", "\x7fELF and no more", "exec format error"},
		{"killed", "#!/bin/sh\nkill -SEGV $$\n", "signal: segmentation fault"},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(ownDir(t), "program")
			require.NoError(t, os.WriteFile(path, []byte(c.content), 0o700))
			_, err := Check(t.Context(), &Binary{Path: path, Resolved: path}, CheckOptions{Argv: []string{"socket_vmnet2", "/s"}, Time: patience})
			r, ok := errors.AsType[*Refusal](err)
			require.True(t, ok, "%v", err)
			assert.Equal(t, CodeCheck, r.Code)
			assert.Contains(t, r.Text, c.text)
		})
	}
}

// TestCheckKillsAll: what the child has started dies with it, and the answer does not wait for it.
func TestCheckKillsAll(t *testing.T) {
	b := program(t, behaviour{Orphan: true})
	_, err := Check(t.Context(), b, CheckOptions{Argv: []string{"socket_vmnet2", "/s"}, Time: patience})
	require.Error(t, err)
	content, err := os.ReadFile(b.Path + ".orphan")
	require.NoError(t, err)
	var pid int
	_, err = fmt.Sscan(string(content), &pid)
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		// It has no parent that waits for it but process 1, which may be slow, so a dead one counts.
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		return err == nil && strings.Contains(string(stat), ") Z ") || errors.Is(syscall.Kill(pid, 0), syscall.ESRCH)
	}, patience, 10*time.Millisecond)
}

// TestCheckStopped: a daemon that is stopped does not wait for the new program.
func TestCheckStopped(t *testing.T) {
	b := program(t, behaviour{Hang: true})
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	_, err := Check(ctx, b, CheckOptions{Argv: []string{"socket_vmnet2", "/s"}, Time: time.Hour})
	r, ok := errors.AsType[*Refusal](err)
	require.True(t, ok, "%v", err)
	assert.Equal(t, CodeStopping, r.Code)
}

func TestAnswerRefuses(t *testing.T) {
	good := question{Manifest: 1, Nonce: "n", Argv: []string{"d"}}
	for _, c := range []struct {
		name string
		in   func(q *question)
		raw  string
		want string
	}{
		{"nothing", nil, "", "no question was asked"},
		{"no JSON", nil, "x", "invalid character"},
		{"no nonce", func(q *question) { q.Nonce = "" }, "", "no question was asked"},
		{"another manifest", func(q *question) { q.Manifest = 2 }, "", "version 2 of the manifest, this program reads version 1: stop and start it"},
		{"no argv", func(q *question) { q.Argv = nil }, "", "no command line"},
		{"too long", nil, strings.Repeat("x", maxQuestion+1), "more than"},
	} {
		t.Run(c.name, func(t *testing.T) {
			raw := c.raw
			if c.in != nil {
				q := good
				c.in(&q)
				b, err := json.Marshal(q)
				require.NoError(t, err)
				raw = string(b)
			}
			var out strings.Builder
			err := Answer(strings.NewReader(raw), &out, Checks{
				Version: "v2", Argv: func([]string, bool) error { return nil }, State: func([]byte) error { return nil },
			})
			require.ErrorContains(t, err, c.want)
			assert.Empty(t, out.String())
		})
	}
}

// FuzzAnswer: whatever comes, check mode ends with an answer to the question or an error.
func FuzzAnswer(f *testing.F) {
	for _, seed := range []string{
		`{"manifest":1,"nonce":"n","argv":["d","/s"],"state":"e30="}`, `{"manifest":2,"nonce":"n"}`, `{}`, `null`, `[`, ``,
		`{"manifest":1,"nonce":"n","argv":[""],"posixly_correct":true,"state":"x"}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		var out strings.Builder
		asked := false
		err := Answer(strings.NewReader(string(in)), &out, Checks{
			Version: "v2",
			Argv: func(argv []string, _ bool) error {
				asked = len(argv) > 0
				return nil
			},
			State: func([]byte) error { return nil },
		})
		if (err == nil) != (out.Len() > 0) || err == nil && !asked {
			t.Errorf("%q: %v, %q", in, err, out.String())
		}
	})
}
