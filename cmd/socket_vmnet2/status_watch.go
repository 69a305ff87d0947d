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
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/internal/ops/find"
	"github.com/socket-vmnet2/socket_vmnet2/internal/status"
)

// watch shows the daemons until ctx is done, which is how it ends in order.
func (v *viewer) watch(ctx context.Context, daemons []find.Daemon, named bool) (int, error) {
	looks := v.lookAll(ctx, daemons)
	if ctx.Err() != nil {
		return 0, nil
	}
	if code := v.complain(looks, named); code != 0 {
		return code, nil // what cannot be asked at first is no daemon that has gone
	}
	looks = slices.DeleteFunc(looks, func(l glance) bool { return l.err != nil })
	resized := make(chan os.Signal, 1)
	signal.Notify(resized, syscall.SIGWINCH)
	defer signal.Stop(resized)
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		if err := v.show(looks); errors.Is(err, errUnread) {
			return 0, nil
		} else if err != nil {
			return 0, err
		}
		select {
		case <-ctx.Done():
			if v.screen.moves {
				_, _ = io.WriteString(v.env.Stdout, "\n")
			}
			return 0, nil
		case <-resized:
			continue // the same looks in the new width
		case <-tick.C:
			v.again(ctx, looks)
		}
		if ctx.Err() != nil {
			continue // what it was asking did not fail
		}
	}
}

// again looks at all of them once more.
func (v *viewer) again(ctx context.Context, list []glance) {
	daemons := make([]find.Daemon, len(list))
	for i, w := range list {
		daemons[i] = w.daemon
		if w.err != nil { // its control socket may be elsewhere when it is back
			daemons[i] = find.One(machine(), cmp.Or(w.daemon.Socket, filepath.Dir(w.daemon.Control)))
		}
	}
	looks := v.lookAll(ctx, daemons)
	if ctx.Err() != nil {
		return
	}
	for i, l := range looks {
		list[i].next(l)
	}
}

// next takes a new look.
func (l *glance) next(now glance) {
	name, was := nameOf(l.daemon), *l
	now.daemon, now.notice = l.daemon, l.notice
	*l = now
	switch {
	case l.err != nil && was.err == nil:
		l.notice = fmt.Sprintf("%s: gone; waiting for it to come back: %v", name, l.err)
	case l.err != nil:
	case was.err != nil:
		l.notice = name + ": back"
	case was.status.Daemon.PID != l.status.Daemon.PID:
		l.notice = name + ": started again"
	default:
		l.before = was.status
	}
}

// show writes all of them.
func (v *viewer) show(list []glance) error {
	var notices strings.Builder
	for i, l := range list {
		if l.notice != "" {
			fmt.Fprintln(&notices, status.Clean(l.notice))
			if !v.screen.moves {
				list[i].notice = ""
			}
		}
	}
	page := v.page(list)
	if v.json {
		_, _ = io.WriteString(v.env.Stderr, notices.String())
		return v.write(page)
	}
	text := notices.String()
	if len(page) > 0 {
		text += string(page) + "\n"
	}
	if v.screen.moves {
		text = v.screen.draw(text)
	}
	return v.write([]byte(text))
}
