// SPDX-License-Identifier: Apache-2.0

package pages

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
)

// A Note is a figure of ours that no round has, such as a profile's, with what gives it again.
type Note struct {
	ID      string `json:"id"`
	Value   string `json:"value"` // as it is shown, with its unit: "89 %"
	What    string `json:"what"`
	Command string `json:"command"`
	Commit  string `json:"commit"`
	Date    string `json:"date"`
}

// Notes are those that a page may show.
type Notes []Note

// LoadNotes reads them from a file, strictly. No file is no notes.
func LoadNotes(path string) (notes Notes, err error) {
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the notes: %w", err)
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(&notes); err != nil {
		return nil, fmt.Errorf("read the notes of %s: %w", path, err)
	}
	for _, n := range notes {
		if n.ID == "" || n.Value == "" || n.What == "" || n.Command == "" || n.Commit == "" || n.Date == "" {
			return nil, fmt.Errorf("%s: note %q needs an id, a value, what it is, a command, a commit and a date", path, n.ID)
		}
	}
	return notes, nil
}

// value is what a template shows of a note.
func (n Notes) value(id string) (string, error) {
	i := slices.IndexFunc(n, func(x Note) bool { return x.ID == id })
	if i < 0 {
		return "", fmt.Errorf("there is no note %q", id)
	}
	return escape(n[i].Value), nil
}

// table shows all of them with where they are from, or nothing.
func (n Notes) table() string {
	if len(n) == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString("| figure | what it is | made by | commit | date |\n|---|---|---|---|---|\n")
	for _, x := range n {
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", escape(x.Value), escape(x.What), code(x.Command), code(x.Commit), escape(x.Date))
	}
	return strings.TrimSuffix(b.String(), "\n")
}
