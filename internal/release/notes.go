// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
)

// released is the heading of a version that is out: "## 1.2.3 - 2026-12-24".
var released = regexp.MustCompile(`^## (\S+) - \d{4}-\d{2}-\d{2}$`)

// printNotes prints what CHANGELOG.md says of a version.
func printNotes(stdout io.Writer, version string) error {
	b, err := os.ReadFile("CHANGELOG.md")
	if err != nil {
		return err
	}
	text, err := notes(string(b), version)
	if err != nil {
		return fmt.Errorf("CHANGELOG.md: %w", err)
	}
	_, err = io.WriteString(stdout, text)
	return err
}

// notes cuts the section of a version out of the changes.
func notes(changes, version string) (string, error) {
	number := strings.TrimPrefix(version, "v")
	var section []string
	found, inside := 0, false
	for line := range strings.Lines(changes) {
		if strings.HasPrefix(line, "## ") {
			heading := released.FindStringSubmatch(strings.TrimSpace(line))
			if heading == nil && strings.Contains(line, number) {
				return "", fmt.Errorf("heading %q: want \"## %s - YYYY-MM-DD\"", strings.TrimSpace(line), number)
			}
			if inside = heading != nil && heading[1] == number; inside {
				found++
			}
			continue
		}
		if inside {
			section = append(section, line)
		}
	}
	text := strings.TrimSpace(strings.Join(section, ""))
	switch {
	case found == 0:
		return "", fmt.Errorf("no section \"## %s - YYYY-MM-DD\": put the version and the date in place of Unreleased, and tag that commit", number)
	case found > 1:
		return "", fmt.Errorf("%d sections %q", found, number)
	case text == "":
		return "", errors.New("the section " + number + " is empty")
	}
	return text + "\n", nil
}
