// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// rule is what the text of a skip has before the rule of macOS that forbids the test.
const rule = "darwin: "

// A test is one of a package, or a part of one.
type test struct{ Package, Test string }

// A tally is what became of the tests: of the last try, where there were two.
type tally struct {
	passed, failed map[test]bool
	skipped        map[test]string // with the rule, or "" without
}

// An event is a line of go test -json.
type event struct {
	test
	Action, Output string
}

// count reads the events of go test -json.
func count(r io.Reader) (*tally, error) {
	c := &tally{map[test]bool{}, map[test]bool{}, map[test]string{}}
	rules := map[test]string{}
	d := json.NewDecoder(r)
	for {
		var e event
		if err := d.Decode(&e); errors.Is(err, io.EOF) {
			return c, nil
		} else if err != nil {
			return nil, fmt.Errorf("read the events of go test: %w", err)
		}
		if e.Test == "" {
			continue
		}
		switch e.Action {
		case "output":
			if _, text, ok := strings.Cut(e.Output, ": "+rule); ok {
				rules[e.test] = strings.TrimSpace(text)
			}
		case "pass", "fail", "skip":
			delete(c.passed, e.test)
			delete(c.failed, e.test)
			delete(c.skipped, e.test)
			switch e.Action {
			case "pass":
				c.passed[e.test] = true
			case "fail":
				c.failed[e.test] = true
			default:
				c.skipped[e.test] = rules[e.test]
			}
		}
	}
}

// report writes how many tests there were, and which were skipped by which rule. A skip without one is an error, and so are no
// tests at all.
func (c *tally) report(w io.Writer) error {
	var bad []string
	for _, t := range slices.SortedFunc(maps.Keys(c.skipped), func(a, b test) int {
		return strings.Compare(a.Package+" "+a.Test, b.Package+" "+b.Test)
	}) {
		name := strings.TrimPrefix(strings.TrimPrefix(t.Package, module), "/") + " " + t.Test
		if c.skipped[t] == "" {
			bad = append(bad, name)
			continue
		}
		_, _ = fmt.Fprintf(w, "    skipped: %s: %s\n", name, c.skipped[t])
	}
	top := 0
	for t := range c.passed {
		if !strings.Contains(t.Test, "/") {
			top++
		}
	}
	_, _ = fmt.Fprintf(w, "test.mac: %d tests and %d parts of tests ran as the Mac's program, %d failed, %d were skipped by a rule of macOS, %d without one\n",
		top, len(c.passed)-top, len(c.failed), len(c.skipped)-len(bad), len(bad))
	switch {
	case len(bad) > 0:
		return fmt.Errorf("skipped without a rule of macOS: %s: begin the text of the skip with %q and say the rule", strings.Join(bad, ", "), rule)
	case top == 0:
		return errors.New("no test ran")
	}
	return nil
}
