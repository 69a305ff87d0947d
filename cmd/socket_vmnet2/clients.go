// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
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

func clientsCommand(env compat.IO) *cli.Command {
	return &cli.Command{
		Name:      "clients",
		Usage:     "Lists the clients of the daemon at SOCKET, or of all daemons that are found: the table of socket_vmnet2 status alone.",
		ArgsUsage: "[SOCKET]...",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "json", Usage: "print the daemon's list, one JSON document a line"},
			&cli.BoolFlag{Name: "names", Usage: "print a word for each client that kick knows it by, a line each"},
			&cli.BoolFlag{Name: "wide", Usage: "print all columns, however narrow the terminal"},
		},
		Description: `SOCKET may also be the directory that was given to the daemon with --runtime-dir.

Exit code: 0 the daemon answers, 1 it does not`,
		Action: coded(func(c *cli.Context, env compat.IO) (int, error) {
			if c.Bool("names") {
				return 0, printNames(c, env)
			}
			code, err := (&viewer{env: env, what: "/v1/clients", text: (*status.Status).Table, titled: true}).run(c, env)
			if code == exitUnwell { // health was not asked for
				code = 0
			}
			return code, err
		}, env),
	}
}

// namesTime is how long printNames waits for a daemon: a shell completes a line meanwhile.
const namesTime = time.Second

// printNames prints the names of clients, or the numbers of those whose name is no plain word or not theirs alone.
func printNames(c *cli.Context, env compat.IO) error {
	all, err := theDaemons(c.Args().Slice())
	if err != nil {
		return err
	}
	var b strings.Builder
	for _, d := range all {
		answer, err := askWithin(c.Context, namesTime, d, http.MethodGet, "/v1/clients", nil)
		var l control.Clients
		if err == nil {
			err = json.Unmarshal(answer, &l)
		}
		if err != nil && len(all) == 1 {
			return err
		}
		for _, client := range l.Clients {
			name := client.Called()
			if found, err := choose(l.Clients, name); err != nil || found.ID != client.ID || !plainName.MatchString(name) {
				name = strconv.FormatUint(client.ID, 10)
			}
			b.WriteString(name + "\n")
		}
	}
	return (&viewer{env: env}).print(b.String())
}

// plainName is a word that no shell changes.
var plainName = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._-]*$`)

func kickCommand(env compat.IO) *cli.Command {
	return &cli.Command{
		Name: "kick",
		Usage: `Ends the connections of clients: they see the daemon close it, between two frames. QEMU with "reconnect" connects again by
itself. vfkit, krunkit, VZ, QEMU on a descriptor and QEMU 7.2 do not: their VMs have no network until they are started again.
It needs to be called by root or the daemon's user. CLIENT is a client's number, name, Ethernet or IP address, as
socket_vmnet2 clients shows them. A name that several clients have is refused.`,
		ArgsUsage: "CLIENT... [SOCKET]",
		Description: `SOCKET has a slash in it, or is a socket or directory that is there. It may be left out where one daemon alone runs.

