// SPDX-License-Identifier: Apache-2.0

package compat

import (
	"errors"
	"fmt"
	"math"
	"net/netip"
	"os/user"
	"slices"
	"strconv"
	"strings"
)

// LongestRuntimePath is the name, below the runtime directory, of the socket with the longest path.
const LongestRuntimePath = "/dgram/sock"

func setRuntimeDir(s *settings, v string) error {
	if v == "" {
		return errors.New(`--runtime-dir is empty: give a directory, or "none"`)
	}
	if n := len(v) + len(LongestRuntimePath); v != RuntimeDirNone && n > maxSocketPath {
		return fmt.Errorf("--runtime-dir=%s is too long: the path of %s below it has %d bytes, that of a socket %d at most",
			v, LongestRuntimePath[1:], n, maxSocketPath)
	}
	s.RuntimeDir = v
	return nil
}

func setAntiSpoof(s *settings, _ string) error {
	s.AntiSpoof = true
	return nil
}

// addAllowUID takes a number or a name. What consists of digits is a number: no user's name does on macOS or Linux.
func addAllowUID(s *settings, v string) error {
	uid, err := parseUID(v)
	if err != nil {
		return err
	}
	if !slices.Contains(s.AllowUIDs, uid) {
		s.AllowUIDs = append(s.AllowUIDs, uid)
	}
	return nil
}

func parseUID(v string) (uint32, error) {
	text := v
	if strings.Trim(v, "0123456789") != "" {
		u, err := user.Lookup(v)
		if err != nil {
			return 0, fmt.Errorf("--allow-uid=%s is no number and no user's name", v)
		}
		text = u.Uid
	}
	// The largest number stands for "no user" in every call that takes one.
	n, err := strconv.ParseUint(text, 10, 32)
	if err != nil || n == math.MaxUint32 {
		return 0, fmt.Errorf("--allow-uid=%s is no user's number from 0 to %d", v, uint32(math.MaxUint32-1))
	}
	return uint32(n), nil
}

// setMetricsListen takes an address, no name: what a name leads to is not ours to say.
func setMetricsListen(s *settings, v string) error {
	text := v
	if port, ok := strings.CutPrefix(v, "localhost:"); ok {
		text = "127.0.0.1:" + port
	}
	a, err := netip.ParseAddrPort(text)
	if err != nil || a.Addr().Zone() != "" {
		return fmt.Errorf("--metrics-listen=%s is no address with a port, such as 127.0.0.1:9105", v)
	}
	s.MetricsListen = netip.AddrPortFrom(a.Addr().Unmap(), a.Port())
	return nil
}

func setMetricsAnywhere(s *settings, _ string) error {
	s.MetricsAnywhere = true
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
