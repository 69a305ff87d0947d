// SPDX-License-Identifier: Apache-2.0

//go:build linux

package reconnect

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/test/lab"
)

// results are the rows of all tests of this run.
var results = collector{began: time.Now(), machine: lab.ThisMachine(context.Background())}

type collector struct {
	began   time.Time
	machine lab.Machine

	mu       sync.Mutex
	rows     []Row
	findings []Finding
}

// A Finding is what one of QEMU's traps did, in words.
type Finding struct {
	Trap  string `json:"trap"`
	Guest string `json:"guest"`
	Seen  string `json:"seen"`
}

func (c *collector) add(rows ...Row) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.rows = append(c.rows, rows...)
}

func (c *collector) find(trap, guest, format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.findings = append(c.findings, Finding{Trap: trap, Guest: guest, Seen: fmt.Sprintf(format, args...)})
}

// A Record is what -out writes as JSON.
type Record struct {
	lab.Machine
	QEMU     string    `json:"qemu"`
	OldQEMU  string    `json:"qemu_of_the_distribution"`
	Seconds  float64   `json:"seconds"`
	Long     bool      `json:"long"`
	Rows     []Row     `json:"rows"`
	Findings []Finding `json:"qemu_traps"`
}

// write prints the table and, for a dir, writes the JSON there.
func (c *collector) write(dir string) error {
	if len(c.rows)+len(c.findings) == 0 {
		return nil
	}
	var restarts, others []Row
	for _, r := range c.rows {
		if r.TX.Back.N+r.RX.Back.N+r.Disconnects > 0 || r.TX.Alive+r.RX.Alive == 0 {
			restarts = append(restarts, r)
		} else {
			others = append(others, r)
		}
	}
	text := "Times in ms: p50 / p99 / max. A guest sends on while it has no connection, which is most of what is lost (median).\n"
	for _, rows := range [][]Row{restarts, others} {
		if len(rows) > 0 {
			text += "\n" + Table(rows)
		}
	}
	if len(c.findings) > 0 {
		cells := [][]string{{"trap", "guest", "seen"}}
		for _, f := range c.findings {
			cells = append(cells, []string{f.Trap, f.Guest, f.Seen})
		}
		text += "\n" + table(cells)
	}
	fmt.Print("\n" + text + "\n")
	if dir == "" {
		return nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	b, err := json.MarshalIndent(c.record(), "", "\t")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "reconnect.json"), append(b, '\n'), 0o644)
}

func (c *collector) record() Record {
	c.machine.LoadEnd = lab.LoadAverage()
	return Record{
		Machine: c.machine, QEMU: qemuVersion(tools.NewQEMU), OldQEMU: qemuVersion(tools.QEMU),
		Seconds: time.Since(c.began).Round(time.Second).Seconds(), Long: *long, Rows: c.rows, Findings: c.findings,
	}
}

func qemuVersion(program string) string {
	_, version, _ := strings.Cut(lab.Told(context.Background(), program, "--version"), "version ")
	version, _, _ = strings.Cut(version, " ")
	return version
}
