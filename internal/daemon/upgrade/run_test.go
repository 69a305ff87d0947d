// SPDX-License-Identifier: Apache-2.0

package upgrade

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/socket-vmnet2/socket_vmnet2/internal/daemon/handover"
)

// script are steps that note their names, and what one of them does instead.
type script struct {
	done   []string
	fail   map[string]error
	cancel func()
	at     string // the step at which cancel is called
}

func (s *script) step(name string) error {
	s.done = append(s.done, name)
	if name == s.at {
		s.cancel()
	}
	return s.fail[name]
}

func (s *script) steps(log *slog.Logger) Steps {
	return Steps{
		Find:   func() (*Binary, error) { return &Binary{Path: "/p"}, s.step("find") },
		Check:  func(context.Context, *Binary) (string, error) { return "v2", s.step("check") },
		Detach: func(context.Context) error { return s.step("detach") },
		Save:   func(*handover.Out) error { return s.step("save") },
		Exec:   func(*handover.Out, *Binary) error { return s.step("exec") },
		Attach: func() { _ = s.step("attach") },
		Log:    log,
	}
}

// TestRun fails at each step.
func TestRun(t *testing.T) {
	broken := errors.New("it is broken")
	for _, c := range []struct {
		name string
		fail string
		err  error
		at   string // where the daemon is stopped
		done []string
		code code
		text string
	}{
		{"untrusted", "find", refuse(codeUntrusted, broken), "", []string{"find"}, codeUntrusted, "it is broken"},
		{"cannot look", "find", broken, "", []string{"find"}, CodeFailed, "the upgrade failed, and the daemon goes on as it was: it is broken"},
		{"check", "check", refuse(CodeCheck, broken), "", []string{"find", "check"}, CodeCheck, "it is broken"},
		{"detach", "detach", broken, "", []string{"find", "check", "detach", "attach"}, CodeFailed, "as it was: detach: it is broken"},
		{"save", "save", broken, "", []string{"find", "check", "detach", "save", "attach"}, CodeFailed, "as it was: save: it is broken"},
		{"exec", "exec", broken, "", []string{"find", "check", "detach", "save", "exec", "attach"}, CodeFailed, "as it was: it is broken"},
		{"exec returns", "", nil, "", []string{"find", "check", "detach", "save", "exec", "attach"}, CodeFailed, "exec returned"},
		{"replaced meanwhile", "exec", refuse(codeUnusable, broken), "", []string{"find", "check", "detach", "save", "exec", "attach"}, codeUnusable, "it is broken"},
		{"signal at exec", "exec", handover.ErrStopping, "", []string{"find", "check", "detach", "save", "exec", "attach"}, CodeStopping, "the daemon is being stopped"},
		{"stopped in check", "", nil, "check", []string{"find", "check"}, CodeStopping, "the daemon is being stopped"},
		{"stopped in detach", "", nil, "detach", []string{"find", "check", "detach", "attach"}, CodeStopping, "the daemon is being stopped"},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			s := &script{fail: map[string]error{c.fail: c.err}, cancel: cancel, at: c.at}
			var log bytes.Buffer
			err := Run(ctx, "v1", s.steps(slog.New(slog.NewTextHandler(&log, nil))))
			r, ok := errors.AsType[*Refusal](err)
			require.True(t, ok)
			assert.Equal(t, c.done, s.done)
			assert.Equal(t, c.code, r.Code)
			assert.Contains(t, r.Text, c.text)
			assert.Equal(t, 1, bytes.Count(log.Bytes(), []byte("no upgrade: this image goes on")))
			if c.err != nil {
				require.ErrorIs(t, r, errors.Unwrap(r))
			}
		})
	}
	t.Run("stopped before", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		s := &script{}
		require.Error(t, Run(ctx, "v1", s.steps(nil)))
		assert.Empty(t, s.done)
	})
}

// TestRunExec goes as far as a real exec, which a stop signal during the steps prevents.
func TestRunExec(t *testing.T) {
	came := make(chan os.Signal, 1)
	signal.Notify(came, syscall.SIGTERM)
	defer signal.Stop(came)
	s := &script{}
	steps := s.steps(nil)
	steps.Exec = func(o *handover.Out, _ *Binary) error {
		return handover.Exec(o, "/nowhere", []string{"x"}, nil)
	}
	r, ok := errors.AsType[*Refusal](Run(t.Context(), "v1", steps))
	require.True(t, ok)
	assert.Equal(t, CodeFailed, r.Code)
	assert.Contains(t, r.Text, "exec /nowhere: no such file or directory")
	steps.Detach = func(context.Context) error {
		require.NoError(t, syscall.Kill(os.Getpid(), syscall.SIGTERM))
		<-came // it has come, and nobody has acted on it yet
		return nil
	}
	r, ok = errors.AsType[*Refusal](Run(t.Context(), "v1", steps))
	require.True(t, ok)
	assert.Equal(t, CodeStopping, r.Code)
}
