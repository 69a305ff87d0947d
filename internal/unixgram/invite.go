// SPDX-License-Identifier: Apache-2.0

package unixgram

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// Invite serves the client at path before it says a word: it may have been one of an earlier process, and its guest may have
// nothing to say for long. The path is checked as if a datagram had come. One that has connected its socket to the earlier
// process's is none any more, and an address that has a client already is left alone. It may be called before Run, and may take as
// long as a look at the path does.
func (s *Server) Invite(path string) error {
	s.mu.Lock()
	_, there := s.clients[path]
	s.mu.Unlock()
	if there {
		return nil
	}
	t, err := s.look.check(s.opts.Trust, path)
	if err != nil {
		return err
	}
	defer t.close()
	conn, err := t.connect()
	if errors.Is(err, unix.EPERM) {
		return fmt.Errorf("client %q is connected to a socket that is gone: start it again", path)
	}
	if err != nil {
		return unreachable(path, err)
	}
	_ = conn.Close()
	_, err = s.admit(path, sender{uid: t.uid, known: true}, s.current())
	return err
}
