// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/socket-vmnet2/socket_vmnet2/internal/compat"
	"github.com/socket-vmnet2/socket_vmnet2/internal/daemon/control"
	"github.com/socket-vmnet2/socket_vmnet2/internal/ops/find"
	"github.com/socket-vmnet2/socket_vmnet2/internal/printable"
	"github.com/socket-vmnet2/socket_vmnet2/internal/status"
)

// upgradeTime is how long an upgrade may take: vmnet takes seconds at times to start a network again.
var upgradeTime = 60 * time.Second

func upgradeCommand(env compat.IO) *cli.Command {
	return &cli.Command{
		Name: "upgrade",
		Usage: `Has the daemon at SOCKET go on as the program that is now installed at the path it was started from: the same process, and
no client is disconnected. The new program is tried first, and the daemon goes on as it is if that fails. It needs to be
called by root or the daemon's user.`,
		ArgsUsage: "[SOCKET]",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "gateway", Usage: "start the embedded network's gateway anew as well, which ends the guests' connections to the outside"},
			&cli.BoolFlag{Name: "json", Usage: "print the daemon's answer, a line of JSON, instead of text"},
		},
		Description: `SOCKET may be left out where one daemon alone runs. It may also be the directory that was given to the daemon with --runtime-dir.

Exit code: 0 the daemon is the new program, 1 it is not, or does not tell`,
		Action: func(c *cli.Context) error { return upgradeAction(c, env) },
	}
}

// upgradeAction does what a command line of known options asks for.
func upgradeAction(c *cli.Context, env compat.IO) error {
	d, err := theDaemon(c.Args().Slice())
	if err != nil {
		return err
	}
	what := "/v1/upgrade"
	if c.Bool("gateway") {
		what += "/gateway"
	}
	answer, err := askWithin(c.Context, upgradeTime, d, http.MethodPost, what, nil)
	if c.Bool("json") && answer != nil {
		_, _ = fmt.Fprintf(env.Stdout, "%s\n", strings.TrimSpace(string(answer)))
	}
	if err != nil {
		return fmt.Errorf("not upgraded: %w", err)
	}
	var r control.Upgraded
	if err := json.Unmarshal(answer, &r); err != nil {
		return fmt.Errorf("%s: the daemon answers something else: %w", nameOf(d), err)
	}
	if !c.Bool("json") {
		_, err = io.WriteString(env.Stdout, upgradeReport(r, clientNames(c.Context, d)))
	}
	return err
}

// mostNames bounds the clients that a report names.
const mostNames = 8

// clientNames are the names of d's clients; none if it does not tell.
func clientNames(ctx context.Context, d find.Daemon) (names []string) {
	l := (&viewer{}).look(ctx, d)
	for i := 0; l.err == nil && i < len(l.status.Clients); i++ {
		if name := l.status.Clients[i].Called(); name != "" {
			names = append(names, status.Clean(name))
		}
	}
	if more := len(names) - mostNames; more > 0 {
		names = append(names[:mostNames], fmt.Sprintf("%d more", more))
	}
	return names
}

// upgradeReport tells a person what happened. names are those of clients.
func upgradeReport(r control.Upgraded, names []string) string {
	var b strings.Builder
	if r.From == r.To {
		fmt.Fprintf(&b, "no new version is installed: started again as %s", r.To)
	} else {
		fmt.Fprintf(&b, "upgraded from %s to %s", r.From, r.To)
	}
	fmt.Fprintf(&b, " (process %d): no frame for %s ms, ", r.PID, strconv.FormatFloat(r.Gap, 'f', -1, 64))
	sum, kinds := 0, []string{}
	for _, kind := range slices.Sorted(maps.Keys(r.Clients)) {
		if n := r.Clients[kind]; n > 0 {
			sum += n
			kinds = append(kinds, fmt.Sprintf("%s: %d", kind, n))
		}
	}
	if sum == 0 {
		b.WriteString("there were no clients\n")
	} else {
		fmt.Fprintf(&b, "%s kept (%s)%s\n", printable.Count(sum, "client"), strings.Join(kinds, ", "), printable.Behind(": ", strings.Join(names, ", ")))
	}
	for _, n := range r.Notes {
		fmt.Fprintln(&b, n)
	}
	return printable.Lines(b.String())
}
