// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/socket-vmnet2/socket_vmnet2/internal/compat"
	"github.com/socket-vmnet2/socket_vmnet2/internal/daemon/control"
	"github.com/socket-vmnet2/socket_vmnet2/internal/printable"
	"github.com/socket-vmnet2/socket_vmnet2/internal/status"
)

func logLevelCommand(env compat.IO) *cli.Command {
	return &cli.Command{
		Name: "log-level",
		Usage: `Tells how much the daemon at SOCKET writes to its log, or changes that while it runs. LEVEL is debug, info, warn or error. It
lasts until the daemon ends; an upgrade in place keeps it. To change it needs root or the daemon's user.`,
		ArgsUsage: "[LEVEL] [SOCKET]",
		Description: `SOCKET may be left out where one daemon alone runs. It may also be the directory that was given to the daemon with --runtime-dir.

Exit code: 0 done, 1 not done`,
		Action: func(c *cli.Context) error { return logLevelAction(c, env) },
	}
}

// logLevelAction does what a command line of known options asks for.
func logLevelAction(c *cli.Context, env compat.IO) error {
	words, socket := splitSocket(c.Args().Slice())
	if len(words) > 1 {
		return errUsage{fmt.Errorf("%q is not a SOCKET: that is given by its path, such as ./%[1]s", words[1])}
	}
	d, err := theDaemon(socket)
	if err != nil {
		return err
	}
	method, body := http.MethodGet, any(nil)
	if len(words) > 0 { // the daemon knows which there are
		method, body = http.MethodPut, control.Level{Level: words[0]}
	}
	answer, err := ask(c.Context, d, method, "/v1/log-level", body)
	if err != nil {
		return err
	}
	var l control.Level
	if err := json.Unmarshal(answer, &l); err != nil || l.Level == "" {
		return fmt.Errorf("%s: the daemon answers something else: %s", nameOf(d), printable.Lines(string(answer)))
	}
	_, err = io.WriteString(env.Stdout, status.Clean(l.Level)+"\n")
	return err
}

func logsCommand() *cli.Command {
	return &cli.Command{
		Name: "logs",
		Usage: `Shows the last lines that the daemon at SOCKET has logged: with tail if its log is a file, with journalctl if it is systemd's.
"socket_vmnet2 service status" tells where the log of a service is that does not run.`,
		ArgsUsage: "[SOCKET]",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "lines", Value: "100", Usage: "`N` show this many lines (default: 100)"},
			&cli.BoolFlag{Name: "follow", Usage: "go on with new ones until Ctrl-C"},
		},
		Description: `SOCKET may be left out where one daemon alone runs.

Exit code: that of tail or journalctl; 1 the daemon cannot be asked, or logs to a terminal or a program`,
		Action: logsAction,
	}
}

// logsAction becomes the program that shows the log.
func logsAction(c *cli.Context) error {
	d, err := theDaemon(c.Args().Slice())
	if err != nil {
		return err
	}
	g := (&viewer{}).look(c.Context, d)
	if g.err != nil {
		return g.err
	}
	log, pid := g.status.Daemon.Log, strconv.Itoa(g.status.Daemon.PID)
	follow := map[bool]string{true: "-f", false: "--"}[c.Bool("follow")]
	switch lines := c.String("lines"); {
	case strings.HasPrefix(log, "socket:"):
		_, err = become([]string{"journalctl", "-n", lines, follow, "_PID=" + pid})
	case filepath.IsAbs(log) && !strings.HasPrefix(log, "/dev/"):
		_, err = become([]string{"tail", "-n", lines, strings.ToUpper(follow), log})
	default:
		err = fmt.Errorf("%s: the log of process %s goes to %s: look there", nameOf(d), pid, cmp.Or(printable.Lines(log), "a terminal or a program"))
	}
	return err
}
