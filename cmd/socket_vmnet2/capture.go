// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/socket-vmnet2/socket_vmnet2/internal/compat"
	"github.com/socket-vmnet2/socket_vmnet2/internal/daemon/control"
	"github.com/socket-vmnet2/socket_vmnet2/internal/ops/find"
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
	if q.Filter, err = capture.Compile(ctx, strings.Join(words, " "), capture.Tcpdump); err != nil {
		return errors.New(printable.Lines(err.Error()))
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

// A captureStream is a capture as it comes from the daemon.
type captureStream struct {
	conn *net.UnixConn
	resp *http.Response
}

// startCapture asks for one, which goes on when ctx is done. Errors are in words for the user.
func startCapture(ctx context.Context, d find.Daemon, q capture.Request) (*captureStream, error) {
	const what = "/v1/capture"
	asking, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	defer context.AfterFunc(ctx, func() { cancel(ctx.Err()) })()
	late := time.AfterFunc(askTime, func() { cancel(fmt.Errorf("no answer within %v", askTime)) })
	defer late.Stop()
	resp, conn, err := control.Open(asking, d.Control, http.MethodPost, what, q)
	if asking.Err() != nil {
		err = context.Cause(asking)
	}
	if err != nil {
		return nil, explainAnswer(d, what, 0, err)
	}
	if resp.StatusCode != http.StatusOK {
		defer resp.Body.Close()
		_, err = control.ReadAnswer(d.Control, resp)
		return nil, explainAnswer(d, what, resp.StatusCode, err)
	}
	return &captureStream{conn: conn.(*net.UnixConn), resp: resp}, nil
}

// end has the daemon send what it still has. If that takes too long it is left.
func (s *captureStream) end() {
	_ = s.conn.SetReadDeadline(time.Now().Add(captureEnd))
	_ = s.conn.CloseWrite()
}

func (s *captureStream) close() { _ = s.resp.Body.Close() }

// result is what the daemon says at the end of the stream: how many frames were dropped, and why it ended. Both are empty if the stream
// was cut.
func (s *captureStream) result() (dropped, reason string) {
	return printable.Lines(s.resp.Trailer.Get(capture.TrailerDropped)), printable.Lines(s.resp.Trailer.Get(capture.TrailerReason))
}

// A captureOutput is where a capture goes: a file, standard output, or lines on that.
type captureOutput struct {
	w     io.Writer
	lines bool
	file  *os.File // nil: none of ours
}

// openCapture makes FILE, in a way that a link, or another user that may write in its directory, leads to no other file.
func openCapture(path string, stdout io.Writer) (*captureOutput, error) {
	if path == "" || path == "-" {
		return &captureOutput{w: stdout, lines: path == ""}, nil
	}
	name := printable.Lines(path)
	fi, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err == nil && !fi.Mode().IsRegular():
		return nil, fmt.Errorf("write the capture: %s is not a file: have a FIFO or a device written to by the shell, with --write=- >", name)
	case err == nil:
		return nil, fmt.Errorf("write the capture: %s exists: choose another name, or remove it", name)
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, fmt.Errorf("write the capture: %w", err)
	}
	return &captureOutput{w: f, file: f}, nil
}

// copy writes what r has.
func (o *captureOutput) copy(r io.Reader) (capture.Counts, error) {
	if o.lines {
		return capture.Lines(o.w, r, time.Local)
	}
	return capture.Copy(o.w, r)
}

// finish closes a file, which ends with a whole block whatever happened. It returns err, or what went wrong here.
func (o *captureOutput) finish(c capture.Counts, err error) error {
	if o.file == nil {
		return err
	}
	if errors.As(err, new(*capture.WriteError)) {
		if terr := o.file.Truncate(c.Bytes); terr != nil {
			err = errors.Join(err, terr)
		}
	}
	if cerr := o.file.Close(); cerr != nil && err == nil {
		err = &capture.WriteError{Err: cerr}
	}
	return err
}
