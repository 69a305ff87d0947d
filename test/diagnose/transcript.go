// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"
)

// A transcript is what was typed and printed in a scene, by section.
type transcript struct {
	Sections []section `json:"sections"`
}

// A section is one block of the page.
type section struct {
	Name string `json:"name"`
	Text string `json:"text"`
}

// section begins another one.
func (t *transcript) section(name string) { t.Sections = append(t.Sections, section{Name: name}) }

// add adds a command and what it printed, with the names of directories changed as shown does.
func (t *transcript) add(shown *strings.Replacer, command, out string, code int) {
	var b strings.Builder
	fmt.Fprintf(&b, "$ %s\n", command)
	for line := range strings.Lines(out) {
		b.WriteString(strings.TrimRight(line, " \t\n") + "\n")
	}
	if code != 0 {
		fmt.Fprintf(&b, "(exit code %d)\n", code)
	}
	last := &t.Sections[len(t.Sections)-1]
	last.Text += shown.Replace(b.String())
}

// get is the text of a section.
func (t *transcript) get(name string) (string, bool) {
	for _, s := range t.Sections {
		if s.Name == name {
			return s.Text, true
		}
	}
	return "", false
}
