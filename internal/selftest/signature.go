// SPDX-License-Identifier: Apache-2.0

package selftest

import (
	"os"
	"regexp"

	"github.com/socket-vmnet2/socket_vmnet2/internal/codesign"
)

// virtualization is what macOS 26 asks for where the user is not root.
var virtualization = regexp.MustCompile(`<key>com\.apple\.security\.virtualization</key>\s*<true\s*/>`)

// Entitlement tells whether the program at path is signed with com.apple.security.virtualization, which lets macOS 26 start
// vmnet for users other than root.
func Entitlement(path string) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return "not known: " + err.Error()
	}
	s, err := codesign.Read(b)
	switch {
	case err != nil:
		return "no: " + err.Error()
	case s.Damaged != "":
		return "no: the program was changed after it was signed: " + s.Damaged
	case virtualization.Match(s.Entitlements):
		return "yes: com.apple.security.virtualization"
	}
	return "no: signed without com.apple.security.virtualization"
}
