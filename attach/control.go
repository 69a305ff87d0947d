// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"time"
)

// Control asks and tells a running daemon by its control socket. It is the daemon's stream socket, or its runtime directory, as
// Dial has it:
//
//	clients, err := attach.Control("/var/run/socket_vmnet").Clients(ctx)
//
// What the daemon refuses is an *Error; errors of the connection are those of Dial.
type Control string

// maxControl bounds an answer, in bytes. 256 clients take about 300 KiB.
const maxControl = 64 << 20

// Status is what the daemon knows of itself.
func (c Control) Status(ctx context.Context) (*Status, error) {
	var s Status
	if err := c.do(ctx, http.MethodGet, "/v1/status", &s); err != nil {
		return nil, err
	}
	return &s, nil
}

// Clients are those that are connected. The answer may be 100 ms old.
func (c Control) Clients(ctx context.Context) ([]Client, error) {
	var s Status
	err := c.do(ctx, http.MethodGet, "/v1/clients", &s)
	return s.Clients, err
}

// Kick disconnects a client. Root and the daemon's user may. A client that connects again is served again.
func (c Control) Kick(ctx context.Context, id uint64) error {
	return c.do(ctx, http.MethodDelete, fmt.Sprintf("/v1/clients/%d", id), &struct{}{})
}

// do makes one request, which is all that the daemon takes on one connection, and decodes the answer into v.
func (c Control) do(ctx context.Context, method, path string, v any) error {
	var (
		at   string
		lost error // why there is no connection
	)
	hc := http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			// The first is for root and the daemon's user alone: members of the group cannot keep it busy.
			conn, name, err := connect(ctx, string(c), "control.root")
			if err != nil {
				conn, name, err = connect(ctx, string(c), "control")
			}
			if at, lost = name, err; err != nil {
				return nil, err
			}
			return conn, nil
		},
	}}
	req, err := http.NewRequestWithContext(ctx, method, "http://localhost"+path, nil)
	if err != nil {
		return fmt.Errorf("attach: %w", err)
	}
	resp, err := hc.Do(req)
	switch {
	case lost != nil:
		return lost
	case err != nil:
		return fmt.Errorf("attach: %s: %w", at, err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxControl))
	if err == nil && resp.StatusCode >= 300 {
		var r reply
		if err = json.Unmarshal(body, &r); err == nil && r.Error != nil {
			return &Error{Code: r.Error.Code, Text: r.Error.Text, Path: at}
		}
		err = fmt.Errorf("answer %s", resp.Status)
	}
	if err == nil {
		err = json.Unmarshal(body, v)
	}
	if err != nil {
		return fmt.Errorf("attach: %s: %s: %w", at, path, err)
	}
	return nil
}

// ranOnFor reports whether the daemon answers, and has run for at least that long: through the life of a link, say. An upgrade in place
// does not count as an end.
func (c Control) ranOnFor(ctx context.Context, age time.Duration) bool {
	var v struct {
		Uptime float64 `json:"uptime_s"`
	}
	return c.do(ctx, http.MethodGet, "/v1/version", &v) == nil && v.Uptime >= age.Seconds()
}

// A Status describes a daemon at one moment: the members of docs/control-api.md that most programs want. Those that do not apply are
// zero.
type Status struct {
	Now    time.Time `json:"now"`
	Daemon struct {
		Version    string    `json:"version"`
		PID        int       `json:"pid"`
		UID        int       `json:"uid"`
		Socket     string    `json:"socket"`
		RuntimeDir string    `json:"runtime_dir"`
		Started    time.Time `json:"started"`  // an upgrade in place changes neither this
		Uptime     float64   `json:"uptime_s"` // nor this
		Upgrades   int       `json:"upgrades"`
		MaxClients int       `json:"max_clients"`
	} `json:"daemon"`
	Network struct {
		State     string       `json:"state"` // "starting", "running" or "failed"
		Error     string       `json:"error"` // why it failed
		Backend   string       `json:"backend"`
		Mode      string       `json:"mode"`
		Interface string       `json:"interface"` // of the host, in bridged mode
		Subnet    netip.Prefix `json:"subnet"`
		Gateway   netip.Addr   `json:"gateway"`
		MTU       int          `json:"mtu_bytes"`
		MaxFrame  int          `json:"max_frame_bytes"`
		Isolated  bool         `json:"isolated"`
		Offload   bool         `json:"offload"`
	} `json:"network"`
	Clients []Client `json:"clients"`
	Totals  struct {
		Connects uint64  `json:"connects"`
		Refused  uint64  `json:"refused"`
		ToNet    Traffic `json:"to_net"`
		ToClient Traffic `json:"to_client"`
	} `json:"totals"`
	Health []Problem `json:"health"` // the worst first
}

// A Client is one connection and the guest behind it.
type Client struct {
	ID        uint64 `json:"id"`        // for Kick
	Name      string `json:"name"`      // as WithName gave it
	Transport string `json:"transport"` // "stream", "unixgram", "passed-datagram" or "passed-stream"
	State     string `json:"state"`     // "quiet", "starting", "running", "stalled" or "leaving"
	Error     string `json:"error"`     // why it has no interface, while that is tried again
	Peer      struct {
		Known   bool   `json:"known"`
		UID     uint32 `json:"uid"`
		PID     int    `json:"pid"`
		User    string `json:"user"`
		Command string `json:"command"`
	} `json:"peer"`
	MAC       string     `json:"mac"`
	IP        netip.Addr `json:"ip"`
	Hostname  string     `json:"hostname"` // as the guest calls itself to DHCP
	Connected time.Time  `json:"connected"`
	ToNet     Traffic    `json:"to_net"`
	ToClient  Traffic    `json:"to_client"`
}

// Traffic counts frames one way.
type Traffic struct {
	Frames uint64            `json:"frames"`
	Bytes  uint64            `json:"bytes"`
	Drops  map[string]uint64 `json:"drops"` // by reason
}

// A Problem is something that is wrong. docs/status.md explains the codes.
type Problem struct {
	Code     string   `json:"code"`
	Severity string   `json:"severity"` // "error", "warning" or "notice"
	Clients  []uint64 `json:"clients"`
	Text     string   `json:"text"`
	Fix      []string `json:"fix"`
}
