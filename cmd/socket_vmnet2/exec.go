// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/socket-vmnet2/socket_vmnet2/internal/compat"
	"github.com/socket-vmnet2/socket_vmnet2/internal/hostfs"
	"github.com/socket-vmnet2/socket_vmnet2/internal/perclient/passfd/proto"
)

// execTime is how long the daemon may take to give a connection: an interface of vmnet takes seconds at times.
const execTime = 30 * time.Second

// An execution is what the command line asks for.
type execution struct {
	socket  string
	command []string
	request proto.Request
	fd      int    // the descriptor's number, or -1 for the usual one
	json    string // file for the reply, empty for none
	log     *slog.Logger
	stdout  io.Writer
}

func execCommand(env compat.IO) *cli.Command {
	x := &execution{fd: -1, stdout: env.Stdout}
	return &cli.Command{
		Name: "exec",
		Usage: `Connects to the network of the daemon at SOCKET and runs COMMAND in the place of this process, with the connection as an
open file descriptor. COMMAND's exit code is the exit code.

In COMMAND and each ARG, {fd} stands for the number of that descriptor, and {mac} for an Ethernet address.`,
		ArgsUsage: "SOCKET -- COMMAND [ARG]...",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "stream", Usage: "a stream socket, each frame with its length in front, as QEMU's -netdev stream and socket have it (default)"},
			&cli.BoolFlag{Name: "dgram", Usage: "a datagram socket, one frame in each, as vfkit, krunkit and QEMU's -netdev dgram have it"},
			compat.Checked("fd", "`N` the descriptor's number (default: 3)", x.setFD),
			compat.Checked("mac", "`ADDRESS` the guest's Ethernet address: {mac}, and told to the daemon (default for {mac}: that of the daemon's interface)", func(v string) (err error) {
				x.request.MAC, err = proto.ParseMAC(v)
				return ofOption("mac", err)
			}),
			compat.Checked("name", "`NAME` what the client is called in the daemon's log", func(v string) error {
				x.request.Name = v
				return ofOption("name", proto.CheckName(v))
			}),
			compat.Checked("interface-id", "`UUID` the identity of the daemon's interface: the same one gets the same address again", func(v string) (err error) {
				x.request.InterfaceID, err = proto.ParseUUID(v)
				return ofOption("interface-id", err)
			}),
			&cli.StringFlag{Name: "json", Usage: "`FILE` write what the daemon tells of the connection to FILE, as a line of JSON; - is stdout", Destination: &x.json},
		},
		Description: `The connection ends with COMMAND: a second descriptor, 4 or the lowest free one from there on, is open in it for that, and
COMMAND need not know of it. SOCKET may also be a directory with a socket named attach (--runtime-dir). Where there is none
such, --stream without --mac, --name, --interface-id and --json connects to SOCKET itself, as socket_vmnet_client does.

If descriptor 3 is taken by a file that the caller passes on, the lowest free one takes its place if COMMAND or an ARG has
{fd}; else that is an error.

Exit code: COMMAND's; 1 there is no connection, or no such option; 126 COMMAND cannot be run; 127 there is no COMMAND`,
		Action: coded(x.action, env),
	}
}

// action returns only if the command could not be started.
func (x *execution) action(c *cli.Context, env compat.IO) (int, error) {
	level := slog.LevelWarn
	if _, debug := env.LookupEnv("DEBUG"); debug {
		level = slog.LevelDebug
	}
	x.log = compat.NewLogger(env.Stderr, level)
	if err := x.parse(c); err != nil {
		return 1, errUsage{err}
	}
	return x.run()
}

// parse fills x from a command line of known options.
func (x *execution) parse(c *cli.Context) error {
	args := c.Args().Slice()
	x.socket, x.command = args[0], args[1:]
	switch {
	case x.command[0] == "--":
		x.command = args[2:]
	case strings.HasPrefix(x.command[0], "-"):
		return fmt.Errorf("%s is behind SOCKET; options are in front of it, and COMMAND follows \"--\"", args[1])
	}
	switch {
	case len(x.command) == 0:
		return errors.New("no COMMAND")
	case c.Bool("stream") && c.Bool("dgram"):
		return errors.New("--stream and --dgram exclude each other")
	case c.IsSet("json") && x.json == "":
		return errors.New("--json= names no file; - is stdout")
	}
	x.request.Transport = proto.Stream
	if c.Bool("dgram") {
		x.request.Transport = proto.Datagram
	}
	return nil
}

func (x *execution) setFD(v string) (err error) {
	if x.fd, err = strconv.Atoi(v); err != nil || x.fd != 0 && x.fd < execFD || x.fd > maxExecFD {
		return fmt.Errorf("invalid --fd=%s: use the number of a descriptor, 0 or %d to %d", v, execFD, maxExecFD)
	}
	return nil
}

