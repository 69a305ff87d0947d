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

// A subject is a test of a package, or a part of one.
type subject struct{ Package, Test string }

// results are what became of each: "pass", "fail", or "skip" with the rule after it, if there is one.
type results map[subject]string

// count reads the events of go test -json. What packages and failed tests print goes to w.
func (all results) count(r io.Reader, w io.Writer) error {
	printed, rules := map[subject]string{}, map[subject]string{}
	d := json.NewDecoder(r)
	for {
		var e struct {
			subject
			Action, Output string
		}
		if err := d.Decode(&e); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("read the events of go test: %w", err)
		}
		switch {
		case e.Action == "output" || e.Action == "build-output":
			if _, text, ok := strings.Cut(e.Output, ": "+rule); ok {
				rules[e.subject] = strings.TrimSpace(text)
			}
			if e.Test == "" && e.Output != "PASS\n" {
				_, _ = io.WriteString(w, e.Output)
			} else {
				printed[e.subject] += e.Output
			}
			continue
		case e.Test == "":
			continue
		case e.Action == "skip":
			all[e.subject] = "skip" + rules[e.subject]
		case e.Action == "fail":
			all[e.subject] = e.Action
			_, _ = io.WriteString(w, printed[e.subject])
		case e.Action == "pass":
			all[e.subject] = e.Action
		default:
			continue
		}
		delete(printed, e.subject)
	}
}

// report writes how many tests there were, and which were skipped by which rule. A skip without one is an error, and so are no
// tests at all.
func (all results) report(w io.Writer) error {
	var bad []string
	var top, parts, failed, skipped int
	for _, s := range slices.SortedFunc(maps.Keys(all), func(a, b subject) int {
		return strings.Compare(a.Package+" "+a.Test, b.Package+" "+b.Test)
	}) {
		name := strings.TrimPrefix(strings.TrimPrefix(s.Package, module), "/") + " " + s.Test
		why, isSkip := strings.CutPrefix(all[s], "skip")
		switch {
		case isSkip && why == "":
			bad = append(bad, name)
		case isSkip:
			_, _ = fmt.Fprintf(w, "    skipped: %s: %s\n", name, why)
			skipped++
		case all[s] == "fail":
			failed++
		case strings.Contains(s.Test, "/"):
			parts++
		default:
			top++
		}
	}
	_, _ = fmt.Fprintf(w, "test.mac: %d tests and %d parts of tests ran as the Mac's program, %d failed, %d were skipped by a rule of macOS, %d without one\n",
		top, parts, failed, skipped, len(bad))
	switch {
	case len(bad) > 0:
		return fmt.Errorf("skipped without a rule of macOS: %s: begin the text of the skip with %q and say the rule", strings.Join(bad, ", "), rule)
	case top == 0:
		return errors.New("no test ran")
	}
	return nil
}
