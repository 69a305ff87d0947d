// SPDX-License-Identifier: Apache-2.0

package pages

import (
	"fmt"

	"github.com/socket-vmnet2/socket_vmnet2/test/rounds"

	"github.com/socket-vmnet2/socket_vmnet2/test/report/internal/figures"
)

// notMeasured is what stands where there are no rounds.
const notMeasured = "Not measured."

// What a table of a kind shows.
type tableKind struct {
	what    string
	columns []column
	only    []string // the dimensions that are shown, all if nil
}

var tableKinds = map[string]tableKind{
	"rates": {what: "Best round (lowest–highest); medians of CPU time and switches", columns: []column{
		spread(figures.Rate, "kf/s"),
		figure(figures.Gbit, "Gbit/s"),
		against(figures.Rate, rounds.Floor, "of the floor"),
		against(figures.Rate, rounds.Old, "of the old way"),
		spread(figures.CPU, "CPU ns/frame"),
		against(figures.CPU, rounds.Floor, "CPU, of the floor"),
		against(figures.CPU, rounds.VmnetC, "CPU, of the C program"),
	}},
	"costs": {what: "Medians", columns: []column{
		spread(figures.CPUGB, "CPU s/GB"),
		figure(figures.MbitPercent, "Mbit/s per % CPU"),
		figure(figures.Switches, "context switches per 1000 frames"),
		figure(figures.Wakeups, "of them wake-ups"),
		count(figures.Drops, "frames dropped"),
	}},
	"trips": {what: "Best round (lowest–highest)", columns: []column{
		spread(figures.P50, "p50 µs"),
		spread(figures.P99, "p99 µs"),
		spread(figures.P999, "p999 µs"),
		against(figures.P50, rounds.Floor, "p50, of the floor"),
		against(figures.P99, rounds.Floor, "p99, of the floor"),
		against(figures.P99, rounds.Old, "p99, of the old way"),
	}},
	"tcp": {what: "Best round (lowest–highest); medians of the others", columns: []column{
		spread(figures.Gbit, "Gbit/s"),
		against(figures.Gbit, rounds.Direct, "of no relay"),
		against(figures.Gbit, rounds.Floor, "of the floor"),
		against(figures.Gbit, rounds.Gvproxy, "of gvproxy"),
		against(figures.Gbit, rounds.SocketVmnet, "of socket_vmnet"),
		against(figures.Gbit, rounds.Old, "of the old way"),
		spread(figures.CPUGB, "CPU s/GB"),
		figure(figures.MbitPercent, "Mbit/s per % CPU"),
		count(figures.Retransmits, "retransmits"),
		count(figures.Drops, "frames dropped"),
		figure(figures.Switches, "context switches per 1000 frames"),
	}},
	"deaf": {what: "Best round (lowest–highest) of all pairs together, 0 if they stood still; median of CPU time", columns: []column{
		spread(figures.Flow, "kf/s"), spread(figures.CPU, "CPU ns/frame"),
	}},
	"memory": {
		what: "Median (lowest–highest) of anonymous memory", columns: []column{spread(figures.Memory, "MB")},
		only: []string{"transport", "clients", "relay"},
	},
	"start": {what: "Best round (lowest–highest)", columns: []column{spread(figures.Start, "ms")}},
	"idle": {what: "Medians (lowest–highest)", columns: []column{
		spread(figures.IdleCPU, "CPU ms/s"), spread(figures.IdleSwitches, "context switches per second"),
	}},
}

// makeTable renders the table of a kind of the set-ups that match a query.
func makeTable(run *figures.Run, name, query string) (string, error) {
	kind, ok := tableKinds[name]
	if !ok {
		return "", fmt.Errorf("there is no kind of table %q", name)
	}
	q, err := figures.ParseQuery(query)
	if err != nil {
		return "", err
	}
	rows, err := rowsOf(run, q)
	if err != nil {
		return "", err
	}
	return kind.table(rows), nil
}
