// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"fmt"
	"net"
)

// A Transport is the kind of socket that carries the frames.
type Transport string

// The transports.
const (
	// Datagram is one Ethernet frame per datagram: what VZ, vfkit, krunkit and QEMU's -netdev dgram take.
	Datagram Transport = "dgram"
	// Stream is a 4-byte big-endian length before each frame: what QEMU's -netdev stream and -netdev socket take.
	Stream Transport = "stream"
)

// An Option adds something to a request.
type Option func(*settings)

// settings are what the options made.
type settings struct {
	request  request
	detached bool
	notify   func(error)
	err      error // of the last one that makes no sense
}

// options applies opts to the defaults.
func options(opts []Option) (settings, error) {
	s := settings{request: request{Version: version, Transport: Datagram}}
	for _, o := range opts {
		o(&s)
	}
	return s, s.err
}

// WithName gives the link a name for the daemon's log and status: the machine's, say. At most 128 bytes, printable.
func WithName(name string) Option {
	return func(s *settings) { s.request.Name = name }
}

// WithMAC tells the daemon the guest's hardware address. Guests work without.
func WithMAC(mac net.HardwareAddr) Option {
	return func(s *settings) {
		if s.request.MAC = mac.String(); len(mac) != 6 {
			s.err = fmt.Errorf("hardware address of %d bytes, want 6", len(mac))
		}
	}
}

// WithInterfaceID asks for the interface of that UUID: with the same one an interface gets the same hardware address each
// time (Info.MAC). A second link with an id that is in use is refused with ErrIDInUse.
func WithInterfaceID(uuid string) Option {
	return func(s *settings) { s.request.InterfaceID = uuid }
}

// WithTransport chooses the kind of socket. The default is Datagram.
func WithTransport(t Transport) Option {
	return func(s *settings) {
		if s.request.Transport = t; t != Datagram && t != Stream {
			s.err = fmt.Errorf("unknown transport %q, want %q or %q", t, Datagram, Stream)
		}
	}
}

// WithoutLifeline lets a descriptor that Adopt hands over live on its own: the session ends when the other end of its pair has
// been closed, which the daemon learns from its next frame to it, and this process may end before. Done is closed from the
// start then. It is an error on Dial.
func WithoutLifeline() Option {
	return func(s *settings) { s.detached = true }
}

// WithNotify has Keep call f with the reason when the daemon has gone and for each attempt to come back that fails, and with nil when
// the link is served again. It is called from one goroutine and must not wait for the link's end. Dial and Adopt do not call it.
func WithNotify(f func(error)) Option {
	return func(s *settings) { s.notify = f }
}
