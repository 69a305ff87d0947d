// SPDX-License-Identifier: Apache-2.0

package upgrade

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/socket-vmnet2/socket_vmnet2/internal/daemon/handover"
)

// Steps are what an upgrade does, in order. All but Log must be there.
type Steps struct {
	// Find returns the new program, if it can be trusted.
	Find func() (*Binary, error)
	// Check tries it and returns its version.
	Check func(ctx context.Context, b *Binary) (version string, err error)
	// Detach ends everything that serves: after it no frame is read or delivered and nothing changes. It may have done half
	// of that when it fails.
	Detach func(ctx context.Context) error
	// Save writes what the new image needs, and lists the descriptors.
	Save func(o *handover.Out) error
	// Exec becomes the new program. It returns only with an error.
	Exec func(o *handover.Out, b *Binary) error
	// Attach has this image serve again, however far Detach came.
	Attach func()

	Log *slog.Logger
}

// Run replaces the program. It returns only if that did not happen: a *Refusal says why, and everything goes on as before.
// from is the version of this image. Once ctx is done, no step is begun.
func Run(ctx context.Context, from string, s Steps) error {
	log := s.Log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	to, err := s.run(ctx, from, log)
	if err == nil {
		err = errors.New("exec returned") // which it does only with an error
	}
	r := asRefusal(ctx, err)
	log.Warn("no upgrade: this image goes on", "from", from, "to", to, "reason", r.Text)
	return r
}

// run takes the steps.
func (s *Steps) run(ctx context.Context, from string, log *slog.Logger) (to string, err error) {
	if err := ctx.Err(); err != nil {
		return "", err
	}
	b, err := s.Find()
	if err != nil {
		return "", err
	}
	if to, err = s.Check(ctx, b); err != nil {
		return "", err
	}
	if err := ctx.Err(); err != nil {
		return to, err
	}
	log.Info("upgrading", "from", from, "to", to, "path", b.Path)
	o := &handover.Out{From: from}
	o.Watch()
	defer o.Unwatch()
	defer s.Attach()
	if err := s.Detach(ctx); err != nil {
		return to, fmt.Errorf("detach: %w", err)
	}
	if err := ctx.Err(); err != nil {
		return to, err
	}
	if err := s.Save(o); err != nil {
		return to, fmt.Errorf("save: %w", err)
	}
	return to, s.Exec(o, b)
}

// asRefusal says err to the caller.
func asRefusal(ctx context.Context, err error) *Refusal {
	if r, ok := errors.AsType[*Refusal](err); ok {
		return r
	}
	if ctx.Err() != nil || errors.Is(err, handover.ErrStopping) {
		return refusef(CodeStopping, "the daemon is being stopped")
	}
	return refusef(CodeFailed, "the upgrade failed, and the daemon goes on as it was: %w", err)
}
