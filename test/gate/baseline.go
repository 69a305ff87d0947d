// SPDX-License-Identifier: Apache-2.0

package main

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"os"
)

// baselineFile is where the baselines are, from the root of the repository.
const baselineFile = "test/gate/baseline.json"

//go:embed baseline.json
var baselineJSON []byte

// A baseline is what the ratios were when somebody last found them right.
type baseline struct {
	Renew   string             `json:"renew"` // the command that writes the file anew
	Date    string             `json:"date"`
	Machine string             `json:"machine"`
	Commit  string             `json:"commit"`
	Ratios  map[string]float64 `json:"ratios"` // CPU time per frame of the daemon over the floor's, by the rows' keys
}

// readBaseline reads what parse makes of the file.
func readBaseline(data []byte) (baseline, error) {
	var b baseline
	if err := json.Unmarshal(data, &b); err != nil {
		return b, fmt.Errorf("read %s, which %q writes: %w", baselineFile, renewCommand, err)
	}
	for _, r := range rows {
		if b.Ratios[r.key] <= 0 {
			return b, fmt.Errorf("%s has no ratio of row %q: run %q on a quiet machine", baselineFile, r.key, renewCommand)
		}
	}
	return b, nil
}

// write replaces the file.
func (b baseline) write(path string) error {
	data, err := json.MarshalIndent(b, "", "\t")
	if err == nil {
		err = os.WriteFile(path, append(data, '\n'), 0o644)
	}
	if err != nil {
		return fmt.Errorf("write baselines: %w", err)
	}
	return nil
}
