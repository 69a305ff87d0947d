// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"sync"
	"time"
)

// Events of a -netdev stream with reconnect-ms, the exact times at which QEMU noticed.
const (
	EventStreamConnected    = "NETDEV_STREAM_CONNECTED"
	EventStreamDisconnected = "NETDEV_STREAM_DISCONNECTED"
)

// An Event is something QEMU told by itself.
type Event struct {
	Name string
	Time time.Time
}

// A QMP is a connection to a guest's QEMU machine protocol: JSON objects, one per line.
type QMP struct {
	conn    net.Conn
	replies chan qmpMessage // closed at the end

	mu     sync.Mutex
	events []Event

	send sync.Mutex // one command at a time
}

type qmpMessage struct {
	QMP       json.RawMessage
	Return    json.RawMessage
	Event     string
	Timestamp struct{ Seconds, Microseconds int64 }
	Error     *struct{ Class, Desc string }
}

// newQMP does the handshake on c and owns it from then on.
func newQMP(c net.Conn) (*QMP, error) {
	q := &QMP{conn: c, replies: make(chan qmpMessage, 1)}
	go q.read()
	if _, err := q.Execute("qmp_capabilities"); err != nil {
		q.Close()
		return nil, err
	}
	return q, nil
}

func (q *QMP) read() {
	defer close(q.replies)
	for dec := json.NewDecoder(q.conn); ; {
		var m qmpMessage
		if dec.Decode(&m) != nil {
			return
		}
		switch {
		case m.Event != "":
			q.mu.Lock()
			t := time.Unix(m.Timestamp.Seconds, m.Timestamp.Microseconds*1000)
			q.events = append(q.events, Event{Name: m.Event, Time: t})
			q.mu.Unlock()
		case m.Return != nil || m.Error != nil:
			q.replies <- m
		}
	}
}

// Execute runs a command of the protocol and returns its result.
func (q *QMP) Execute(command string) (json.RawMessage, error) {
	q.send.Lock()
	defer q.send.Unlock()
	if _, err := fmt.Fprintf(q.conn, "{\"execute\": %q}\n", command); err != nil {
		return nil, fmt.Errorf("run qmp %s: %w", command, err)
	}
	select {
	case m, ok := <-q.replies:
		if !ok {
			return nil, fmt.Errorf("run qmp %s: %w", command, ErrEnded)
		}
		if m.Error != nil {
			return nil, fmt.Errorf("run qmp %s: %s", command, m.Error.Desc)
		}
		return m.Return, nil
	case <-time.After(time.Minute):
		return nil, fmt.Errorf("run qmp %s: no answer for a minute", command)
	}
}

// Events are the events so far.
func (q *QMP) Events() []Event {
	q.mu.Lock()
	defer q.mu.Unlock()
	return append([]Event(nil), q.events...)
}

// WaitEvent waits for an event called name that happened at or after since.
func (q *QMP) WaitEvent(ctx context.Context, name string, since time.Time) (found Event, err error) {
	err = Poll(ctx, func() error {
		for _, found = range q.Events() {
			if found.Name == name && !found.Time.Before(since) {
				return nil
			}
		}
		return fmt.Errorf("wait for event %s: it has not come", name)
	})
	return found, err
}

// Close closes the connection and waits for its reader.
func (q *QMP) Close() {
	_ = q.conn.Close()
	for range q.replies { // until it has ended
	}
}