Exit code: 0 all of them are disconnected, 1 not all`,
		Action: func(c *cli.Context) error { return kickAction(c, env) },
	}
}

// kickAction does what a command line of known options asks for.
func kickAction(c *cli.Context, env compat.IO) error {
	wanted, socket := splitSocket(c.Args().Slice())
	if len(wanted) == 0 {
		return errUsage{errors.New("no CLIENT")}
	}
	d, err := theDaemon(socket)
	if err != nil {
		return err
	}
	list, err := chooseAll(c.Context, d, wanted)
	if err != nil {
		return err // half a command disconnects no client
	}
	args := commandLines(c.Context) // as long as they run
	var errs []error
	for _, client := range list {
		if _, err := ask(c.Context, d, http.MethodDelete, "/v1/clients/"+strconv.FormatUint(client.ID, 10), nil); err != nil {
			errs = append(errs, err)
			continue
		}
		if _, err := fmt.Fprintf(env.Stdout, "disconnected: %s%s\n", tellClient(client), printable.Behind("; ", comesBack(client, args[client.Peer.PID]))); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// commandLines are those of the processes that are seen, by process.
func commandLines(ctx context.Context) map[int][]string {
	all := map[int][]string{}
	if s := machine(); s.Processes != nil {
		list, _ := s.Processes(ctx)
		for _, p := range list {
			all[p.PID] = p.Args
		}
	}
	return all
}

// comesBack tells what becomes of a client that is disconnected, if its program and that one's command line tell; they may be unknown.
func comesBack(c status.Client, args []string) string {
	program := c.Peer.Command
	is := func(names ...string) bool {
		return slices.ContainsFunc(names, func(n string) bool { return strings.HasPrefix(program, n) })
	}
	again := func(arg string) bool { return strings.Contains(arg, "stream") && strings.Contains(arg, "reconnect") }
	switch {
	case is("qemu") && slices.ContainsFunc(args, again):
		return "it connects again by itself"
	case is("qemu") && len(args) > 0, is("vfkit", "krunkit", "limactl", "com.apple.Virtua"):
		return "its VM has no network until it is started again"
	}
	return ""
}

// splitSocket takes SOCKET from the end of what a command was given, or from its beginning.
func splitSocket(args []string) (rest, socket []string) {
	switch n := len(args); {
	case n > 0 && isSocket(args[n-1]):
		return args[:n-1], args[n-1:]
	case n > 0 && isSocket(args[0]):
		return args[1:], args[:1]
	}
	return args, nil
}

// subnet is what has a slash in a capture's filter: net 10.0.0.0/8.
var subnet = regexp.MustCompile(`^[0-9a-fA-F.:]+/[0-9]+$`)

// isSocket tells whether a word is a SOCKET: it has a slash, or is a socket or a directory with one for control here.
func isSocket(word string) bool {
	if strings.Contains(word, "/") && !subnet.MatchString(word) {
		return true
	}
	fi, err := os.Stat(word)
	if err == nil && fi.IsDir() {
		fi, err = os.Stat(filepath.Join(word, "control"))
	}
	return err == nil && fi.Mode()&os.ModeSocket != 0
}

// chooseAll are the clients of d that have these numbers, addresses or names.
func chooseAll(ctx context.Context, d find.Daemon, wanted []string) (list []status.Client, err error) {
	if len(wanted) == 0 {
		return nil, nil
	}
	l := (&viewer{}).look(ctx, d)
	if l.err != nil {
		return nil, l.err
	}
	var errs []error
	for _, w := range wanted {
		client, err := choose(l.status.Clients, w)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", nameOf(d), err))
		} else if !slices.ContainsFunc(list, func(c status.Client) bool { return c.ID == client.ID }) {
			list = append(list, client)
		}
	}
	return list, errors.Join(errs...)
}

// choose is the client of this number, address or name.
func choose(clients []status.Client, text string) (status.Client, error) {
	id, errID := strconv.ParseUint(text, 10, 64)
	mac, errMAC := net.ParseMAC(text)
	ip, errIP := netip.ParseAddr(text)
	var is func(status.Client) bool
	switch {
	case errID == nil:
		is = func(c status.Client) bool { return c.ID == id }
	case errMAC == nil:
		is = func(c status.Client) bool { return strings.EqualFold(c.MAC, mac.String()) }
	case errIP == nil:
		is = func(c status.Client) bool { return c.IP == ip }
	default:
		is = func(c status.Client) bool { return c.Name == text || c.Hostname == text }
	}
	var found []status.Client
	for _, c := range clients {
		if is(c) {
			found = append(found, c)
		}
	}
	switch len(found) {
	case 0:
		return status.Client{}, fmt.Errorf("no client %s is connected; socket_vmnet2 clients lists those that are", status.Clean(text))
	case 1:
		return found[0], nil
	}
	names := make([]string, 0, len(found))
	for _, c := range found {
		names = append(names, tellClient(c))
	}
	return status.Client{}, fmt.Errorf("%s could be one of %d clients, name it by its number: %s", status.Clean(text), len(found), strings.Join(names, "; "))
}

// tellClient tells one client from others.
func tellClient(c status.Client) string {
	words := []string{"client " + strconv.FormatUint(c.ID, 10)}
	for _, w := range []string{c.Called(), c.MAC} {
		if w != "" {
			words = append(words, w)
		}
	}
	if c.IP.IsValid() {
		words = append(words, c.IP.String())
	}
	return status.Clean(strings.Join(words, ", "))
}
