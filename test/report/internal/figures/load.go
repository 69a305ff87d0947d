// SPDX-License-Identifier: Apache-2.0

// Package figures computes every figure of the report from raw rounds: which rounds belong to a set-up, what a round says, and
// how several rounds become one figure. Ratios are of rounds of one run only.
package figures

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/socket-vmnet2/socket_vmnet2/test/rounds"
)

// A Run is one file of raw rounds.
type Run struct {
	Name string // of the file without .json; names of plots begin with it
	rounds.File
}

// runName is what the name of a run may be, since names of plots and links are made of it.
var runName = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]*$`)

// Load reads every file of rounds in a directory, in the order of their names. A file that is cut short, or not of rounds,
// or says what cannot be is an error, and so is a directory without any.
func Load(dir string) ([]*Run, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("there is no directory %s of raw rounds: measure first, with make bench or test/perf.sh", dir)
	}
	if err != nil {
		return nil, fmt.Errorf("read the raw rounds: %w", err)
	}
	var runs []*Run
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		if strings.HasSuffix(e.Name(), ".json.part") {
			return nil, fmt.Errorf("%s is of a run that was interrupted: remove it or measure again", path)
		}
		name, ok := strings.CutSuffix(e.Name(), ".json")
		if !ok || e.IsDir() {
			continue
		}
		if !runName.MatchString(name) {
			return nil, fmt.Errorf("%s: the name of a file of rounds has small letters, digits, - _ . and nothing else: rename it", path)
		}
		f, err := rounds.Read(path)
		if err != nil {
			return nil, err
		}
		if err := check(f); err != nil {
			return nil, fmt.Errorf("%s is not a file of rounds that a measurement wrote: %w", path, err)
		}
		runs = append(runs, &Run{Name: name, File: f})
	}
	if len(runs) == 0 {
		return nil, fmt.Errorf("no raw rounds (*.json) in %s: measure first, with make bench or test/perf.sh", dir)
	}
	return runs, nil
}

// check refuses what no measurement writes.
func check(f rounds.File) error {
	switch {
	case f.Command == "":
		return errors.New("it does not say which command made it")
	case f.Machine.Commit == "" || f.Machine.Date.IsZero():
		return errors.New("it does not say of which commit and day it is")
	}
	for i, r := range f.Rounds {
		switch {
		case r.Series == "" || r.Relay == "":
			return fmt.Errorf("round %d of the list has no series or no relay", i)
		case r.Seconds < 1e-6 || r.Seconds > 1e6 || r.CPUSeconds > 1e9:
			return fmt.Errorf("round %d of the list, of %s, took %v seconds and %v of CPU time", i, r.Series, r.Seconds, r.CPUSeconds)
		case r.CPUSeconds < 0 || r.P50 < 0 || r.P99 < 0 || r.P999 < 0 || r.Frame < 0 || r.Clients < 0 || r.Active < 0 || r.Round < 0:
			return fmt.Errorf("round %d of the list, of %s, has a negative figure", i, r.Series)
		}
	}
	return nil
}

// Of are the runs that have a series.
func Of(runs []*Run, series string) (of []*Run) {
	for _, r := range runs {
		if slices.ContainsFunc(r.Rounds, func(x rounds.Round) bool { return x.Series == series }) {
			of = append(of, r)
		}
	}
	return of
}
