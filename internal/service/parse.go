// SPDX-License-Identifier: Apache-2.0

package service

import (
	"encoding/xml"
	"strconv"
	"strings"
)

// launchdArguments are the ProgramArguments of a property list, as far as they can be read.
func launchdArguments(text string) (args []string) {
	var key string
	within := false
	d := xml.NewDecoder(strings.NewReader(text))
	for {
		token, err := d.Token()
		if err != nil {
			return args
		}
		switch t := token.(type) {
		case xml.StartElement:
			var s string
			switch {
			case t.Name.Local == "key" && d.DecodeElement(&s, &t) == nil:
				key = s
			case t.Name.Local == "array" && key == "ProgramArguments":
				within = true
			case t.Name.Local == "string" && within && d.DecodeElement(&s, &t) == nil:
				args = append(args, s)
			}
		case xml.EndElement:
			if t.Name.Local == "array" && within {
				return args
			}
		}
	}
}

// unitArguments is the command line in ExecStart= of a unit, as this package writes it. runtime is what %t stands for.
func unitArguments(text, runtime string) []string {
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(strings.TrimSpace(line), "ExecStart="); ok {
			return splitUnit(rest, runtime)
		}
	}
	return nil
}

// splitUnit takes a command line apart as systemd does: quotes, escapes, specifiers and "$$".
func splitUnit(line, runtime string) []string {
	var words []string
	var word strings.Builder
	quoted, inside := false, false
	for i := 0; i < len(line); i++ {
		next := ""
		if i+1 < len(line) {
			next = line[i+1 : i+2]
		}
		switch c := line[i]; {
		case c == ' ' && !quoted:
			if inside {
				words = append(words, word.String())
			}
			word.Reset()
			inside = false
			continue
		case c == '"':
			quoted = !quoted
		case c == '\\' && next == "x" && i+3 < len(line):
			n, err := strconv.ParseUint(line[i+2:i+4], 16, 8)
			if err != nil {
				return nil
			}
			word.WriteByte(byte(n))
			i += 3
		case c == '\\':
			word.WriteString(next)
			i++
		case c == '%' && next == "t":
			word.WriteString(runtime)
			i++
		case c == '%' && next == "%", c == '$' && next == "$" && len(words) > 0:
			word.WriteByte(c)
			i++
		default:
			word.WriteByte(c)
		}
		inside = true
	}
	if inside {
		words = append(words, word.String())
	}
	return words
}

// arguments are those of the job that is installed, its program apart.
func (s *Service) arguments(before state) []string {
	var words []string
	switch m := s.manager.(type) {
	case *launchd:
		words = launchdArguments(before.files[m.path()])
	case *systemd:
		words = unitArguments(before.files[m.servicePath()], s.sys.userRuntime())
	}
	if len(words) < 2 {
		return nil
	}
	return words[1:]
}

// findSocket sets the socket to that of the job as it is installed.
func (s *Service) findSocket(before state) {
	if args := s.arguments(before); args != nil {
		s.job.Socket = args[len(args)-1]
	}
}
