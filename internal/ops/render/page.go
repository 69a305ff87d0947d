// SPDX-License-Identifier: Apache-2.0

package render

import "strings"

// Styles are the parameters of the escape sequence that begins one.
const (
	bold   = "1"
	red    = "31"
	yellow = "33"
	cyan   = "36"
)

// A page is text that is being made. What is written to it is cleaned, so that only its own styles have escape sequences.
type page struct {
	Options
	text strings.Builder
}

// limit is the width in cells to keep to; 0: there is none.
func (p *page) limit() int {
	if p.Piped || p.Wide {
		return 0
	}
	return p.Width
}

func (p *page) styled(style, text string) string {
	text = Clean(text)
	if style == "" || !p.Color || p.Piped {
		return text
	}
	return "\x1b[" + style + "m" + text + "\x1b[0m"
}

// line writes a line. What does not fit goes on below, as far to the right as hang says; head, in front of it, has a style.
func (p *page) line(style, head, text string, hang int) {
	if p.text.WriteString(p.styled(style, head)); p.Piped || p.Width <= 0 {
		p.text.WriteString(Clean(text) + "\n")
		return
	}
	column := width(head)
	for i, word := range strings.Split(Clean(text), " ") {
		switch w := width(word); {
		case i == 0:
			column += w
		case column+1+w > p.Width && column > hang:
			p.text.WriteString("\n" + strings.Repeat(" ", hang))
			column = hang + w
		default:
			p.text.WriteByte(' ')
			column += 1 + w
		}
		p.text.WriteString(word)
	}
	p.text.WriteByte('\n')
}

// whole writes a line that is not broken, such as a command.
func (p *page) whole(text string) { p.text.WriteString(Clean(text) + "\n") }
