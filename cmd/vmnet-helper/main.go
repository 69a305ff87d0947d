// SPDX-License-Identifier: Apache-2.0

// Command vmnet-helper connects one virtual machine to the network of a daemon that runs already, with vmnet-helper's options,
// output and exit codes, so that programs which start vmnet-helper (minikube with vfkit or krunkit, for instance) work with
// socket_vmnet2 unchanged:
//
//	vmnet-helper (--fd FD|--socket SOCKET) [--interface-id UUID] [--operation-mode shared|bridged|host] ...
//
// It hands the machine's socket over to the daemon and tells what it was given as one line of JSON. No frame goes through it.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/internal/compat"
	"github.com/socket-vmnet2/socket_vmnet2/internal/perclient/passfd/proto"
)

func main() {
	os.Exit(run(os.Args, os.Stdout, os.Stderr))
}

// run is the program. It returns the exit code: 0 when it was told to stop or the machine has gone, else 1.
func run(argv []string, stdout, stderr io.Writer) int {
	log := &logger{w: stderr}
	c, err := parse(argv[min(1, len(argv)):])
	switch {
	case errors.Is(err, compat.ErrHelp):
		fmt.Fprint(stderr, usage)
		return 0
	case errors.Is(err, compat.ErrVersion):
		fmt.Fprint(stdout, versionText(compat.Version))
		return 0
	case err != nil:
		log.error("%v", err)
		fmt.Fprint(stderr, usage)
		return 1
	}
	log.verbose = c.verbose
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	// A reader that has gone is an error of one write.
	signal.Ignore(syscall.SIGPIPE)
	if err = dropPrivileges(log); err == nil {
		if c.list {
			err = list(ctx, stdout, stderr)
		} else {
			err = serve(ctx, c, stdout, log)
		}
	}
	switch {
	case err == nil:
		return 0
	case errors.Is(err, context.Canceled) && ctx.Err() != nil:
		log.info("told to stop")
		return 0
	}
	log.error("%v", err)
	return 1
}

// shortSession is how long a session lasts with a daemon that has not really come back.
const shortSession = 5 * time.Second

// serve connects the machine and waits for its end.
func serve(ctx context.Context, c *config, stdout io.Writer, log *logger) error {
	log.info("running vmnet-helper of socket_vmnet2 %s, uid: %d gid: %d", compat.Version, os.Geteuid(), os.Getegid())
	if c.statsInterval > 0 {
		log.warn("--stats-interval: the daemon counts the frames: see socket_vmnet2 status --watch SOCKET")
	}
	end, err := open(ctx, c, log)
	if err != nil {
		return err
	}
	defer end.close(log)
	s, err := handOver(ctx, c, end, log)
	if err != nil {
		return err
	}
	if _, err := stdout.Write(infoLine(c, &s.reply)); err != nil {
		s.lifeline.Close()
		return fmt.Errorf("tell about the interface on stdout: %w", err)
	}
	if c.socket != "" {
		log.info("waiting for client on %q", c.socket)
	}
	log.info("running")
	return stay(ctx, c, end, s, log)
}

// stay stays as long as the machine, on one daemon after the other, from s on.
func stay(ctx context.Context, c *config, end *endpoint, s *session, log *logger) error {
	for lost := (time.Time{}); ; {
		began := time.Now()
		err := s.wait(ctx, end, log)
		s.lifeline.Close()
		if !errors.As(err, new(stopped)) {
			return err
		}
		if lost.IsZero() || time.Since(began) > shortSession {
			lost = time.Now()
		}
		log.warn("%v; waiting for it", err)
		s, err = s.again(ctx, c, end, lost)
		if e := new(proto.Error); errors.As(err, &e) && e.Code == proto.BadDescriptor { // the machine has gone meanwhile
			log.info("socket was closed by peer")
			return nil
		}
		if err != nil {
			return err
		}
		log.info("running again on the daemon at %q", s.socket)
	}
}

// A logger writes vmnet-helper's lines: LEVEL [main] text.
type logger struct {
	w       io.Writer
	verbose bool
}

func (l *logger) line(level, format string, args []any) {
	text := strings.ReplaceAll(fmt.Sprintf(format, args...), "\n", " ")
	fmt.Fprintf(l.w, "%-5s [main] %s\n", level, text)
}

func (l *logger) error(format string, args ...any) { l.line("ERROR", format, args) }
func (l *logger) warn(format string, args ...any)  { l.line("WARN", format, args) }
func (l *logger) info(format string, args ...any)  { l.line("INFO", format, args) }

func (l *logger) debug(format string, args ...any) {
	if l.verbose {
		l.line("DEBUG", format, args)
	}
}

// daemonDirs are where socket_vmnet2 is installed if this program is not, a copy in /opt/vmnet-helper/bin for instance.
var daemonDirs = []string{
	"/opt/socket_vmnet/bin", "/opt/homebrew/opt/socket_vmnet2/bin", "/usr/local/opt/socket_vmnet2/bin", "/opt/local/bin",
}

// list prints the interfaces that a bridged network can have, one per line. The daemon's program knows them.
func list(ctx context.Context, stdout, stderr io.Writer) error {
	program, err := findProgram()
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, program, "--list-interfaces")
	cmd.Stdout, cmd.Stderr = stdout, stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s --list-interfaces: %w", program, err)
	}
	return nil
}

// findProgram returns the path of socket_vmnet2: beside this program, in ../bin, or where it is usually installed.
func findProgram() (string, error) {
	self, err := os.Executable()
	if err == nil {
		self, err = filepath.EvalSymlinks(self)
	}
	if err != nil {
		return "", fmt.Errorf("find socket_vmnet2: %w", err)
	}
	dir := filepath.Dir(self)
	for _, d := range append([]string{dir, filepath.Join(dir, "..", "bin")}, daemonDirs...) {
		path := filepath.Join(d, "socket_vmnet2")
		if st, err := os.Stat(path); err == nil && st.Mode().IsRegular() && st.Mode()&0o111 != 0 {
			return path, nil
		}
	}
	return "", errors.New("find socket_vmnet2: neither beside this program nor in ../bin: install it there")
}
