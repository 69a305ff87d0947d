// SPDX-License-Identifier: Apache-2.0

package compat

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestOldProgramKnowsNone: every new name is unknown to it, and what was an unambiguous prefix still is.
func TestOldProgramKnowsNone(t *testing.T) {
	for _, f := range Flags(New)[len(Flags(Old)):] {
		name := f.Names()[0]
		r := parse(t, Old, words("--"+name+"=x /s"))
		assert.Nil(t, r.cfg)
		assert.Equal(t, "ERROR| unknown option --"+name+"\n", r.stderr, name)
	}
	for prefix, want := range map[string]func(*Config){
		"--vmnet-disable":      noDHCP,
		"--vmnet-interfac=en0": nil, // ambiguous with --vmnet-interface-id as ever
		"--vmnet-interface-=" + goodUUID: func(c *Config) {
			c.InterfaceID = [16]byte{0x0E, 0x21, 0xC1, 0xD4, 0x43, 0xD9, 0x43, 0x63, 0xB7, 0x67, 0xA6, 0x48, 0x8D, 0x25, 0xC9, 0x3E}
		},
	} {
		r := parse(t, Old, words("--vmnet-gateway=192.168.105.1 "+prefix+" /s"))
		if want == nil {
			assert.Nil(t, r.cfg, prefix)
			continue
		}
		assert.Equal(t, addressed("/s", "192.168.105.1", "192.168.105.0/24", "192.168.105.254", want), r.cfg, prefix)
	}
}

// FuzzReservation: what is accepted reads back as the same, and is an address that one guest can have.
func FuzzReservation(f *testing.F) {
	for _, seed := range []string{
		"52:54:00:12:34:56=192.168.105.10", "02:AB:cd:00:00:01=10.0.0.1", "=", "a=b", "52:54:00:12:34:56=", "::::::::::::::::=1.2.3.4",
		"ff:ff:ff:ff:ff:ff=255.255.255.255", "52:54:00:12:34:56=1.2.3.4=5",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, v string) {
		var s settings
		if err := s.addReservation(v); err != nil {
			require.True(t, strings.HasPrefix(err.Error(), "invalid --vmnet-reserve="+v))
			require.Empty(t, s.Reservations)
			return
		}
		require.Len(t, s.Reservations, 1)
		r := s.Reservations[0]
		require.Equal(t, strings.ToLower(v), r.MAC.String()+"="+r.Addr.String())
		require.Len(t, r.MAC, 6)
		require.Zero(t, r.MAC[0]&1)
		require.True(t, r.Addr.Is4() && r.Addr.IsGlobalUnicast() || r.Addr.IsLinkLocalUnicast(), v)
		require.Error(t, s.addReservation(v), "a second time")
	})
}

// FuzzForward: what is accepted reads back as the same.
func FuzzForward(f *testing.F) {
	for _, seed := range []string{
		"tcp:8080=192.168.105.5:80", "udp:53=10.0.0.1:53", "tcp:1=1.2.3.4:65535", ":=:", "tcp::=::", "tcp:1=1.2.3.4:0", "tcp:01=1.2.3.4:1", "tcp:10.0.0.1:8=1.2.3.4:1",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, v string) {
		var s settings
		if err := s.addForward(v); err != nil {
			require.True(t, strings.HasPrefix(err.Error(), "invalid --vmnet-forward="+v))
			require.Empty(t, s.Forwards)
			return
		}
		require.Len(t, s.Forwards, 1)
		fw := s.Forwards[0]
		require.Equal(t, v, fw.String())
		require.NotZero(t, fw.HostPort)
		require.NotZero(t, fw.Guest.Port())
		require.Error(t, s.addForward(v), "a second time")
	})
}
