// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
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

type machineDescription struct {
	MadeBy string `json:"made_by"`
	MAC    string `json:"mac"`
}

func (q *qemu) dir(n int) string { return filepath.Join(q.cache, name(n)) }

// describe reads the description of machine n.
func (q *qemu) describe(n int) (machineDescription, error) {
	var m machineDescription
	b, err := os.ReadFile(filepath.Join(q.dir(n), machineFile))
	if err != nil {
		return m, err
	}
	if err := json.Unmarshal(b, &m); err != nil {
		return m, fmt.Errorf("read %s, delete that directory and create the machine again: %w", filepath.Join(q.dir(n), machineFile), err)
	}
	if _, err := net.ParseMAC(m.MAC); err != nil || m.MadeBy != marker {
		return m, fmt.Errorf("%s is no machine of test/perf.sh and is left alone: delete that directory or set PERF_CACHE to another", q.dir(n))
	}
	return m, nil
}

func (q *qemu) create(_ context.Context, count int) error {
	if err := q.findTools(); err != nil {
		return err
	}
	for n := 1; n <= count; n++ {
		_, err := q.describe(n)
		if err == nil {
			q.say("%s is there already", name(n))
			continue
		}
		if entries, dirErr := os.ReadDir(q.dir(n)); dirErr == nil && len(entries) > 0 || !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("%s is no machine of test/perf.sh and is left alone: delete that directory or set PERF_CACHE to another", q.dir(n))
		}
		q.say("Creating %s", name(n))
		b, err := json.Marshal(machineDescription{MadeBy: marker, MAC: fmt.Sprintf("52:54:00:70:65:%02x", n)})
		err = errors.Join(err, os.MkdirAll(q.dir(n), 0o755))
		if err == nil {
			err = os.WriteFile(filepath.Join(q.dir(n), machineFile), append(b, '\n'), 0o644)
		}
		if err != nil {
			return fmt.Errorf("create %s: %w", name(n), err)
		}
	}
	q.say("Ready: test/perf.sh run -c %d", count)
	return nil
}

func (q *qemu) remove(_ context.Context, count int) error {
	var errs []error
	for n := 1; n <= count; n++ {
		_, err := q.describe(n)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			q.say("%s is not there", name(n))
		case err != nil:
			errs = append(errs, err)
		default:
			q.say("Deleting %s", name(n))
			// What somebody else has put there keeps the directory.
			errs = append(errs, os.Remove(filepath.Join(q.dir(n), machineFile)), os.Remove(q.dir(n)))
		}
	}
	for n := count + 1; ; n++ {
		if _, err := q.describe(n); err != nil {
			return errors.Join(errs...)
		}
		q.say("%s stays: test/perf.sh delete -c %d", name(n), n)
	}
}
