// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"runtime"
	"slices"
	"sync"

	"github.com/socket-vmnet2/socket_vmnet2/internal/compat"
	"github.com/socket-vmnet2/socket_vmnet2/internal/link"
	"github.com/socket-vmnet2/socket_vmnet2/internal/passing"
	"github.com/socket-vmnet2/socket_vmnet2/internal/perclient"
	"github.com/socket-vmnet2/socket_vmnet2/internal/rundir"
	"github.com/socket-vmnet2/socket_vmnet2/internal/state"
	"github.com/socket-vmnet2/socket_vmnet2/internal/unixgram"
	"github.com/socket-vmnet2/socket_vmnet2/internal/vnet"
)

// extras are the sockets beside SOCKET: for datagram clients, and to pass descriptors in either direction. The daemon does
// its work without them.
type extras struct {
	dir     *rundir.Dir
	log     *slog.Logger
	attach  *net.UnixListener
	adopt   *net.UnixListener
	passing *passing.Server
	shared  *unixgram.Server
	known   *known
	running sync.WaitGroup
}

// openExtras makes them; nil when they are not to be had, which the log tells.
func openExtras(cfg *compat.Config, owner compat.Owner, network vnet.Network, kept *state.File, clients *perclient.Server, log *slog.Logger) *extras {
	dir, err := rundir.Open(rundir.Options{Socket: absolute(cfg.SocketPath), Dir: cfg.RuntimeDir, Owner: owner, Log: log})
	switch {
	case errors.Is(err, rundir.ErrNone):
		level := slog.LevelInfo
		if cfg.RuntimeDir == compat.RuntimeDirNone { // that is what was asked for
			level = slog.LevelDebug
		}
		log.Log(context.Background(), level, "no sockets for datagram clients and passed descriptors", "reason", err)
		return nil
	case err != nil:
		log.Warn("datagram clients and passed descriptors are not served, stream clients are", "error", err)
		return nil
	}
	e := &extras{dir: dir, log: log, known: newKnown(kept)}
	if err := e.open(cfg, network, clients); err != nil {
		log.Warn("datagram clients and passed descriptors are not served, stream clients are", "error", err)
		e.close(context.Background())
		return nil
	}
	return e
}

// open binds the sockets. What it has opened is closed by close, also after an error.
func (e *extras) open(cfg *compat.Config, network vnet.Network, clients *perclient.Server) (err error) {
	if e.attach, err = e.dir.Listen("attach"); err != nil {
		return err
	}
	if e.adopt, err = e.dir.Listen("adopt"); err != nil {
		return err
	}
	conn, err := e.dir.ListenDatagram()
	if err != nil {
		return err
	}
	trust := unixgram.Trust{
		AllowUIDs:   cfg.AllowUIDs,
		Own:         append(slices.Clone(e.dir.Paths()), absolute(cfg.SocketPath)),
		ReplySocket: runtime.GOOS == "darwin",
	}
	e.shared, err = unixgram.New(unixgram.Options{
		Conn: conn, Trust: trust, QueueSize: cfg.QueueSize, Log: e.log,
		Serve: func(l link.Link, path string, uid uint32) error {
			x, err := clients.Serve(l, perclient.Client{
				MAC: e.known.mac(path), Log: []any{"transport", "dgram", "path", path, "uid", uid},
				Ended: func() { e.known.remove(path) },
			})
			if err == nil {
				e.known.add(path, uid, x)
			}
			return err
		},
	})
	if err != nil {
		_ = conn.Close()
		return err
	}
	e.passing = passing.NewServer(passing.Options{
		Network: network.Info, Clients: clients, Trust: trust, QueueSize: cfg.QueueSize, Log: e.log,
	})
	return nil
}

// run serves until ctx is done and returns at once. It may be called on nil.
func (e *extras) run(ctx context.Context) {
	if e == nil {
		return
	}
	e.running.Go(e.shared.Run)
	e.running.Go(func() { e.known.recall(e.invite) })
	e.running.Go(func() { link.Accept(ctx, e.attach, e.passing.Attach, e.log) })
	e.running.Go(func() { link.Accept(ctx, e.adopt, e.passing.Adopt, e.log) })
}

// invite serves a client of the last process.
func (e *extras) invite(path string, uid uint32) {
	if err := e.shared.Invite(path, uid); err != nil {
		e.log.Debug("a datagram client of the last process is not served", "path", path, "error", err)
	}
}

// hide takes the sockets away from clients that do not have them yet. It may be called on nil.
func (e *extras) hide() {
	if e == nil {
		return
	}
	e.known.freeze()
	e.dir.Remove()
	if e.passing != nil {
		e.passing.Stop()
	}
}

// close ends what is left until ctx is done. Its clients end with their sessions. It may be called on nil.
func (e *extras) close(ctx context.Context) {
	if e == nil {
		return
	}
	e.hide()
	if e.shared != nil {
		_ = e.shared.Close()
	}
	e.running.Wait()
	for _, ln := range []*net.UnixListener{e.attach, e.adopt} {
		if ln != nil {
			_ = ln.Close()
		}
	}
	if e.passing != nil {
		e.passing.Wait(ctx)
	}
}
