// SPDX-License-Identifier: Apache-2.0

package draw

import (
	"bytes"
	"fmt"
	"html"
	"strings"

	"gonum.org/v1/plot/vg/vgsvg"

	"github.com/socket-vmnet2/socket_vmnet2/test/report/internal/output"
)

// finish makes of what the canvas wrote a file that anybody can read: the fonts that a system has, in that order, all of which
// have the same widths; and title and words for programs that read aloud.
func finish(canvas *vgsvg.Canvas, title, words string) []byte {
	var b bytes.Buffer
	if _, err := canvas.WriteTo(&b); err != nil {
		panic(fmt.Sprintf("a buffer does not fail: %v", err))
	}
	s := b.String()
	s = strings.ReplaceAll(s, "font-family:Liberation Sans;font-variant:normal;",
		"font-family:'Liberation Sans',Arial,Helvetica,sans-serif;")
	begin := strings.Index(s, "<svg")
	end := begin + strings.Index(s[begin:], ">")
	return []byte(`<?xml version="1.0" encoding="UTF-8"?>` + "\n<!-- " + output.Mark + " -->\n" +
		s[begin:end] + ` role="img" aria-labelledby="title words">` + "\n" +
		`<title id="title">` + html.EscapeString(title) + "</title>\n" +
		`<desc id="words">` + html.EscapeString(words) + "</desc>" + s[end+1:])
}
