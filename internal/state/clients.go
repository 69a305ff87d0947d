// SPDX-License-Identifier: Apache-2.0

package state

import (
	"encoding/json"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strings"
)

const (
	// maxClients in a file, and maxClientPath bytes in the path of one, as in a socket's address.
	maxClients    = 4096
	maxClientPath = 107

	fieldClients = "datagram_clients"
)

// A Client is a datagram client that is answered at a path, and is not told of a restart of the daemon.
type Client struct {
	Path string           // absolute
	UID  uint32           // of its socket's owner
	MAC  net.HardwareAddr // of its guest, nil if it was silent
}

// check tells why c is none.
func (c Client) check() error {
	switch {
	case !filepath.IsAbs(c.Path), len(c.Path) > maxClientPath, strings.IndexByte(c.Path, 0) >= 0:
		return fmt.Errorf("check client: %q is not the path of a socket", cut([]byte(c.Path)))
	case c.MAC != nil && (len(c.MAC) != 6 || c.MAC[0]&1 != 0 || string(c.MAC) == "\x00\x00\x00\x00\x00\x00"):
		return fmt.Errorf("check client at %s: %q is not the address of a network interface", c.Path, c.MAC)
	}
	return nil
}

// Clients are the datagram clients as Open found them.
func (f *File) Clients() []Client { return slices.Clone(f.loaded.clients) }

// SaveClients tells that the datagram clients changed. It is written as SaveLeases does.
func (f *File) SaveClients(snapshot func() []Client) {
	f.change(func() { f.clients = snapshot })
}

// clientJSON is a client as it is written.
type clientJSON struct {
	Path string `json:"path"`
	UID  uint32 `json:"uid"`
	MAC  string `json:"mac,omitempty"`
}

// encodeClients adds the field of the clients to those of a file, if there are any. A path that is no text is left out:
// JSON could not hold it.
func encodeClients(clients []Client, top map[string]any) {
	var out []clientJSON
	for _, c := range clients[:min(len(clients), maxClients)] {
		if c.check() == nil && strings.ToValidUTF8(c.Path, "") == c.Path {
			out = append(out, clientJSON{c.Path, c.UID, c.MAC.String()})
		}
	}
	slices.SortFunc(out, func(a, b clientJSON) int { return strings.Compare(a.Path, b.Path) })
	if len(out) > 0 {
		top[fieldClients] = out
	}
}

// takeClients takes the field of the clients out of top.
func takeClients(top map[string]json.RawMessage) ([]Client, error) {
	raw, ok := top[fieldClients]
	if !ok {
		return nil, nil
	}
	delete(top, fieldClients)
	var in []clientJSON
	if err := json.Unmarshal(raw, &in); err != nil {
		return nil, fmt.Errorf("%s: %w", fieldClients, err)
	}
	if len(in) > maxClients {
		return nil, fmt.Errorf("check clients: %d are more than the limit of %d", len(in), maxClients)
	}
	paths := map[string]bool{}
	var out []Client
	for _, j := range in {
		c := Client{Path: j.Path, UID: j.UID}
		var err error
		if j.MAC != "" {
			c.MAC, err = net.ParseMAC(j.MAC)
		}
		if err == nil {
			err = c.check()
		}
		if err == nil && paths[c.Path] {
			err = fmt.Errorf("check client: %s is there twice", c.Path)
		}
		if err != nil {
			return nil, err
		}
		paths[c.Path] = true
		out = append(out, c)
	}
	return out, nil
}
