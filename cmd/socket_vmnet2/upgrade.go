// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/socket-vmnet2/socket_vmnet2/internal/compat"
	"github.com/socket-vmnet2/socket_vmnet2/internal/control"
	passed "github.com/socket-vmnet2/socket_vmnet2/internal/passing/client"
	"github.com/socket-vmnet2/socket_vmnet2/internal/printable"
	"github.com/socket-vmnet2/socket_vmnet2/internal/upgrade"
)

// upgradeTime is how long an upgrade may take: vmnet takes seconds at times to start a network again.
const upgradeTime = 60 * time.Second

// upgradeText is the usage text.
const upgradeText = `Usage: socket_vmnet2 upgrade [--json] [--timeout=DURATION] SOCKET
Has the daemon at SOCKET go on as the program that is now installed at the path it was started from: the same process, and
no client is disconnected. The new program is tried first, and the daemon goes on as it is if that fails. It needs to be
called by root or the daemon's user.

--json                                 print the daemon's answer, a line of JSON, instead of text
--timeout=DURATION                     wait no longer than this for the answer, such as "10s" (default: 1m0s)
-h, --help                             print this text and end

SOCKET may also be the directory that was given to the daemon with --runtime-dir.

Exit code: 0 the daemon is the new program, 1 it is not, or does not tell
`

// runUpgrade is the subcommand: args are what follows its name.
func runUpgrade(args []string, env compat.IO) int {
	return subcommand{
		name:  "upgrade",
		usage: upgradeText,
		flags: []cli.Flag{
			&cli.BoolFlag{Name: "json"},
			&cli.StringFlag{Name: "timeout", Value: upgradeTime.String()},
		},
		action: func(c *cli.Context) (int, error) { return 0, upgradeAction(c, env) },
	}.run(args, env)
}

// upgradeAction does what a command line of known options asks for.
func upgradeAction(c *cli.Context, env compat.IO) error {
	timeout, err := time.ParseDuration(c.String("timeout"))
	if err != nil || timeout <= 0 {
		return errUsage{fmt.Errorf("--timeout=%s is no time, such as 10s", c.String("timeout"))}
	}
	switch args := c.Args().Slice(); {
	case len(args) == 0 || args[0] == "":
		return errUsage{errors.New("no SOCKET")}
	case len(args) > 1 && strings.HasPrefix(args[1], "-"):
		return errUsage{fmt.Errorf("%s is behind SOCKET; options are in front of it", args[1])}
	case len(args) > 1:
		return errUsage{fmt.Errorf("upgrade takes one SOCKET, not %q as well", args[1])}
	}
	socket := c.Args().First()
	ctx, cancel := context.WithTimeoutCause(c.Context, timeout, fmt.Errorf("no answer within %v: see the daemon's log", timeout))
	defer cancel()
	path := passed.Path(socket, "control")
	_, answer, err := control.Ask(ctx, path, http.MethodPost, "/v1/upgrade")
	if c.Bool("json") && answer != nil {
		_, _ = fmt.Fprintf(env.Stdout, "%s\n", strings.TrimSpace(string(answer)))
	}
	if err != nil {
		return explainUpgrade(ctx, err, socket, path)
	}
	var r upgrade.Result
	if err := json.Unmarshal(answer, &r); err != nil {
		return fmt.Errorf("the daemon at %s answers something else: %w", path, err)
	}
	if !c.Bool("json") {
		_, err = io.WriteString(env.Stdout, upgradeReport(r))
	}
	return err
}

// upgradeReport tells a person what happened.
func upgradeReport(r upgrade.Result) string {
	var b strings.Builder
	fmt.Fprintf(&b, "upgraded from %s to %s (process %d): no frame for %s ms, ", r.From, r.To, r.PID, strconv.FormatFloat(r.Gap, 'f', -1, 64))
	sum, kinds := 0, []string{}
	for _, kind := range slices.Sorted(maps.Keys(r.Clients)) {
		if n := r.Clients[kind]; n > 0 {
			sum += n
			kinds = append(kinds, fmt.Sprintf("%s: %d", kind, n))
		}
	}
	switch sum {
	case 0:
		b.WriteString("there were no clients\n")
	case 1:
		fmt.Fprintf(&b, "1 client kept (%s)\n", kinds[0])
	default:
		fmt.Fprintf(&b, "%d clients kept (%s)\n", sum, strings.Join(kinds, ", "))
	}
	for _, n := range r.Notes {
		fmt.Fprintln(&b, n)
	}
	return printable.Lines(b.String())
}

// explainUpgrade words why there was no upgrade, and what to do.
func explainUpgrade(ctx context.Context, err error, socket, path string) error {
	if refusal, ok := errors.AsType[*control.Error](err); ok {
		return errors.New("not upgraded: " + printable.Lines(refusal.Text))
	}
	if ctx.Err() != nil {
		return fmt.Errorf("%s: %w", path, context.Cause(ctx))
	}
	var no syscall.Errno
	if !errors.As(err, &no) { // an end without an answer
		return fmt.Errorf("the daemon ended the connection without an answer: see its log, and whether it runs: %w", err)
	}
	switch no {
	case syscall.ENOENT, syscall.ENOTDIR:
		if _, serr := os.Lstat(socket); errors.Is(serr, fs.ErrNotExist) {
			return fmt.Errorf("no daemon runs at %s; start one, or name the socket of the one that runs: %w", socket, err)
		}
		return fmt.Errorf("the daemon at %s has no control socket, so it cannot be upgraded in place: stop it and start the new one. "+
			"It is older, or --runtime-dir turned the socket off; if it has it elsewhere, name that directory in place of SOCKET: %w", socket, err)
	case syscall.ECONNREFUSED:
		return fmt.Errorf("no daemon listens there any more; start one: %w", err)
	case syscall.EACCES, syscall.EPERM:
		return fmt.Errorf("only root and the daemon's user may upgrade it: use sudo: %w", err)
	case syscall.EINVAL, syscall.ENAMETOOLONG:
		return fmt.Errorf("%s cannot be the path of a socket, see its length: %w", path, err)
	}
	return err
}
