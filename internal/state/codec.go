// SPDX-License-Identifier: Apache-2.0

package state

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"time"
)

const (
	// version of the file format. A file of another version is ignored.
	version = 1
	// maxSize of a file in bytes.
	maxSize = 4 << 20
	// maxLeases in a file: twice what the clients of a full daemon can have.
	maxLeases = 8192
)

var errVersion = errors.New("another version of the program wrote it")

// content is what a file holds.
type content struct {
	leases []Lease
	id     identity
	// extra are top-level fields that this program does not know. They are written back as they were, so that what a
	// newer program of the same version keeps here survives.
	extra map[string]json.RawMessage
}

// leaseJSON is a lease as it is written.
type leaseJSON struct {
	MAC      string    `json:"mac"`
	IP       string    `json:"ip"`
	Expires  time.Time `json:"expires"`
	Hostname string    `json:"hostname,omitempty"`
	Name     string    `json:"name,omitempty"`
}

// encode writes {"version": 1, "leases": [{"mac", "ip", "expires", "hostname", "name"}...], "interface_id", "subnet",
// ...}, leases sorted by address.
func encode(c content) ([]byte, error) {
	leases := slices.Clone(c.leases)
	slices.SortFunc(leases, func(a, b Lease) int { return a.IP.Compare(b.IP) })
	out := make([]leaseJSON, 0, len(leases))
	for _, l := range leases {
		out = append(out, leaseJSON{l.MAC.String(), l.IP.String(), writable(l.Expires), l.Hostname, l.Name})
	}
	top := map[string]any{}
	for k, v := range c.extra {
		top[k] = v
	}
	c.id.encode(top)
	top["version"], top["leases"] = version, out
	b, err := json.MarshalIndent(top, "", "\t")
	if err != nil {
		return nil, fmt.Errorf("encode state: %w", err)
	}
	if len(b) >= maxSize {
		return nil, fmt.Errorf("encode state: %d bytes are more than the limit of %d", len(b), maxSize)
	}
	return append(b, '\n'), nil
}

// writable is t as it is written. A clock that is far off must not keep the leases from being written at all: JSON has no
// years beyond 9999.
func writable(t time.Time) time.Time {
	t = t.UTC().Truncate(time.Second)
	if first := time.Unix(0, 0).UTC(); t.Before(first) {
		return first
	}
	if last := time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC); t.After(last) {
		return last
	}
	return t
}

// decode reads what encode writes. Every value is checked: one that cannot be makes the whole file worthless.
func decode(b []byte) (content, error) {
	if len(b) > maxSize {
		return content{}, fmt.Errorf("decode state: more than %d bytes", maxSize)
	}
	var top map[string]json.RawMessage
	if err := json.Unmarshal(b, &top); err != nil {
		return content{}, fmt.Errorf("decode state: %w", err)
	}
	var v int
	if err := json.Unmarshal(top["version"], &v); err != nil || v != version {
		return content{}, fmt.Errorf("decode state: version %s: %w", cut(top["version"]), errVersion)
	}
	var in []leaseJSON
	if raw, ok := top["leases"]; ok {
		if err := json.Unmarshal(raw, &in); err != nil {
			return content{}, fmt.Errorf("decode state: leases: %w", err)
		}
	}
	delete(top, "version")
	delete(top, "leases")
	leases, err := checkLeases(in)
	if err != nil {
		return content{}, fmt.Errorf("decode state: %w", err)
	}
	id, err := takeIdentity(top)
	if err != nil {
		return content{}, fmt.Errorf("decode state: %w", err)
	}
	if len(top) == 0 {
		top = nil
	}
	return content{leases: leases, id: id, extra: top}, nil
}

// takeIdentity takes the fields of the identity out of top.
func takeIdentity(top map[string]json.RawMessage) (identity, error) {
	var text [2]string
	for i, field := range []string{fieldID, fieldSubnet} {
		raw, ok := top[field]
		if !ok {
			continue
		}
		if err := json.Unmarshal(raw, &text[i]); err != nil {
			return identity{}, fmt.Errorf("%s: %w", field, err)
		}
		if text[i] == "" {
			return identity{}, fmt.Errorf("%s: it is empty", field)
		}
		delete(top, field)
	}
	return decodeIdentity(text[0], text[1])
}

func checkLeases(in []leaseJSON) ([]Lease, error) {
	if len(in) > maxLeases {
		return nil, fmt.Errorf("check leases: %d are more than the limit of %d", len(in), maxLeases)
	}
	macs, ips := map[string]bool{}, map[netip.Addr]bool{}
	out := make([]Lease, 0, len(in))
	for _, j := range in {
		mac, err := net.ParseMAC(j.MAC)
		if err != nil {
			return nil, fmt.Errorf("check lease: %w", err)
		}
		ip, err := netip.ParseAddr(j.IP)
		if err != nil {
			return nil, fmt.Errorf("check lease: %w", err)
		}
		l := Lease{MAC: mac, IP: ip, Expires: j.Expires, Hostname: j.Hostname, Name: j.Name}
		if err := l.check(); err != nil {
			return nil, err
		}
		if macs[string(mac)] || ips[ip] {
			return nil, fmt.Errorf("check lease of %s: %s or its MAC address is there twice", mac, ip)
		}
		macs[string(mac)], ips[ip] = true, true
		out = append(out, l)
	}
	return out, nil
}

// cut shortens a foreign value for a message.
func cut(b []byte) []byte {
	const limit = 40
	b = bytes.TrimSpace(b)
	if len(b) == 0 {
		return []byte("missing")
	}
	return b[:min(len(b), limit)]
}
