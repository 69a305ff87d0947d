// SPDX-License-Identifier: Apache-2.0

package state

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
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
	anchor [16]byte     // UUID of the interface that lives as long as the network; null = none
	subnet netip.Prefix // IPv4, masked; invalid = none
	// extra are top-level fields that this program does not know. They are written back as they were, so that what a
	// newer program of the same version keeps here survives.
	extra map[string]json.RawMessage
}

// leaseJSON is a lease as it is written.
type leaseJSON struct {
	MAC string `json:"mac"`
	Lease
}

// encode writes {"version": 1, "leases": [{"mac", "ip", "expires", "hostname", "name"}...], "interface_id", "subnet",
// ...}, leases sorted by address.
func encode(c content) ([]byte, error) {
	leases := make([]leaseJSON, 0, len(c.leases))
	for _, l := range c.leases {
		l.Expires = writable(l.Expires)
		leases = append(leases, leaseJSON{l.MAC.String(), l})
	}
	slices.SortFunc(leases, func(a, b leaseJSON) int { return a.IP.Compare(b.IP) })
	top := map[string]any{"version": version, "leases": leases}
	for k, v := range c.extra {
		top[k] = v
	}
	if b := c.anchor; b != [16]byte{} {
		top["interface_id"] = fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
	}
	if c.subnet.IsValid() {
		top["subnet"] = c.subnet
	}
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
func decode(b []byte) (c content, err error) {
	if len(b) > maxSize {
		return content{}, fmt.Errorf("decode state: more than %d bytes", maxSize)
	}
	if err := json.Unmarshal(b, &c.extra); err != nil {
		return content{}, fmt.Errorf("decode state: %w", err)
	}
	var v int
	if err := json.Unmarshal(c.extra["version"], &v); err != nil || v != version {
		return content{}, fmt.Errorf("decode state: version %s: %w", cut(c.extra["version"]), errVersion)
	}
	var leases []leaseJSON
	var id, subnet *string
	for field, to := range map[string]any{"leases": &leases, "interface_id": &id, "subnet": &subnet} {
		if raw, ok := c.extra[field]; ok && err == nil {
			if err = json.Unmarshal(raw, to); err != nil {
				err = fmt.Errorf("%s: %w", field, err)
			}
		}
	}
	maps.DeleteFunc(c.extra, func(field string, _ json.RawMessage) bool {
		return slices.Contains([]string{"version", "leases", "interface_id", "subnet"}, field)
	})
	if err == nil {
		c.leases, err = checkLeases(leases)
	}
	if err == nil && id != nil {
		c.anchor, err = ParseUUID(*id)
	}
	if err == nil && subnet != nil {
		if c.subnet, err = netip.ParsePrefix(*subnet); err == nil {
			err = checkSubnet(c.subnet)
		}
	}
	if err != nil {
		return content{}, fmt.Errorf("decode state: %w", err)
	}
	return c, nil
}

func checkLeases(in []leaseJSON) ([]Lease, error) {
	if len(in) > maxLeases {
		return nil, fmt.Errorf("check leases: %d are more than the limit of %d", len(in), maxLeases)
	}
	macs, ips := map[string]bool{}, map[netip.Addr]bool{}
	out := make([]Lease, 0, len(in))
	for _, j := range in {
		l := j.Lease
		var err error
		if l.MAC, err = net.ParseMAC(j.MAC); err != nil {
			return nil, fmt.Errorf("check lease: %w", err)
		}
		if err := l.check(); err != nil {
			return nil, err
		}
		if macs[string(l.MAC)] || ips[l.IP] {
			return nil, fmt.Errorf("check lease of %s: %s or its MAC address is there twice", l.MAC, l.IP)
		}
		macs[string(l.MAC)], ips[l.IP] = true, true
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
