// SPDX-License-Identifier: Apache-2.0

package selftest

import (
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/socket-vmnet2/socket_vmnet2/internal/codesign"
)

func plist(body string) []byte {
	return []byte(`<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">
<plist version="1.0"><dict>` + body + `</dict></plist>
`)
}

// TestEntitlement reads what the project's own signer writes into programs for both kinds of Macs.
func TestEntitlement(t *testing.T) {
	dir := t.TempDir()
	main := filepath.Join(dir, "main.go")
	require.NoError(t, os.WriteFile(main, []byte("package main\n\nfunc main() {}\n"), 0o600))
	for arch, unsigned := range map[string]string{
		"amd64": "no: the program is not signed",
		"arm64": "no: signed without com.apple.security.virtualization", // Go's linker signs it
	} {
		t.Run(arch, func(t *testing.T) {
			path := filepath.Join(dir, arch)
			build := exec.CommandContext(t.Context(), "go", "build", "-o", path, main)
			build.Env = append(os.Environ(), "GOOS=darwin", "GOARCH="+arch, "CGO_ENABLED=0")
			out, err := build.CombinedOutput()
			require.NoError(t, err, "%s", out)
			assert.Equal(t, unsigned, Entitlement(path))
			program, err := os.ReadFile(path)
			require.NoError(t, err)
			for _, tt := range []struct {
				entitlements []byte
				want         string
			}{
				{nil, "no: signed without com.apple.security.virtualization"},
				{plist("<key>com.apple.security.virtualization</key><true/>"), "yes: com.apple.security.virtualization"},
				{plist("<key>com.apple.security.virtualization</key><false/>"), "no: signed without com.apple.security.virtualization"},
				{plist("<key>com.apple.security.hypervisor</key><true/>"), "no: signed without com.apple.security.virtualization"},
			} {
				signed, err := codesign.Sign(program, codesign.Options{Identifier: "test", Entitlements: tt.entitlements})
				require.NoError(t, err)
				require.NoError(t, os.WriteFile(path, signed, 0o600))
				assert.Equal(t, tt.want, Entitlement(path), "%s", tt.entitlements)
			}
		})
	}
	assert.Contains(t, Entitlement(main), "not known: ")
	assert.Contains(t, Entitlement(filepath.Join(dir, "absent")), "not known: ")
}

// FuzzEntitlements reads signatures of any form.
func FuzzEntitlements(f *testing.F) {
	blob := binary.BigEndian.AppendUint32(nil, superBlobMagic)
	blob = binary.BigEndian.AppendUint32(blob, 33)
	blob = binary.BigEndian.AppendUint32(blob, 1)
	blob = binary.BigEndian.AppendUint32(blob, entitlementsSlot)
	blob = binary.BigEndian.AppendUint32(blob, 20)
	blob = binary.BigEndian.AppendUint32(blob, entitlementsMagic)
	blob = binary.BigEndian.AppendUint32(blob, 13)
	blob = append(blob, "plist"...)
	got, err := entitlementsIn(blob)
	require.NoError(f, err)
	require.Equal(f, "plist", string(got))
	f.Add(blob)
	f.Add(blob[:30])
	f.Fuzz(func(t *testing.T, in []byte) {
		got, err := entitlementsIn(in)
		if err == nil {
			require.LessOrEqual(t, len(got), len(in))
		}
	})
}
