// SPDX-License-Identifier: Apache-2.0

// Package pages makes the pages of the report from templates, in which every figure is computed from raw rounds.
package pages

import (
	"fmt"

	"github.com/socket-vmnet2/socket_vmnet2/test/report/internal/figures"
	"github.com/socket-vmnet2/socket_vmnet2/test/report/internal/output"
)

// Make makes every page and plot.
func Make(runs []*figures.Run, _ Peers) (output.Files, error) {
	page := "<!-- " + output.Mark + " -->\n"
	for _, r := range runs {
		page += fmt.Sprintf("%s: %d rounds\n", r.Name, len(r.Rounds))
	}
	return output.Files{"README.md": []byte(page)}, nil
}
