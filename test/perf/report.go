// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// resultRE are the names of directories with results, ours and those of socket_vmnet's own test.
var resultRE = regexp.MustCompile(`^(shared|bridged|host)-[A-Za-z0-9_:.]+-\d+$`)

// compareRE are the names of directories with comparisons.
var compareRE = regexp.MustCompile(`^((?:shared|bridged)-[a-z]+-\d+)\.((?:host|vm)-to-(?:host|vm))$`)

// report prints tables of what is in the directory of results. What is not whole is named, and is an error after the tables.
func (s *setting) report(o options) error {
	info, err := os.Stat(o.out)
	if err != nil {
		return fmt.Errorf("read results: %w. Name the directory with -o, or make results: test/perf.sh run", err)
	}
	if !info.IsDir() {
		return fmt.Errorf("read results: %s is no directory; -o wants the one that run has written to", o.out)
	}
	rows, bad := readRows(o.out)
	comparisons, worse := readComparisons(filepath.Join(o.out, compareDir))
	bad = append(bad, worse...)
	if len(rows)+len(comparisons) == 0 {
		return errors.Join(append([]error{fmt.Errorf("there are no results in %s. Make some: test/perf.sh run -o %s", o.out, o.out)}, bad...)...)
	}
	if len(rows) > 0 {
		fmt.Fprint(s.stdout, table(rows), "\n")
	}
	if len(comparisons) > 0 {
		fmt.Fprint(s.stdout, compareTable(comparisons), "\n")
	}
	if f := filepath.Join(o.out, roundsFile); exists(f) {
		fmt.Fprintf(s.stdout, "All rounds are in %s.\n", f)
	}
	return errors.Join(bad...)
}

// readRows reads the results of run below dir.
func readRows(dir string) (rows []row, bad []error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, []error{fmt.Errorf("read results: %w", err)}
	}
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		switch {
		case strings.HasSuffix(e.Name(), partSuffix):
			bad = append(bad, errPart(path))
		case e.IsDir() && resultRE.MatchString(e.Name()):
			r := row{name: e.Name()}
			for _, direction := range directions {
				u, err := readUse(filepath.Join(path, direction))
				if err == nil {
					r.set(direction, u)
				} else if !errors.Is(err, fs.ErrNotExist) {
					bad = append(bad, err)
				}
			}
			if len(r.uses) > 0 {
				rows = append(rows, r)
			} else {
				bad = append(bad, fmt.Errorf("%s has no results: measure again", path))
			}
		}
	}
	return rows, bad
}

func errPart(path string) error {
	return fmt.Errorf("%s is half of a run, which was interrupted or failed: measure again, or delete it", path)
}

// readUse reads a result: iperf3's, and what the daemon needed where that was written. base is the path without suffix.
func readUse(base string) (use, error) {
	b, err := os.ReadFile(base + ".json")
	if err != nil {
		return use{}, fmt.Errorf("read a result: %w", err)
	}
	t, err := parseTransfer(b)
	if err != nil {
		return use{}, fmt.Errorf("%s.json: %w: measure again", base, err)
	}
	received := t.End.Received
	u := use{Seconds: received.Seconds, Bytes: received.Bytes, BitsPerSecond: received.BitsPerSecond, Retransmits: t.End.Sent.Retransmits}
	b, err = os.ReadFile(base + useSuffix)
	if errors.Is(err, fs.ErrNotExist) {
		return u, nil // of socket_vmnet's own test
	}
	if err == nil {
		err = json.Unmarshal(b, &u)
	}
	if err != nil {
		return use{}, fmt.Errorf("%s, half of it? %w: measure again", base+useSuffix, err)
	}
	return u, nil
}

// readComparisons reads the results of comparisons below dir.
func readComparisons(dir string) (found []comparison, bad []error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, []error{fmt.Errorf("read results: %w", err)}
	}
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		m := compareRE.FindStringSubmatch(e.Name())
		switch {
		case strings.HasSuffix(e.Name(), partSuffix):
			bad = append(bad, errPart(path))
		case e.IsDir() && m != nil:
			c := comparison{name: m[1] + " " + m[2]}
			if err := c.read(path); err != nil {
				bad = append(bad, err)
				continue
			}
			found = append(found, c)
		}
	}
	return found, bad
}

// read reads both daemons' results in dir, of which there must be some.
func (c *comparison) read(dir string) error {
	for _, side := range []string{sideOld, sideNew} {
		files, err := filepath.Glob(filepath.Join(dir, "*."+side+".json"))
		if err != nil {
			return err
		}
		if len(files) == 0 {
			return fmt.Errorf("%s has no results of the %s daemon: measure again", dir, side)
		}
		for _, f := range files {
			u, err := readUse(strings.TrimSuffix(f, ".json"))
			if err != nil {
				return err
			}
			c.add(side, u)
		}
	}
	return nil
}
