// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/urfave/cli/v2"

	"github.com/socket-vmnet2/socket_vmnet2/internal/compat"
	"github.com/socket-vmnet2/socket_vmnet2/internal/daemon/control"
	"github.com/socket-vmnet2/socket_vmnet2/internal/ops/find"
	"github.com/socket-vmnet2/socket_vmnet2/internal/ops/web"
	"github.com/socket-vmnet2/socket_vmnet2/internal/status"
)

func statusCommand(env compat.IO) *cli.Command {
	v := &viewer{env: env, what: "/v1/status", text: (*status.Status).Text}
	return &cli.Command{
		Name: "status",
		Usage: `Tells what the daemon at SOCKET does: its network, its clients, and what is wrong with what to do about it. Without SOCKET it
is all daemons that are found: at the paths of socket_vmnet, Lima, Homebrew, Colima and of services of this program, and by
the list of processes.`,
		ArgsUsage: "[SOCKET]...",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "json", Usage: "print the daemon's description, one JSON document a line"},
			&cli.BoolFlag{Name: "watch", Usage: "show it again each second, with rates, until interrupted. A daemon that ends is waited for"},
			&cli.BoolFlag{Name: "hosts", Usage: "print lines for /etc/hosts, with the guests' names and addresses"},
			&cli.BoolFlag{Name: "sockets", Usage: "print the sockets of the daemons that are found, a line each, and ask none"},
			&cli.BoolFlag{Name: "wide", Usage: "print all columns, however narrow the terminal"},
			&cli.BoolFlag{Name: "web", Usage: "show one daemon on a page for a browser of this host, whose address is printed, until interrupted"},
		},
		Description: `On a terminal as much is shown as it is wide. Otherwise all columns are, in this order, without colours, and no cell has a
blank: ID, NAME (what the client or its guest calls itself), PROTO, PEER (user, process, program), MAC, IP, STATE, AGE,
TO-NET (frames and bytes that the client sent), TO-CLIENT, DROPS (of both ways, by reason), QUEUE, IFACE.

SOCKET may also be the directory that was given to the daemon with --runtime-dir.

Exit code: 0 the daemon answers and has no serious problem, 1 it does not answer, 2 it answers and has a problem of the severity "error"`,
		Action: coded(v.statusAction, env),
	}
}

// exitUnwell is the exit code for a daemon with a serious problem.
const exitUnwell = 2

func (v *viewer) statusAction(c *cli.Context, env compat.IO) (int, error) {
	switch {
	case c.Bool("web"):
		return v.web(c)
	case c.Bool("hosts") && (c.Bool("json") || c.Bool("watch")):
		return 1, errUsage{errors.New("--hosts goes with neither --json nor --watch")}
	case c.Bool("sockets"):
		all, err := theDaemons(c.Args().Slice())
		if err == nil {
			err = v.print(strings.Join(append(socketsOf(all), ""), "\n"))
		}
		return 0, err
	case c.Bool("hosts"):
		v.text = func(s *status.Status, _ status.View) string { return s.Hosts() }
	}
	return v.run(c, env)
}

// A viewer shows what daemons tell of themselves.
type viewer struct {
	env    compat.IO
	screen screen
	what   string // that is asked for, for --json; the text is made of the whole status
	text   func(*status.Status, status.View) string
	titled bool // text does not tell whose it is
	json   bool
	wide   bool
}

// A glance is what one daemon has answered.
type glance struct {
	daemon find.Daemon
	answer json.RawMessage
	status *status.Status // nil with err
	err    error
	before *status.Status // that of the look before, of the same process
	notice string         // what to say of it last; in a pipe once
}

