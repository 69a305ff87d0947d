// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"slices"
	"syscall"

	"github.com/urfave/cli/v2"

	"github.com/socket-vmnet2/socket_vmnet2/internal/compat"
	"github.com/socket-vmnet2/socket_vmnet2/internal/daemon/control"
	"github.com/socket-vmnet2/socket_vmnet2/internal/ops/web"
)

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
