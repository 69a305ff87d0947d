// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/socket-vmnet2/socket_vmnet2/internal/compat"
	"github.com/socket-vmnet2/socket_vmnet2/internal/ops/find"
	"github.com/socket-vmnet2/socket_vmnet2/internal/status"
)

func clientsCommand(env compat.IO) *cli.Command {
	return &cli.Command{
		Name:      "clients",
		Usage:     "Lists the clients of the daemon at SOCKET, or of all daemons that are found: the table of socket_vmnet2 status alone.",
		ArgsUsage: "[SOCKET]...",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "json", Usage: "print the daemon's list, one JSON document a line"},
			&cli.BoolFlag{Name: "wide", Usage: "print all columns, however narrow the terminal"},
		},
		Description: `SOCKET may also be the directory that was given to the daemon with --runtime-dir.

Exit code: 0 the daemon answers, 1 it does not`,
		Action: coded(func(c *cli.Context, env compat.IO) (int, error) {
			code, err := (&viewer{env: env, what: "/v1/clients", text: (*status.Status).Table}).run(c, env)
			if code == exitUnwell { // health was not asked for
				code = 0
			}
			return code, err
		}, env),
	}
}

func kickCommand(env compat.IO) *cli.Command {
	return &cli.Command{
		Name: "kick",
		Usage: `Ends the connections of clients: they see the daemon close it, between two frames, and most of them connect again. It needs to
be called by root or the daemon's user. CLIENT is a client's number, name, Ethernet or IP address, as socket_vmnet2 clients
shows them. A name that several clients have is refused.`,
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
	var errs []error
	for _, client := range list {
		if _, err := ask(c.Context, d, http.MethodDelete, "/v1/clients/"+strconv.FormatUint(client.ID, 10), nil); err != nil {
			errs = append(errs, err)
			continue
		}
		if _, err := fmt.Fprintf(env.Stdout, "disconnected: %s\n", tellClient(client)); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// splitSocket takes SOCKET from the end of what a command was given: what has a slash, or is a socket or a directory here.
func splitSocket(args []string) (rest, socket []string) {
	if len(args) == 0 {
		return nil, nil
	}
	last := args[len(args)-1]
	fi, err := os.Stat(last)
	if strings.Contains(last, "/") || len(args) > 1 && err == nil && (fi.IsDir() || fi.Mode()&os.ModeSocket != 0) {
		return args[:len(args)-1], []string{last}
	}
	return args, nil
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
