// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
	"github.com/socket-vmnet2/socket_vmnet2/internal/gateway/dhcp"
)

// Protocol is the version of what is spoken on the pair of sockets.
const Protocol = 2

// The stream on the pair, in both directions, is frames in wire form with messages between them. A message has the same prefix
// with its top bit set, and then its kind and its body: JSON, but for Session's.
//
//	+------------------+-------+ +----------------+------+--------+ +------------------+-------+
//	| length           | frame | | length | 1<<31 | kind |  body  | | length           | frame | ...
//	+------------------+-------+ +----------------+------+--------+ +------------------+-------+
const (
	messageBit = 1 << 31
	headLen    = frame.PrefixLen + 1
	// MaxMessage is the longest message to a daemon, in bytes. What a daemon sends is as long as its options make it.
	MaxMessage = 64 << 10
	maxConfig  = 16 << 20
)

// Kinds of messages from the daemon to the gateway.
const (
	KindConfig  byte = iota + 1 // a Config
	KindLease                   // a dhcp.Lease of the gateway before this one
	KindForward                 // an int, the number of a forward in Config; its socket comes with the message
	KindStart                   // nothing: the configuration and all leases have been sent
	kindSession                 // 8 bytes, big-endian: the session that the frames behind it come from
	KindGone                    // a uint64: that session has ended
	KindAsk                     // a uint64, which the answer has as well
	KindAway                    // nothing: the daemon does not read the pair until KindBack, so nothing is to be read from the host either
	KindBack                    // nothing
)

// Kinds of messages from the gateway to the daemon. The daemon checks each value.
const (
	KindHello   byte = iota + 64 // a Hello, the first of all
	KindLeased                   // a dhcp.Lease, before the answer to the guest
	KindHandled                  // nothing: HandledFrames more frames were handled
	KindAnswer                   // an Answer to KindAsk
	KindLog                      // a LogLine
)

// HandledFrames is after how many frames a gateway says KindHandled.
const HandledFrames = 32

// A Hello is the first that a gateway says.
type Hello struct {
	Protocol int    `json:"protocol"`
	Version  string `json:"version"` // of its program
	UID      int    `json:"uid"`
	Error    string `json:"error,omitempty"` // why it kept the daemon's rights
}

// An Answer tells that the gateway works, and its counters.
type Answer struct {
	Ask                  uint64 // which it answers
	Stats                stats
	DHCPSize, DHCPLeased int // as dhcp.Server.Stats has them
	dhcp.Counters
}

// A LogLine is for the daemon's log.
type LogLine struct {
	Level   int      `json:"level"` // a slog.Level
	Message string   `json:"message"`
	Args    []string `json:"args,omitempty"` // keys and values in turn
}

// errStream reports bytes that are no frame and no message. Nothing behind them can be understood.
var errStream = errors.New("bytes that are neither frames nor messages")

// A Parser takes a stream apart.
type Parser struct {
	// Frames is given runs of whole frames, which it borrows.
	Frames func(frame.Batch) error
	// Message is given each message, whose body it borrows.
	Message func(kind byte, body []byte) error
	// MaxMessage is the longest message that is taken, in bytes.
	MaxMessage int
}

// Parse handles the whole frames and messages at the head of buf and returns how many bytes these were. The rest is the begin of
// what has not fully arrived. After an error the stream is worthless.
func (p *Parser) Parse(buf []byte) (used int, err error) {
	for {
		b, n, runts, err := frame.Scan(buf[used:])
		if runts > 0 {
			return used, errStream
		}
		if b.Len() > 0 {
			if err := p.Frames(b); err != nil {
				return used, err
			}
		}
		used += n
		if n > 0 {
			continue
		}
		if err == nil {
			return used, nil
		}
		if n, err = p.message(buf[used:]); n == 0 || err != nil {
			return used, err
		}
		used += n
	}
}

// message handles a message at the head of buf, if it is there as a whole, and returns its length.
func (p *Parser) message(buf []byte) (int, error) {
	head := binary.BigEndian.Uint32(buf)
	n := int(head &^ messageBit)
	if head&messageBit == 0 || n < 1 || n > p.MaxMessage {
		return 0, errStream
	}
	if len(buf) < frame.PrefixLen+n {
		return 0, nil
	}
	return frame.PrefixLen + n, p.Message(buf[frame.PrefixLen], buf[headLen:frame.PrefixLen+n])
}

// Take decodes the body of a message and passes it on.
func Take[T any](body []byte, to func(T) error) error {
	var v T
	if err := json.Unmarshal(body, &v); err != nil {
		return err
	}
	return to(v)
}

// AppendMessage appends a message with a body as JSON; nil for none.
func AppendMessage(dst []byte, kind byte, body any) []byte {
	var b []byte
	if body != nil {
		var err error
		if b, err = json.Marshal(body); err != nil {
			panic(fmt.Sprintf("message %d: %v", kind, err)) // all bodies are types of this package
		}
	}
	dst = binary.BigEndian.AppendUint32(dst, messageBit|uint32(1+len(b)))
	return append(append(dst, kind), b...)
}

// Next is how long the frame or message at the begin of b is, in bytes with what is before it, and whether it is a frame.
func Next(b []byte) (n int, isFrame bool) {
	head := binary.BigEndian.Uint32(b)
	return frame.PrefixLen + int(head&^messageBit), head&messageBit == 0
}

// AppendSession appends the message that the frames behind it come from a session.
func AppendSession(dst []byte, id uint64) []byte {
	dst = binary.BigEndian.AppendUint32(dst, messageBit|(1+8))
	return binary.BigEndian.AppendUint64(append(dst, kindSession), id)
}
