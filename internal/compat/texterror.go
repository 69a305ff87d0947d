// SPDX-License-Identifier: Apache-2.0

package compat

import (
	"context"
	"errors"
	"log/slog"
	"strings"

	"github.com/socket-vmnet2/socket_vmnet2/internal/compat/errtext"
)

// A TextError is a failure to start that socket_vmnet words exactly so. Programs around it match on the lines.
type TextError struct {
	Lines []string // what is logged, without the level
	Err   error    // the cause, may be nil
}

// Error is all lines in one.
func (e *TextError) Error() string { return strings.Join(e.Lines, "; ") }

// Unwrap is the cause.
func (e *TextError) Unwrap() error { return e.Err }

// textError makes the line "what: <strerror>".
func textError(what string, err error) *TextError {
	return &TextError{Lines: []string{what + ": " + errtext.Of(err)}, Err: err}
}

// LogError logs err at level Error: a TextError as its lines, anything else as one line with C's errno text.
func LogError(log *slog.Logger, err error) {
	lines := []string{errtext.Message(err)}
	if te, ok := errors.AsType[*TextError](err); ok {
		lines = te.Lines
	}
	for _, l := range lines {
		log.LogAttrs(context.Background(), slog.LevelError, l)
	}
}

// Strerror is C's text for the errno in err, such as "Address already in use".
func Strerror(err error) string { return errtext.Of(err) }
