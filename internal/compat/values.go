// SPDX-License-Identifier: Apache-2.0

package compat

import (
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strconv"
	"strings"

	"github.com/socket-vmnet2/socket_vmnet2/internal/vnet"
)

func setSocketGroup(s *settings, v string) error {
	s.SocketGroup, s.SocketGroupSet = v, true
	return nil
}

func setMode(s *settings, v string) error {
	switch m := vnet.Mode(v); m {
	case vnet.ModeHost, vnet.ModeShared, vnet.ModeBridged:
		s.Mode = m
		return nil
	}
	return fmt.Errorf("Unknown vmnet mode %s", quoted(v)) //nolint:staticcheck // socket_vmnet's own text
}

func setInterface(s *settings, v string) error {
	if v == "" {
		return plainError{errors.New(`--vmnet-interface is empty: give an interface of this host, such as "en0"`)}
	}
	s.Interface = v
	return nil
}

func setInterfaceID(s *settings, v string) error {
	id, ok := parseUUID(v)
	if !ok {
		return fmt.Errorf("Failed to parse UUID %s", quoted(v)) //nolint:staticcheck // socket_vmnet's own text
	}
	s.InterfaceID, s.InterfaceIDSet = id, id != [16]byte{}
	return nil
}

func setNetworkID(s *settings, v string) error {
	id, ok := parseUUID(v)
	if !ok {
		return fmt.Errorf("Failed to parse network identifier UUID %s", quoted(v)) //nolint:staticcheck // socket_vmnet's own text
	}
	s.NetworkID, s.NetworkIDSet = id, id != [16]byte{}
	return nil
}

func setDisableDHCP(s *settings, _ string) error {
	s.DisableDHCP = true
	return nil
}

func setPidfile(s *settings, v string) error {
	s.Pidfile, s.PidfileSet = v, true
	return nil
}

func setBackend(s *settings, v string) error {
	switch b := Backend(v); b {
	case BackendAuto, BackendUsernet, BackendVmnet:
		s.Backend = b
		return nil
	}
	return fmt.Errorf("--backend=%s is unknown: use auto, usernet or vmnet", v)
}

func setSocketUser(s *settings, v string) error {
	if v == "" {
		return errors.New("--socket-user is empty: give the name of a user")
	}
	s.SocketUser = v
	return nil
}

func setGatewayUser(s *settings, v string) error {
	if v == "" {
		return errors.New("--gateway-user is empty: give the name of a user")
	}
	s.GatewayUser = v
	return nil
}

func setSocketMode(s *settings, v string) error {
	n, err := strconv.ParseUint(v, 8, 32)
	if err != nil || n > 0o777 {
		return fmt.Errorf("--socket-mode=%s is no octal mode from 0 to 0777", v)
	}
	s.SocketMode = os.FileMode(n)
	return nil
}

func setQueueSize(s *settings, v string) error {
	n, ok := parseSize(v)
	if !ok || n < MinQueueSize || n > MaxQueueSize {
		return fmt.Errorf("--queue-size=%s is no size from 64K to 8M", v)
	}
	s.QueueSize = n
	return nil
}

func setMaxClients(s *settings, v string) error {
	n, err := strconv.ParseUint(v, 10, 16)
	if err != nil || n < 1 || n > MaxMaxClients {
		return fmt.Errorf("--max-clients=%s is no number from 1 to %d", v, MaxMaxClients)
	}
	s.MaxClients = int(n)
	return nil
}

func setStateDir(s *settings, v string) error {
	if v == "" {
		return errors.New("--state-dir is empty: give a directory")
	}
	s.StateDir = v
	return nil
}

func addDNSRecord(s *settings, v string) error {
	name, ip, ok := strings.Cut(v, "=")
	if !ok {
		return fmt.Errorf("--dns-record=%s is not of the form NAME=IP", v)
	}
	name = strings.ToLower(strings.TrimSuffix(name, "."))
	if !validName(name) {
		return fmt.Errorf("--dns-record=%s: %s is no host name", v, quoted(name))
	}
	a, err := netip.ParseAddr(ip)
	if err != nil || !a.Is4() {
		return fmt.Errorf("--dns-record=%s: %s is no IPv4 address", v, quoted(ip))
	}
	s.DNSRecords = append(s.DNSRecords, DNSRecord{Name: name, Addr: a})
	return nil
}

// parseSize reads a number of bytes with an optional K (1,024) or M (1,048,576) behind it.
func parseSize(v string) (int, bool) {
	shift := 0
	switch {
	case strings.HasSuffix(v, "K"), strings.HasSuffix(v, "k"):
		shift = 10
	case strings.HasSuffix(v, "M"), strings.HasSuffix(v, "m"):
		shift = 20
	}
	if shift > 0 {
		v = v[:len(v)-1]
	}
	n, err := strconv.ParseUint(v, 10, 31)
	if err != nil || n > (1<<40)>>shift {
		return 0, false
	}
	return int(n) << shift, true
}

// parseUUID reads the form 01234567-89ab-cdef-0123-456789abcdef, the only one that uuid_parse takes.
func parseUUID(v string) (id [16]byte, ok bool) {
	if len(v) != 36 || v[8] != '-' || v[13] != '-' || v[18] != '-' || v[23] != '-' {
		return id, false
	}
	n, err := hex.Decode(id[:], []byte(v[:8]+v[9:13]+v[14:18]+v[19:23]+v[24:]))
	return id, err == nil && n == len(id)
}

// validName tells whether name is a host name in lower case: labels of 1 to 63 letters, digits, hyphens and underscores,
// 253 bytes at most (RFC 1035, with the underscore that is common in the field).
func validName(name string) bool {
	if len(name) > 253 {
		return false
	}
	for label := range strings.SplitSeq(name, ".") {
		if label == "" || len(label) > 63 || label[0] == '-' || label[len(label)-1] == '-' {
			return false
		}
		for _, c := range []byte(label) {
			if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' && c != '_' {
				return false
			}
		}
	}
	return true
}