// ofOption names the option in err. The daemon checks the same, in words that have no option.
func ofOption(name string, err error) error {
	if e, ok := errors.AsType[*proto.Error](err); ok {
		return fmt.Errorf("--%s: %s", name, e.Text)
	}
	return err
}

// run connects and becomes the command. It returns only with an error.
func (x *execution) run() (code int, err error) {
	place, err := x.place()
	if err != nil {
		return 1, err
	}
	reserve(place) // before the first timer, see there
	ctx, cancel := context.WithTimeoutCause(context.Background(), execTime, errors.New("no answer within "+execTime.String()))
	defer cancel()
	files, reply, err := x.connect(ctx)
	if err != nil {
		return 1, err
	}
	mac := reply.MACAddress
	if x.request.MAC != nil {
		mac = x.request.MAC.String()
	}
	command := x.fill(place[0], mac)
	for i, a := range command {
		if mac == "" && strings.Contains(x.command[i], "{mac}") {
			return 1, fmt.Errorf("%q needs an address: the daemon's network tells none, so give one with --mac", a)
		}
		x.log.Debug("command", "index", i, "argument", a)
	}
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) // main ignores it, and so would COMMAND; with a handler it is an ordinary one after exec
	if err := putInPlace(files, place); err != nil {
		return 1, err
	}
	return become(command)
}

// connect gets the link and, except from a daemon without a socket for it, the lifeline.
func (x *execution) connect(ctx context.Context) ([]*os.File, proto.Reply, error) {
	a, err := proto.Attach(ctx, x.socket, x.request)
	if err == nil {
		x.log.Debug("attached", "reply", string(a.Line))
		return []*os.File{a.File, a.Lifeline}, a.Reply, x.writeJSON(a.Line)
	}
	plain := x.request.Transport == proto.Stream && x.request.MAC == nil && x.request.Name == "" &&
		x.request.InterfaceID == (proto.UUID{}) && x.json == ""
	if !errors.Is(err, proto.ErrNoSocket) || !plain {
		return nil, proto.Reply{}, err
	}
	x.log.Debug("connecting to the stream socket itself", "reason", err)
	f, cerr := proto.Connect(ctx, x.socket)
	if cerr != nil {
		return nil, proto.Reply{}, errors.Join(err, cerr)
	}
	return []*os.File{f}, proto.Reply{}, nil
}

// writeJSON writes the reply where --json asks for it. Root does not follow a link there, which another user may have laid.
func (x *execution) writeJSON(line []byte) error {
	line = append(line, '\n')
	switch x.json {
	case "":
		return nil
	case "-":
		if _, err := x.stdout.Write(line); err != nil {
			return fmt.Errorf("--json=-: %w", err)
		}
		return nil
	}
	flags := os.O_WRONLY | os.O_CREATE | os.O_TRUNC
	if os.Geteuid() == 0 {
		flags |= syscall.O_NOFOLLOW
	}
	f, err := os.OpenFile(x.json, flags, 0o644)
	if err == nil {
		_, err = f.Write(line)
		err = errors.Join(err, f.Close())
	}
	switch {
	case errors.Is(err, syscall.ELOOP):
		return fmt.Errorf("--json=%s is a link, which root does not follow: name the file itself", x.json)
	case err != nil:
		return fmt.Errorf("--json: %w", err)
	}
	return nil
}

// fill is the command with {fd} and {mac} filled in.
func (x *execution) fill(fd int, mac string) []string {
	r := strings.NewReplacer("{fd}", strconv.Itoa(fd), "{mac}", mac)
	command := make([]string, len(x.command))
	for i, a := range x.command {
		command[i] = r.Replace(a)
	}
	return command
}

// place is where the link and the lifeline go.
func (x *execution) place() ([]int, error) {
	fd := x.fd
	switch {
	case fd == 0: // in place of stdin
	case fd < 0 && !hostfs.Inherited(execFD):
		fd = execFD
	case fd < 0 && strings.Contains(strings.Join(x.command, "\n"), "{fd}"):
		fd = lowestFree(execFD, -1)
	case fd < 0:
		return nil, fmt.Errorf("descriptor %d is taken by %s, which the caller passes on to COMMAND: "+
			"choose another one with --fd=%d, or write {fd} in COMMAND for one that is free", execFD, hostfs.FileOf(execFD), lowestFree(execFD, -1))
	case hostfs.Inherited(fd):
		return nil, fmt.Errorf("--fd=%d: the descriptor is taken by %s, which the caller passes on to COMMAND: "+
			"choose another one, such as --fd=%d", fd, hostfs.FileOf(fd), lowestFree(execFD, -1))
	case runtimes(fd):
		return nil, fmt.Errorf("--fd=%d: this program itself needs the descriptor until COMMAND runs: "+
			"choose another one, such as --fd=%d", fd, lowestFree(execFD, -1))
	}
	return []int{fd, lowestFree(execFD+1, fd)}, nil
}
