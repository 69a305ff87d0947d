// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"errors"
	"fmt"
)

// A Code tells why the daemon refused a request. It is an error itself, so that errors.Is(err, attach.ErrFull) works on
// what Dial and Adopt return.
type Code string

// The codes of version 1 of the protocol. A later daemon may send others.
const (
	// ErrBadRequest: a value of the request is not valid; the text tells which. Asking again is no use.
	ErrBadRequest Code = "bad-request"
	// ErrUnsupportedVersion: the daemon is older than this package. Update it.
	ErrUnsupportedVersion Code = "unsupported-version"
	// ErrTooLong: the request does not fit into 4,096 bytes.
	ErrTooLong Code = "too-long"
	// ErrBadDescriptor: what Adopt handed over is no unix socket of the transport, or neither connected nor bound.
	ErrBadDescriptor Code = "bad-descriptor"
	// ErrIDInUse: another client has this interface id.
	ErrIDInUse Code = "id-in-use"
	// ErrFull: the daemon has as many clients as it takes (--max-clients). Later may work.
	ErrFull Code = "full"
	// ErrStopping: the daemon is about to end. It was asked again for a while, since a daemon that becomes another version of itself
	// says the same.
	ErrStopping Code = "stopping"
	// ErrNoNetwork: the client's interface could not be started; the text has the system's reason.
	ErrNoNetwork Code = "no-network"
	// ErrDenied: this user may not have this.
	ErrDenied Code = "denied"
	// ErrInternal: the daemon's own fault; its log tells more.
	ErrInternal Code = "internal"
)

// Error returns the code in the protocol's words.
func (c Code) Error() string { return string(c) }

// ErrEnded is what Wait returns when the daemon ended the session: it was stopped or restarted. errors.Is finds it in ErrKicked
// as well.
var ErrEnded = errors.New("attach: the daemon ended the session")

// ErrKicked is the ErrEnded of a daemon that runs on: this session alone was ended, by "socket_vmnet2 kick", since its
// machine closed its end, or since the link failed. A user who kicks a client wants it gone: connect again only if asked to.
var ErrKicked = fmt.Errorf("%w, and runs on: this client was kicked, or its machine has gone", ErrEnded)

// An Error is what the daemon answered in place of a link. errors.Is finds its Code.
type Error struct {
	Code Code
	Text string // in the daemon's words
	Path string // of the socket that was asked
}

// Error returns the path, the code and the daemon's text.
func (e *Error) Error() string {
	return fmt.Sprintf("attach: %s: %s: %s", e.Path, e.Code, e.Text)
}

// Unwrap returns the code.
func (e *Error) Unwrap() error { return e.Code }

// wrap adds the socket's path to an error of its exchange.
func wrap(path string, err error) error {
	var e *Error
	if errors.As(err, &e) {
		e.Path = path
		return e
	}
	return fmt.Errorf("attach: %s: %w", path, err)
}
