// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"context"
	"testing"

	"github.com/socket-vmnet2/socket_vmnet2/internal/find"
)

// FuzzAnswers gives any text as any file's or program's. Whatever it is, there is a report.
func FuzzAnswers(f *testing.F) {
	for _, answer := range macOS15 {
		f.Add(answer)
	}
	f.Add(lease("192.168.105.2", "2:3") + plistOf("<key>Subnets</key><array/>"))
	f.Fuzz(func(t *testing.T, answer string) {
		s := find.System{GOOS: "darwin", Run: func(context.Context, string, ...string) ([]byte, error) { return []byte(answer), nil }}
		x := &exam{facts: &facts{System: System{System: s}, Inventory: &find.Inventory{}}, ctx: t.Context()}
		parseLeases(answer)
		maskedPrefix(answer, answer)
		entitled([]byte(answer))
		x.qemu("/q", answer)
		x.bootpdDisabled()
		x.firewallApps()
		x.macOS = answer
		x.macMajor()
		for _, found := range x.findings {
			for _, r := range found.Text {
				if r < ' ' || r == 0x7f {
					t.Errorf("%q", found.Text)
				}
			}
		}
	})
}
