// SPDX-License-Identifier: Apache-2.0

package usernet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"

	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
	"github.com/socket-vmnet2/socket_vmnet2/internal/gateway"
	"github.com/socket-vmnet2/socket_vmnet2/internal/printable"
)

var errForeign = errors.New("frames in the name of others")

// frames carries frames of the gateway to the bridge.
func (l *life) frames(b frame.Batch) error {
	it := b.Iter()
	for it.Next() {
		if [6]byte(it.Frame()[6:12]) != l.sup.mac {
			return errForeign
		}
	}
	l.sup.net.port.Send(b)
	return nil
}

// message takes what the gateway says, as far as it can be.
func (l *life) message(kind byte, body []byte) error {
	n := l.sup.net
	if kind == gateway.KindHello {
		return take(body, l.greet)
	}
	if !l.ready {
		return errors.New("no hello")
	}
	switch kind {
	case gateway.KindLeased:
		return take(body, n.leases.leased)
	case gateway.KindUnleased:
		return nil
	case gateway.KindAnswer:
		return take(body, func(a gateway.Answer) error { return l.sup.answer(l, a) })
	case gateway.KindFailing:
		return take(body, func(f gateway.Failing) error { return n.fwd.fail(f, text) })
	case gateway.KindLog:
		return take(body, l.log)
	}
	return fmt.Errorf("message %d", kind)
}

// take decodes a message and passes it on.
func take[T any](body []byte, to func(T) error) error {
	var v T
	if err := json.Unmarshal(body, &v); err != nil {
		return err
	}
	return to(v)
}

// greet takes a hello.
func (l *life) greet(h gateway.Hello) error {
	if l.ready {
		return errors.New("hello again")
	}
	if h.Protocol != gateway.Protocol {
		return fmt.Errorf("protocol %d of version %s, this program speaks %d; upgrade the daemon", h.Protocol, text(h.Version), gateway.Protocol)
	}
	h.Version, h.Error = text(h.Version), text(h.Error)
	if h.Error != "" {
		l.sup.net.opts.Log.Warn("the gateway of the embedded network keeps the daemon's rights", "error", h.Error)
	}
	l.sup.mu.Lock()
	l.sup.Hello = h
	l.sup.mu.Unlock()
	l.ready = true
	close(l.hello)
	return nil
}

// log logs a line of the gateway.
func (l *life) log(line gateway.LogLine) error {
	if l.lines++; l.lines > maxLines {
		return nil
	}
	args := make([]any, 0, len(line.Args))
	for _, a := range line.Args[:len(line.Args)&^1] {
		args = append(args, text(a))
	}
	l.sup.net.opts.Log.Log(context.Background(), slog.Level(line.Level), text(line.Message), args...)
	return nil
}

// text is a text of the gateway, made harmless.
func text(s string) string { return printable.Line(s, maxText) }
