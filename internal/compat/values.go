// SPDX-License-Identifier: Apache-2.0

package compat

import (
	"errors"
	"fmt"
	"math"
	"net/netip"
	"os"
	"os/user"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/socket-vmnet2/socket_vmnet2/internal/state"
)

// oneOf makes an option that takes one of the values which its usage names: (a|b|c) has three.
func oneOf[T ~string](name, usage string, field *T) cli.Flag {
	arg, _, _ := strings.Cut(strings.TrimPrefix(usage, "`("), ")`")
	values := strings.Split(arg, "|")
	return Checked(name, usage, func(v string) error {
		switch last := len(values) - 1; {
		case slices.Contains(values, v):
			*field = T(v)
			return nil
		case name == "vmnet-mode":
			return legacyInvalid("Unknown vmnet mode "+quoted(v), name, v, "use host, shared or bridged")
		default:
			return invalid(name, v, "use "+strings.Join(values[:last], ", ")+" or "+values[last])
		}
	})
}

// invalid is an option with a value that it does not take, and what to do.
func invalid(name, v, advice string) error { return fmt.Errorf("invalid --%s=%s: %s", name, v, advice) }

// legacyInvalid is an invalid option for which socket_vmnet has a text of its own.
func legacyInvalid(text, name, v, advice string) error {
	return &textError{Lines: []string{text}, Text: invalid(name, v, advice).Error()}
}

// named makes an option whose value, which is what, may not be empty.
func named(name, usage, what string, field *string) *cli.GenericFlag {
	return Checked(name, usage, func(v string) error {
		if v == "" {
			return fmt.Errorf("--%s is empty: give %s", name, what)
		}
		*field = v
		return nil
	})
}

// number makes an option that takes a decimal number.
func number(name, usage string, low, high int, field *int) cli.Flag {
	return Checked(name, usage, func(v string) error {
		n, ok := parseDecimal(v, low, high)
		if !ok {
			return invalid(name, v, fmt.Sprintf("use a number from %d to %d", low, high))
		}
		*field = n
		return nil
	})
}

// uuid makes an option that takes one of that name in messages. The null UUID counts as not given.
func uuid(name, usage, what string, field *[16]byte) cli.Flag {
	return Checked(name, usage, func(v string) (err error) {
		if *field, err = state.ParseUUID(v); err != nil {
			return legacyInvalid("Failed to parse "+what+" "+quoted(v), name, v, "use a UUID such as that of uuidgen")
		}
		return nil
	})
}

func (s *settings) setSocketMode(v string) error {
	n, err := strconv.ParseUint(v, 8, 32)
	if err != nil || n > 0o777 {
		return invalid("socket-mode", v, "use an octal mode such as 0770, at most 0777")
	}
	s.SocketMode = os.FileMode(n)
	return nil
}

func (s *settings) setQueueSize(v string) error {
	digits := strings.TrimRight(v, "KkMm")
	unit, ok := map[string]int{"": 1, "K": 1 << 10, "k": 1 << 10, "M": 1 << 20, "m": 1 << 20}[v[len(digits):]]
	n, err := strconv.ParseUint(digits, 10, 31)
	s.QueueSize = int(n) * unit
	if !ok || err != nil || s.QueueSize < minQueueSize || s.QueueSize > maxQueueSize {
		return invalid("queue-size", v, "use a size from 64K to 8M")
	}
	return nil
}

// LongestRuntimePath is the name, below the runtime directory, of the socket with the longest path.
const LongestRuntimePath = "/dgram/sock"

func (s *settings) setRuntimeDir(v string) error {
	if v == "" {
		return errors.New(`--runtime-dir is empty: give a directory, or "none"`)
	}
	if n := len(v) + len(LongestRuntimePath); v != RuntimeDirNone && n > MaxSocketPath {
		return fmt.Errorf("--runtime-dir=%s is too long: the path of %s below it has %d bytes, that of a socket %d at most",
			v, LongestRuntimePath[1:], n, MaxSocketPath)
	}
	s.RuntimeDir = v
	return nil
}

// addAllowUID takes a number or a name. What consists of digits is a number: no user's name does on macOS or Linux.
func (s *settings) addAllowUID(v string) error {
	text := v
	if strings.Trim(v, "0123456789") != "" {
		u, err := user.Lookup(v)
		if err != nil {
			return invalid("allow-uid", v, "there is no user of that name")
		}
		text = u.Uid
	}
	// The largest number stands for "no user" in every call that takes one.
	uid, err := strconv.ParseUint(text, 10, 32)
	if err != nil || uid == math.MaxUint32 {
		return invalid("allow-uid", v, fmt.Sprintf("use a number from 0 to %d, or a user's name", uint32(math.MaxUint32-1)))
	}
	if !slices.Contains(s.AllowUIDs, uint32(uid)) {
		s.AllowUIDs = append(s.AllowUIDs, uint32(uid))
	}
	return nil
}

// setMetricsListen takes an address, no name: what a name leads to is not ours to say.
func (s *settings) setMetricsListen(v string) error {
	text := v
	if port, ok := strings.CutPrefix(v, "localhost:"); ok {
		text = "127.0.0.1:" + port
	}
	a, err := netip.ParseAddrPort(text)
	if err != nil || a.Addr().Zone() != "" {
		return invalid("metrics-listen", v, "use an address with a port, such as 127.0.0.1:9105")
	}
	s.MetricsListen = netip.AddrPortFrom(a.Addr().Unmap(), a.Port())
	return nil
}

// checkMetrics keeps the metrics on this host unless it was said that they may leave it.
func (s *settings) checkMetrics() error {
	a := s.MetricsListen
	switch {
	case s.MetricsAnywhere && !a.IsValid():
		return errors.New("--metrics-anywhere needs --metrics-listen=ADDR:PORT")
	case a.IsValid() && !a.Addr().IsLoopback() && !s.MetricsAnywhere:
		return fmt.Errorf("--metrics-listen=%s can be read from other hosts, without a password; use an address of this host alone, "+
			"such as 127.0.0.1, or allow it by --metrics-anywhere", a)
	}
	return nil
}

func (s *settings) addDNSRecord(v string) error {
	name, ip, ok := strings.Cut(v, "=")
	if !ok {
		return invalid("dns-record", v, "use NAME=IP, such as db.internal=192.168.105.9")
	}
	name = strings.ToLower(strings.TrimSuffix(name, "."))
	if !hostName.MatchString(name) || len(name) > 253 || strings.HasSuffix(name, ".") {
		return invalid("dns-record", v, quoted(name)+" is not a host name, whose labels have at most 63 bytes of letters, digits and hyphens, and all of it 253")
	}
	a, err := netip.ParseAddr(ip)
	if err != nil || !a.Is4() {
		return invalid("dns-record", v, quoted(ip)+" is not an IPv4 address")
	}
	s.DNSRecords = append(s.DNSRecords, dnsRecord{Name: name, Addr: a})
	return nil
}

// hostName are labels of 1 to 63 letters in lower case, digits, hyphens and underscores (RFC 1035, with the underscore that is common in
// the field). All of it has 253 bytes at most.
var hostName = regexp.MustCompile(`^(([a-z0-9_]|[a-z0-9_][a-z0-9_-]{0,61}[a-z0-9_])(\.|$))+$`)
