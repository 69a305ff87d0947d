// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"

	"github.com/socket-vmnet2/socket_vmnet2/internal/compat"
	"github.com/socket-vmnet2/socket_vmnet2/internal/handoff"
	"github.com/socket-vmnet2/socket_vmnet2/internal/state"
	"github.com/socket-vmnet2/socket_vmnet2/internal/upgrade"
)

// Check is check mode, if argv asks for that: a running daemon wants to know, on in, whether this program can take over. It starts
// nothing and changes nothing.
func Check(argv []string, in io.Reader, env compat.IO) (code int, ran bool) {
	if len(argv) != 2 || compat.PersonalityOf(argv[0]) != compat.New || argv[1] != upgrade.CheckArgument {
		return 0, false
	}
	check := func(argv []string, posixly bool) error { return checkArgv(argv, posixly, env.Commands) }
	if err := upgrade.Answer(in, env.Stdout, upgrade.Checks{Version: compat.Version, Argv: check, State: state.Check}); err != nil {
		_, _ = fmt.Fprintln(env.Stderr, err)
		return 1, true
	}
	return 0, true
}

// checkArgv tells whether this program, which has these commands, could be started as a daemon with argv. It asks all that is asked
// before anything is touched.
func checkArgv(argv []string, posixly bool, commands []string) error {
	var said bytes.Buffer
	cfg, _ := compat.Parse(compat.PersonalityOf(argv[0]), argv, compat.IO{
		Stdout: io.Discard, Stderr: &said,
		LookupEnv: func(key string) (string, bool) { return "", posixly && key == "POSIXLY_CORRECT" }, Commands: commands,
	})
	switch {
	case cfg == nil && said.Len() > 0:
		return errors.New(strings.TrimPrefix(strings.TrimSpace(said.String()), "ERROR| "))
	case cfg == nil || cfg.ListInterfaces:
		return errors.New("it starts no daemon")
	}
	if _, err := cfg.Owner(); err != nil {
		return err
	}
	_, err := prepareNetwork(cfg, slog.New(slog.DiscardHandler))
	return err
}

// upgradeSteps are those parts of an upgrade that do not touch the daemon: start is the path it was started from, argv its
// command line. kept is its state, which may be nil.
func upgradeSteps(start string, argv []string, kept *state.File, log *slog.Logger) upgrade.Steps {
	return upgrade.Steps{
		Find: func() (*upgrade.Binary, error) { return upgrade.Find(start) },
		Check: func(ctx context.Context, b *upgrade.Binary) (string, error) {
			o := upgrade.CheckOptions{Argv: argv}
			_, o.POSIXLY = os.LookupEnv("POSIXLY_CORRECT")
			if kept != nil {
				content, err := kept.Content()
				if err != nil {
					return "", err
				}
				o.State = content
			}
			return upgrade.Check(ctx, b, o)
		},
		Exec: func(o *handoff.Out, b *upgrade.Binary) error {
			if err := b.Same(); err != nil {
				return err
			}
			defer endUnlessReplaced(log)()
			return handoff.Exec(o, b.Resolved, argv, os.Environ())
		},
	}
}
