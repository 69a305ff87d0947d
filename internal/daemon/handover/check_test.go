// SPDX-License-Identifier: Apache-2.0

package handover

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// behaviour is what newProgram reads beside itself: its environment is empty.
type behaviour struct {
	Crash, Hang, Orphan, Silent, Flood, Wrong bool

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
	case b.Hang:
		fmt.Fprintln(os.Stderr, "hanging")
		time.Sleep(time.Hour)
	case b.Silent:
		return 0
	case b.Wrong:
		fmt.Println(`{"proof":"nothing","version":"v2"}`)
		return 0
	case b.Flood:
		line := strings.Repeat("flood", 1000)
		for range 1000 {
			fmt.Println(line)
			fmt.Fprintln(os.Stderr, line)
		}
		return 0
	case b.Orphan: // another process keeps the output open
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
	err = Answer(os.Stdin, os.Stdout, "v2", func(q *Question) error {
		switch {
		case b.Argv != "" && strings.Contains(strings.Join(q.Argv, " "), b.Argv):
			return errors.New("unknown option " + b.Argv)
		case q.POSIXLY:
			return errors.New("POSIXLY_CORRECT is set")
		case b.State != "" && b.State != string(q.State):
			return fmt.Errorf("version %s is not known", q.State)
		}
		return nil
	})
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
func program(t *testing.T, b behaviour) *binary {
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

// ownDir is a directory without links in its path that no other user can write.
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

// asked is q about a daemon.
func asked(q Question) Question {
	q.Argv = []string{"socket_vmnet2", "/s"}
	return q
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
		q    Question
		time time.Duration // patience if it is zero
		code code          // empty: it is accepted
		text string
	}{
		{"good", behaviour{}, Question{}, 0, "", ""},
		{"much state", behaviour{}, Question{State: []byte(strings.Repeat("x", 4<<20))}, 0, "", ""},
		{"unknown state", behaviour{State: "1"}, Question{State: []byte("2")}, 0, CodeCheck, "it says: version 2 is not known"},
		{"unknown option", behaviour{Argv: "--new"}, Question{Argv: []string{"d", "--new", "/s"}}, 0, CodeCheck, "it says: unknown option --new"},
		{"environment counts", behaviour{}, Question{POSIXLY: true}, 0, CodeCheck, "POSIXLY_CORRECT is set"},
		{"crash", behaviour{Crash: true}, Question{}, 0, CodeCheck, "refuses to take over, or cannot: exit status 2"},
		{"no answer", behaviour{Silent: true}, Question{}, 0, CodeCheck, "is not a program that can take over"},
		{"wrong proof", behaviour{Wrong: true}, Question{}, 0, CodeCheck, "is not a program that can take over"},
		{"flood", behaviour{Flood: true}, Question{}, 0, CodeCheck, "is not a program that can take over"},
		{"hangs", behaviour{Hang: true}, Question{}, 300 * time.Millisecond, CodeSlow, "did not answer within 300ms"},
	} {
		t.Run(c.name, func(t *testing.T) {
			bin := program(t, c.is)
			if c.q.Argv == nil {
				c.q = asked(c.q)
			}
			version, err := Check(t.Context(), bin, c.q, cmp.Or(c.time, patience))
			if c.code == "" {
				require.NoError(t, err)
				assert.Equal(t, "v2", version)
				return
			}
			r, ok := errors.AsType[*Refusal](err)
			require.True(t, ok, "%v", err)
			assert.Equal(t, c.code, r.Code)
			assert.Contains(t, r.Error(), c.text)
			assert.Contains(t, r.Error(), bin.Path)
			assert.Less(t, len(r.Error()), 2000)
			assert.NotContains(t, r.Error(), "\x1b")
			assert.NotContains(t, r.Error(), "\n")
		})
	}
}

// TestCheckGarbage is what no system runs.
func TestCheckGarbage(t *testing.T) {
	path := filepath.Join(ownDir(t), "program")
	require.NoError(t, os.WriteFile(path, []byte("\x7fELF and no more"), 0o700))
	_, err := Check(t.Context(), &binary{Path: path, Resolved: path}, asked(Question{}), patience)
	r, ok := errors.AsType[*Refusal](err)
	require.True(t, ok, "%v", err)
	assert.Equal(t, CodeCheck, r.Code)
	assert.Contains(t, r.Error(), "exec format error")
}

// TestCheckKillsAll: what the child has started dies with it, and the answer does not wait for it.
func TestCheckKillsAll(t *testing.T) {
	b := program(t, behaviour{Orphan: true})
	_, err := Check(t.Context(), b, asked(Question{}), patience)
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
	_, err := Check(ctx, b, asked(Question{}), time.Hour)
	r, ok := errors.AsType[*Refusal](err)
	require.True(t, ok, "%v", err)
	assert.Equal(t, CodeStopping, r.Code)
}

func TestAnswerRefuses(t *testing.T) {
	good := Question{Manifest: manifestVersion, Nonce: "n", Argv: []string{"d"}}
	for _, c := range []struct {
		name string
		in   func(q *Question)
		raw  string
		want string
	}{
		{"nothing", nil, "", "no question was asked"},
		{"no JSON", nil, "x", "invalid character"},
		{"cut", nil, "{", "unexpected EOF"},
		{"no nonce", func(q *Question) { q.Nonce = "" }, "", "no question was asked"},
		{"another manifest", func(q *Question) { q.Manifest = 1 }, "", "version 1 of the manifest, this program reads version 3: stop and start it"},
		{"no argv", func(q *Question) { q.Argv = nil }, "", "no command line"},
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
			err := Answer(strings.NewReader(raw), &out, "v2", func(*Question) error { return nil })
			require.ErrorContains(t, err, c.want)
			assert.Empty(t, out.String())
		})
	}
}

// FuzzAnswer: whatever comes, check mode ends with an answer to the question or an error.
func FuzzAnswer(f *testing.F) {
	for _, seed := range []string{
		`{"manifest":3,"nonce":"n","argv":["d","/s"],"state":"e30="}`, `{"manifest":1,"nonce":"n"}`, `{}`, `null`, `[`, ``,
		`{"manifest":3,"nonce":"n","argv":[""],"posixly_correct":true,"state":"x"}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		var out strings.Builder
		asked := false
		err := Answer(strings.NewReader(string(in)), &out, "v2", func(q *Question) error {
			asked = len(q.Argv) > 0
			return nil
		})
		if (err == nil) != (out.Len() > 0) || err == nil && !asked {
			t.Errorf("%q: %v, %q", in, err, out.String())
		}
	})
}
