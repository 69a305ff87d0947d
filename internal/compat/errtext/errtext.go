// SPDX-License-Identifier: Apache-2.0

// Package errtext renders errno values as C's strerror does. Programs around socket_vmnet match on texts such as
// "Address already in use", and Go spells the same text with a small letter.
package errtext

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"syscall"
	"unicode/utf8"
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

// ofErrno turns Go's text back into the system's. Go's tables were made from strerror with the first letter put in lower
// case where the second one is, so raising it restores the original; differs holds the texts that have changed since.
func ofErrno(no syscall.Errno) string {
	if s, ok := differs[no]; ok {
		return s
	}
	s := no.Error()
	if no == 0 || strings.HasPrefix(s, "errno ") {
		return unknown(no)
	}
	r, n := utf8.DecodeRuneInString(s)
	return strings.ToUpper(string(r)) + s[n:]
}

// unknown words a number that has no text.
func unknown(no syscall.Errno) string {
	if runtime.GOOS == "linux" {
		if no == 0 {
			return "Success"
		}
		return fmt.Sprintf("Unknown error %d", int(no))
	}
	if no == 0 {
		return "Undefined error: 0"
	}
	return fmt.Sprintf("Unknown error: %d", int(no))
}
