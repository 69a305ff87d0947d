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
}

var tableKinds = map[string]tableKind{
	"rates": {"Best round (lowest–highest); medians of CPU time and switches", []column{
		spread(figures.Rate, "kf/s"),
		figure(figures.Gbit, "Gbit/s"),
		against(figures.Rate, rounds.Floor, "of the floor"),
		against(figures.Rate, rounds.Old, "of the old way"),
		spread(figures.CPU, "CPU ns/frame"),
		against(figures.CPU, rounds.Floor, "CPU, of the floor"),
		against(figures.CPU, rounds.VmnetC, "CPU, of the C program"),
	}},
	"costs": {"Medians", []column{
		spread(figures.CPUGB, "CPU s/GB"),
		figure(figures.MbitPercent, "Mbit/s per % CPU"),
		figure(figures.Switches, "context switches per 1000 frames"),
		figure(figures.Wakeups, "of them wake-ups"),
		count(figures.Drops, "frames dropped"),
	}},
	"trips": {"Best round (lowest–highest)", []column{
		spread(figures.P50, "p50 µs"),
		spread(figures.P99, "p99 µs"),
		spread(figures.P999, "p999 µs"),
		against(figures.P50, rounds.Floor, "p50, of the floor"),
		against(figures.P99, rounds.Floor, "p99, of the floor"),
		against(figures.P99, rounds.Old, "p99, of the old way"),
	}},
	"tcp": {"Best round (lowest–highest); medians of the others", []column{
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
	"memory": {"Median (lowest–highest) of anonymous memory", []column{spread(figures.Memory, "MB")}},
	"start":  {"Best round (lowest–highest)", []column{spread(figures.Start, "ms")}},
	"idle":   {"Medians (lowest–highest)", []column{spread(figures.IdleCPU, "CPU ms/s"), spread(figures.IdleSwitches, "context switches per second")}},
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
	return table(rows, kind.what, kind.columns...), nil
}
