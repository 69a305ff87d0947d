// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"strings"
)

// A logger writes vmnet-helper's lines: LEVEL [main] text.
type logger struct {
	w       io.Writer
	verbose bool
}

func (l *logger) line(level, format string, args []any) {
	text := strings.ReplaceAll(fmt.Sprintf(format, args...), "\n", " ")
	fmt.Fprintf(l.w, "%-5s [main] %s\n", level, text)
}

func (l *logger) error(format string, args ...any) { l.line("ERROR", format, args) }
func (l *logger) warn(format string, args ...any)  { l.line("WARN", format, args) }
func (l *logger) info(format string, args ...any)  { l.line("INFO", format, args) }

func (l *logger) debug(format string, args ...any) {
	if l.verbose {
		l.line("DEBUG", format, args)
	}
}
