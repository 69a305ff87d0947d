// SPDX-License-Identifier: Apache-2.0

package compat

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
)

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
