// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
)

// machineFile describes a machine in its directory.
const machineFile = "machine.json"

// A cabinet keeps machines that are no more than a directory with a description: what they boot lies elsewhere.
type cabinet struct{ *setting }

type machineDescription struct {
	MadeBy string `json:"made_by"`
	MAC    string `json:"mac"`
}

func (c cabinet) dir(n int) string { return filepath.Join(c.cache, name(n)) }

// look returns an error unless all machines up to count are there.
func (c cabinet) look(count int) error {
	for n := 1; n <= count; n++ {
		_, err := c.describe(n)
		if errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("there is no machine %s: test/perf.sh create -c %d", name(n), count)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// describe reads the description of machine n.
func (c cabinet) describe(n int) (machineDescription, error) {
	var m machineDescription
	b, err := os.ReadFile(filepath.Join(c.dir(n), machineFile))
	if err != nil {
		return m, err
	}
	if err := json.Unmarshal(b, &m); err != nil {
		return m, fmt.Errorf("read %s, delete that directory and create the machine again: %w", filepath.Join(c.dir(n), machineFile), err)
	}
	if _, err := net.ParseMAC(m.MAC); err != nil || m.MadeBy != marker {
		return m, fmt.Errorf("%s is no machine of test/perf.sh and is left alone: delete that directory or set PERF_CACHE to another", c.dir(n))
	}
	return m, nil
}

// fill creates the machines up to count that are not there.
func (c cabinet) fill(count int) error {
	for n := 1; n <= count; n++ {
		_, err := c.describe(n)
		if err == nil {
			c.say("%s is there already", name(n))
			continue
		}
		if entries, dirErr := os.ReadDir(c.dir(n)); dirErr == nil && len(entries) > 0 || !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("%s is no machine of test/perf.sh and is left alone: delete that directory or set PERF_CACHE to another", c.dir(n))
		}
		c.say("Creating %s", name(n))
		b, err := json.Marshal(machineDescription{MadeBy: marker, MAC: fmt.Sprintf("52:54:00:70:65:%02x", n)})
		err = errors.Join(err, os.MkdirAll(c.dir(n), 0o755))
		if err == nil {
			err = os.WriteFile(filepath.Join(c.dir(n), machineFile), append(b, '\n'), 0o644)
		}
		if err != nil {
			return fmt.Errorf("create %s: %w", name(n), err)
		}
	}
	return nil
}

// empty deletes the machines up to count.
func (c cabinet) empty(count int) error {
	var errs []error
	for n := 1; n <= count; n++ {
		_, err := c.describe(n)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			c.say("%s is not there", name(n))
		case err != nil:
			errs = append(errs, err)
		default:
			c.say("Deleting %s", name(n))
			// What somebody else has put there keeps the directory.
			errs = append(errs, os.Remove(filepath.Join(c.dir(n), machineFile)), os.Remove(c.dir(n)))
		}
	}
	for n := count + 1; ; n++ {
		if _, err := c.describe(n); err != nil {
			return errors.Join(errs...)
		}
		c.say("%s stays: test/perf.sh delete -c %d", name(n), n)
	}
}