// run does what a command line of known options asks for.
func (v *viewer) run(c *cli.Context, env compat.IO) (int, error) {
	v.screen, v.json, v.wide = screenOf(env), c.Bool("json"), c.Bool("wide")
	args := c.Args().Slice()
	daemons, err := theDaemons(args)
	if err != nil {
		return 1, err
	}
	if c.Bool("watch") {
		ctx, stop := signal.NotifyContext(c.Context, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
		defer stop()
		return v.watch(ctx, daemons, len(args) > 0)
	}
	looks := v.lookAll(c.Context, daemons)
	code := v.complain(looks, len(args) > 0)
	if err := v.print(string(v.page(looks))); err != nil {
		return 1, err
	}
	if slices.ContainsFunc(looks, glance.unwell) {
		code = max(code, exitUnwell)
	}
	return code, nil
}

// complain tells of daemons that did not answer. One that was only found is no error while another one answers.
func (v *viewer) complain(looks []glance, named bool) (code int) {
	log := compat.NewLogger(v.env.Stderr, slog.LevelInfo)
	answered := slices.ContainsFunc(looks, func(l glance) bool { return l.err == nil })
	for _, l := range looks {
		switch {
		case l.err == nil:
		case named || !answered:
			compat.LogError(log, l.err)
			code = 1
		default:
			log.Warn(l.err.Error())
		}
	}
	return code
}

// page is what was answered, for people with an empty line between daemons.
func (v *viewer) page(looks []glance) []byte {
	var b bytes.Buffer
	for _, l := range looks {
		switch {
		case l.err != nil:
		case v.json:
			b.Write(l.line())
		default:
			if b.Len() > 0 {
				b.WriteByte('\n')
			}
			if v.titled && len(looks) > 1 {
				b.WriteString(nameOf(l.daemon) + ":\n")
			}
			o := v.screen.options(v.wide)
			o.Before = l.before
			text := v.text(l.status, o)
			if v.screen.ascii {
				text = strings.Map(toASCII, text)
			}
			b.WriteString(text)
		}
	}
	return b.Bytes()
}

// errUnread is that the reader of standard output has seen enough, as head does. It ends a command with success.
var errUnread = errors.New("nothing reads standard output")

// print writes what is the last to standard output.
func (v *viewer) print(text string) error {
	if err := v.write([]byte(text)); !errors.Is(err, errUnread) {
		return err
	}
	return nil
}

// write writes to standard output.
func (v *viewer) write(b []byte) error {
	_, err := v.env.Stdout.Write(b)
	switch {
	case errors.Is(err, syscall.EPIPE), errors.Is(err, io.ErrClosedPipe):
		return errUnread
	case err != nil:
		return fmt.Errorf("standard output: %w", err)
	}
	return nil
}

// line is the document in one line.
func (l glance) line() []byte {
	var b bytes.Buffer
	_ = json.Compact(&b, l.answer) // it has been read
	return append(b.Bytes(), '\n')
}

// unwell tells of a problem that has something not work.
func (l glance) unwell() bool {
	return l.status != nil && slices.ContainsFunc(l.status.Health, func(p status.Problem) bool { return p.Severity == status.Error })
}

// lookAll asks all of them at once.
func (v *viewer) lookAll(ctx context.Context, daemons []find.Daemon) []glance {
	looks := make([]glance, len(daemons))
	var wg sync.WaitGroup
	for i, d := range daemons {
		wg.Go(func() { looks[i] = v.look(ctx, d) })
	}
	wg.Wait()
	return looks
}

func (v *viewer) look(ctx context.Context, d find.Daemon) glance {
	l := glance{daemon: d, err: explainDaemon(d)}
	if l.err != nil {
		return l
	}
	what := "/v1/status"
	if v.json {
		what = v.what
	}
	if l.answer, l.err = ask(ctx, d, http.MethodGet, what, nil); l.err != nil {
		return l
	}
	s := &status.Status{}
	if err := json.Unmarshal(l.answer, s); err != nil {
		l.err = fmt.Errorf("%s: the daemon answers something else: %w", nameOf(d), err)
		return l
	}
	l.status = s
	return l
}

// web shows one daemon on a page, until it is interrupted. Other users of this host reach the port as well, and so do guests of the
// embedded network as host.internal: the address has a secret.
func (v *viewer) web(c *cli.Context) (int, error) {
	if slices.ContainsFunc([]string{"json", "watch", "hosts", "wide"}, c.IsSet) {
		return 1, errUsage{errors.New("--web goes with no other option")}
	}
	d, err := theDaemon(c.Args().Slice())
	if err != nil {
		return 1, err
	}
	describe := func(ctx context.Context) (json.RawMessage, error) { return ask(ctx, d, http.MethodGet, v.what, nil) }
	if _, err := describe(c.Context); err != nil {
		return 1, err
	}
	ln, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		return 1, fmt.Errorf("serve a page on 127.0.0.1: %w", err)
	}
	defer func() { _ = ln.Close() }()
	ctx, stop := signal.NotifyContext(c.Context, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	secret := "/" + rand.Text()
	log := compat.NewLogger(v.env.Stderr, slog.LevelInfo)
	control.NewHTTP(web.Private(secret, web.Page(describe)), 2*askTime, log, ln).Run(ctx)
	if err := v.write(fmt.Appendf(nil, "http://%s%s/\n", ln.Addr(), secret)); err != nil && !errors.Is(err, errUnread) {
		return 1, err
	}
	<-ctx.Done()
	return 0, nil
}
