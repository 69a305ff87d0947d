// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/socket-vmnet2/socket_vmnet2/internal/compat"
	"github.com/socket-vmnet2/socket_vmnet2/internal/perclient/capture"
	"github.com/socket-vmnet2/socket_vmnet2/internal/printable"
)

func captureCommand(env compat.IO) *cli.Command {
	var q capture.Request
	return &cli.Command{
		Name: "capture",
		Usage: `Shows the frames of a running daemon's clients, or writes them in the format pcapng, which Wireshark, tshark and tcpdump read.
The clients notice nothing: frames that cannot be kept are left out and counted. It needs to be called by root or the
daemon's user, and goes on until it is interrupted.`,
		ArgsUsage: "[FILTER]... [SOCKET]",
		Flags: []cli.Flag{
			&cli.StringSliceFlag{Name: "client", Usage: "`CLIENT` of this client only: its number, name, Ethernet or IP address, as socket_vmnet2 clients shows them. May be given several times. Otherwise it is all clients, also those that connect later"},
			&cli.StringFlag{Name: "write", Aliases: []string{"w"}, Usage: "`FILE` write pcapng to FILE, which must not exist; - is the standard output, also for a FIFO or a device. Otherwise print a line for each frame"},
			compat.Checked("snaplen", "`N` keep the first N bytes of each frame, from 14 to 69632 (default: all)", func(v string) (err error) {
				if q.SnapLen, err = strconv.Atoi(v); err != nil || q.SnapLen < capture.MinSnapLen || q.SnapLen > capture.MaxSnapLen {
					return fmt.Errorf("invalid --snaplen=%s: use a number from %d to %d", printable.Lines(v), capture.MinSnapLen, capture.MaxSnapLen)
				}
				return nil
			}, "s"),
			compat.Checked("count", "`N` end after N frames", func(v string) (err error) {
				if q.Count, err = strconv.ParseUint(v, 10, 64); err != nil || q.Count == 0 {
					return fmt.Errorf("invalid --count=%s: use a number from 1 on", printable.Lines(v))
				}
				return nil
			}, "c"),
		},
		Description: `FILTER is in the syntax of tcpdump, see pcap-filter(7). tcpdump compiles it; without it only simple filters are understood.
"capture -w - | tcpdump -nr -" tells more of each frame. Each client is an interface in the file. A frame that one client
sends to another is there twice, once at each.

SOCKET has a slash in it, or is a socket or directory that is there. It may be left out where one daemon alone runs.

Exit code: 0 it was interrupted, the reader has gone or the count is reached, 1 anything else, with what was captured in FILE`,
		Action: func(c *cli.Context) error { return captureAction(c, q, env) },
	}
}

// captureEnd is how long the end of a capture waits for what the daemon still has.
const captureEnd = 3 * time.Second

// captureAction does what a command line of known options asks for. FILE is made when the daemon captures.
func captureAction(c *cli.Context, q capture.Request, env compat.IO) (err error) {
	switch file := c.String("write"); {
	case c.IsSet("write") && file == "":
		return errUsage{errors.New("--write has no FILE")}
	case file == "-" && screenOf(env).fd >= 0:
		return errUsage{errors.New("standard output is a terminal, which cannot show pcapng: have another program read it, or leave --write out")}
	}
	ctx, stop := signal.NotifyContext(c.Context, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	words, socket := splitSocket(c.Args().Slice())
	if q.Filter, err = captureFilter(ctx, words); err != nil {
		return err
	}
	d, err := theDaemon(socket)
	if err != nil {
		return err
	}
	clients, err := chooseAll(ctx, d, c.StringSlice("client"))
	if err != nil {
		return err
	}
	for _, client := range clients {
		q.Clients = append(q.Clients, client.ID)
	}
	s, err := startCapture(ctx, d, q)
	if err != nil {
		return err
	}
	out, err := openCapture(c.String("write"), env.Stdout)
	if err != nil {
		s.close()
		return err
	}
	return follow(ctx, nameOf(d), s, out, env.Stderr)
}

// captureFilter is the program that the operands ask for.
func captureFilter(ctx context.Context, words []string) ([]capture.Instruction, error) {
	f, err := capture.Compile(ctx, strings.Join(words, " "), capture.Tcpdump)
	if err != nil {
		return nil, errors.New(printable.Lines(err.Error()))
	}
	return f, nil
}

// follow writes what comes from the daemon called name until it ends, or ctx is done, and tells how much it was.
func follow(ctx context.Context, name string, s *captureStream, out *captureOutput, said io.Writer) error {
	_, _ = fmt.Fprintf(said, "capturing at %s; interrupt to end\n", name)
	defer s.close()
	defer context.AfterFunc(ctx, s.end)()
	counts, err := out.copy(s.resp.Body)
	err = out.finish(counts, err)
	frames := printable.Count(int(counts.Frames), "frame")
	var werr *capture.WriteError
	switch {
	case errors.As(err, &werr) && errors.Is(err, syscall.EPIPE):
		return nil // its reader has seen enough
	case errors.As(err, &werr):
		return fmt.Errorf("%w: the capture ended, with %s in it", werr.Err, frames)
	}
	dropped, reason := s.result()
	_, _ = fmt.Fprintf(said, "%s captured, %s dropped\n", frames, cmp.Or(dropped, "an unknown number"))
	switch {
	case ctx.Err() != nil, err == nil && reason == capture.ErrCount.Error():
		return nil
	case reason != "":
		return errors.New("the capture ended: " + reason)
	case err == nil || errors.Is(err, io.ErrUnexpectedEOF):
		return errors.New("the capture ended: the daemon ended the connection: see its log, and whether it runs")
	}
	return err
}
