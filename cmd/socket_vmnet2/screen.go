// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"

	"github.com/socket-vmnet2/socket_vmnet2/internal/compat"
	"github.com/socket-vmnet2/socket_vmnet2/internal/status"
)

// A screen is what standard output leads to.
type screen struct {
	fd    int // of the terminal; -1: it is none
	color bool
	moves bool // the cursor does
	ascii bool // it shows nothing else
}

// screenOf looks at standard output, at TERM and at NO_COLOR (https://no-color.org).
func screenOf(env compat.IO) screen {
	f, ok := env.Stdout.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return screen{fd: -1}
	}
	kind, _ := env.LookupEnv("TERM")
	none, _ := env.LookupEnv("NO_COLOR")
	moves := kind != "" && kind != "dumb"
	return screen{fd: int(f.Fd()), moves: moves, color: moves && none == "", ascii: !isUTF8(env.LookupEnv)}
}

// isUTF8 tells whether the locale is one of UTF-8.
func isUTF8(lookup func(string) (string, bool)) bool {
	for _, name := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if value, _ := lookup(name); value != "" {
			value = strings.ToUpper(strings.ReplaceAll(value, "-", ""))
			return strings.Contains(value, "UTF8")
		}
	}
	return false
}

// toASCII is what stands for a character where there is only ASCII: > for what was cut, else ?.
func toASCII(r rune) rune {
	switch {
	case r == '…':
		return '>'
	case r > '~':
		return '?'
	}
	return r
}

// options are those for text on it. The size is asked for each time: the window may have been changed.
func (s screen) options(wide bool) status.View {
	width, _ := s.size()
	return status.View{Piped: s.fd < 0, Width: width, Wide: wide, Color: s.color}
}

// size is its width and height; 0 where they are not known.
func (s screen) size() (width, height int) {
	width, height, err := term.GetSize(s.fd)
	if err != nil {
		return 0, 0
	}
	return width, height
}

// defaultWidth is that of text which is broken into lines where there is no terminal.
const defaultWidth = 80

// width is that of lines of text.
func (s screen) width() int {
	width, _ := s.size()
	return cmp.Or(width, defaultWidth)
}

// Sequences of a terminal: home, clear to the end of the line, clear to the end.
const (
	home       = "\x1b[H"
	clearLine  = "\x1b[K"
	clearBelow = "\x1b[J"
)

// draw is what shows text in the place of what is shown. Lines that do not fit below are left out.
func (s screen) draw(text string) string {
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	if _, height := s.size(); height > 0 && len(lines) > height {
		lines = append(lines[:height-1], "... more: make the window higher")
	}
	return home + strings.Join(lines, clearLine+"\r\n") + clearLine + clearBelow
}

// When a person is told that a command goes on: first, and from then on.
const (
	progressFirst = 2 * time.Second
	progressEvery = 5 * time.Second
)

// progress tells on a terminal that a command goes on, and with what, until the function that it returns is called.
func progress(env compat.IO, what string) (done func()) {
	f, ok := env.Stderr.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return func() {}
	}
	return progressOn(f, progressFirst, progressEvery, what)
}

// progressOn is progress on w, with these times.
func progressOn(w io.Writer, first, every time.Duration, what string) (done func()) {
	began, stop := time.Now(), make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for next := time.NewTimer(first); ; next.Reset(every) {
			select {
			case <-stop:
				next.Stop()
				return
			case <-next.C:
				_, _ = fmt.Fprintf(w, "... %s, %.0f s so far\n", what, time.Since(began).Seconds())
			}
		}
	})
	return func() { close(stop); wg.Wait() }
}
