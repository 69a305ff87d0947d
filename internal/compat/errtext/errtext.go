// SPDX-License-Identifier: Apache-2.0

// Package errtext renders errno values as C's strerror does. Programs around socket_vmnet match on texts such as
// "Address already in use", and Go spells the same text with a small letter.
package errtext

import (
	"errors"
	"strings"
	"syscall"
)

// Of returns what C's strerror says of the errno inside err: "Permission denied". An error without an errno is returned as
// Go words it, and nil as the empty string.
func Of(err error) string {
	if err == nil {
		return ""
	}
	var no syscall.Errno
	if !errors.As(err, &no) {
		return err.Error()
	}
	return ofErrno(no)
}

// Message returns err's whole text, with an errno at its end worded as in C: "open /x: Permission denied".
func Message(err error) string {
	if err == nil {
		return ""
	}
	s := err.Error()
	var no syscall.Errno
	if !errors.As(err, &no) {
		return s
	}
	if head, ok := strings.CutSuffix(s, no.Error()); ok {
		return head + ofErrno(no)
	}
	return s
}

// ofErrno turns Go's text back into the system's: Go's tables were made from strerror with the first letter put in lower
// case where the second one is, so raising it restores the original. A number that Go does not know has no text of C's either, but for a
// few that no call here returns.
func ofErrno(no syscall.Errno) string {
	s := no.Error()
	return strings.ToUpper(s[:1]) + s[1:]
}
