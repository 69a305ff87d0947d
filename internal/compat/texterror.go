// SPDX-License-Identifier: Apache-2.0

package compat

import (
	"context"
	"errors"
	"log/slog"
	"strings"

	"github.com/socket-vmnet2/socket_vmnet2/internal/compat/errtext"
)

// A textError is a failure to start that socket_vmnet words exactly so. Programs around it match on the lines.
type textError struct {
	Lines []string // what is logged, without the level
	Err   error    // the cause, may be nil
}

// Error is all lines in one.
func (e *textError) Error() string { return strings.Join(e.Lines, "; ") }

// Unwrap is the cause.
func (e *textError) Unwrap() error { return e.Err }

// newTextError makes the line "what: <strerror>".
func newTextError(what string, err error) *textError {
	return &textError{Lines: []string{what + ": " + errtext.Of(err)}, Err: err}
}

// LogError logs err at level Error: a textError as its lines, anything else as one line with C's errno text.
func LogError(log *slog.Logger, err error) {
	lines := []string{errtext.Message(err)}
	if te, ok := errors.AsType[*textError](err); ok {
		lines = te.Lines
	}
	for _, l := range lines {
		log.LogAttrs(context.Background(), slog.LevelError, l)
	}
}

// Strerror is C's text for the errno in err, such as "Address already in use".
func Strerror(err error) string { return errtext.Of(err) }
