// SPDX-License-Identifier: Apache-2.0

package upgrade

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/socket-vmnet2/socket_vmnet2/internal/daemon/handover"
)

// Checks are what a new program tries in check mode. They change nothing.
type Checks struct {
	Version string                                  // of this program
	Argv    func(argv []string, posixly bool) error // whether a daemon can be started so
	State   func(content []byte) error              // whether the state file can be read
}

var errNoQuestion = errors.New("read what to check: no question was asked; the option is for a daemon that is being upgraded")

// Answer is check mode: it reads the question of the running daemon from in and writes the answer to out. An error means
// that this program cannot take over; the caller says why on stderr and exits with 1.
func Answer(in io.Reader, out io.Writer, c Checks) error {
	b, err := io.ReadAll(io.LimitReader(in, maxQuestion+1))
	if err != nil {
		return describe("read what to check", err)
	}
	if len(b) > maxQuestion {
		return fmt.Errorf("read what to check: more than %d bytes", maxQuestion)
	}
	if len(bytes.TrimSpace(b)) == 0 {
		return errNoQuestion
	}
	var q question
	if err := json.Unmarshal(b, &q); err != nil {
		return describe("read what to check", err)
	}
	switch {
	case q.Nonce == "":
		return errNoQuestion
	case q.Manifest != handover.Version:
		return fmt.Errorf("the running daemon hands over with version %d of the manifest, this program reads version %d: stop and start it",
			q.Manifest, handover.Version)
	case len(q.Argv) == 0:
		return errors.New("read what to check: no command line")
	}
	if err := c.Argv(q.Argv, q.POSIXLY); err != nil {
		return describe("the daemon's command line", err)
	}
	if len(q.State) > 0 {
		if err := c.State(q.State); err != nil {
			return describe("the daemon's state", err)
		}
	}
	return json.NewEncoder(out).Encode(answer{Proof: proof(q.Nonce), Version: c.Version})
}
