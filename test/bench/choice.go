// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"slices"
	"strings"
)

// The series of package rounds.
const (
	seriesPair     = "pair"
	seriesSizes    = "sizes"
	seriesIdlers   = "scale-idle"
	seriesActive   = "scale-active"
	seriesLatency  = "latency"
	seriesMemory   = "memory"
	seriesStart    = "start"
	seriesIdle     = "idle"
	seriesDatagram = "datagrams"
	seriesVmnet    = "vmnet"
	seriesDeaf     = "deaf"
	seriesOther    = "other"
)

// The rows that are figures of the daemon and not comparisons.
const (
	keyGC           = "gc"
	keyMemory       = "mem"
	keyMemoryPassed = "mem-passed"
	keyMemoryPath   = "mem-path"
	keyMemoryBusy   = "mem-busy"
	keyStart        = "start"
	keyIdle         = "idle"   // on usernet
	keyIdleVmnet    = "idle16" // with interfaces of their own
)

// singleKeys are those rows with the series in which their rounds are.
var singleKeys = []struct{ key, series string }{
	{keyGC, seriesOther},
	{keyMemory, seriesMemory},
	{keyMemoryPassed, seriesMemory},
	{keyMemoryPath, seriesMemory},
	{keyMemoryBusy, seriesMemory},
	{keyStart, seriesStart},
	{keyIdle, seriesIdle},
	{keyIdleVmnet, seriesIdle},
}

// A choice is what of everything is measured.
type choice struct {
	Only   []string `json:"only"`   // keys of rows
	Series []string `json:"series"` // with everything that is in them
}

// everything tells that nothing has been chosen.
func (c choice) everything() bool { return len(c.Only) == 0 && len(c.Series) == 0 }

// key tells whether a row has been chosen by its key or with everything.
func (c choice) key(key string) bool { return c.everything() || slices.Contains(c.Only, key) }

// anyOf tells whether one of these series has been chosen or everything.
func (c choice) anyOf(series []string) bool {
	return c.everything() || slices.ContainsFunc(c.Series, func(s string) bool { return slices.Contains(series, s) })
}

// single tells whether a row that is no comparison has been chosen.
func (c choice) single(key string) bool {
	return c.key(key) || slices.ContainsFunc(singleKeys, func(k struct{ key, series string }) bool {
		return k.key == key && slices.Contains(c.Series, k.series)
	})
}

// rows are the comparisons that have been chosen by their keys, or with both their set-ups by a series, and the check of the floor
// wherever the floor is used.
func (c choice) rows() []row {
	inSeries := map[string]bool{}
	for _, s := range setups() {
		inSeries[s.name] = c.anyOf(s.filed())
	}
	var chosen []row
	floor, checked := false, false
	for _, r := range rows() {
		if c.key(r.key) || inSeries[r.subject] && inSeries[r.base] {
			chosen = append(chosen, r)
			floor = floor || strings.HasPrefix(r.base, "floor")
			checked = checked || r.mustHold
		}
	}
	if floor && !checked {
		chosen = append([]row{rows()[0]}, chosen...)
	}
	return chosen
}

// setups are those of the chosen rows and series, in the order of all of them.
func (c choice) setups() []setup {
	used := usedBy(c.rows())
	return slices.DeleteFunc(setups(), func(s setup) bool { return !used[s.name] && !c.anyOf(s.filed()) })
}

// decided are the rows that have a target or have been asked for by their keys.
func (c choice) decided(rows []row) []row {
	return slices.DeleteFunc(slices.Clone(rows), func(r row) bool {
		return r.target == 0 && r.most == 0 && !slices.Contains(c.Only, r.key)
	})
}

// usedBy are the names of set-ups that rows compare.
func usedBy(rows []row) map[string]bool {
	used := map[string]bool{}
	for _, r := range rows {
		used[r.subject], used[r.base] = true, true
	}
	return used
}

// relays are the kinds of relays that have been chosen.
func (c choice) relays() []string {
	var kinds []string
	for _, s := range c.setups() {
		kinds = append(kinds, s.relay)
	}
	slices.Sort(kinds)
	return slices.Compact(kinds)
}

// filed are the series of a set-up's rounds.
func (s setup) filed() []string {
	if len(s.series) == 0 {
		return []string{seriesOther}
	}
	return s.series
}

// keys are those of all rows.
func keys() []string {
	var all []string
	for _, r := range rows() {
		all = append(all, r.key)
	}
	all = append(all, callKeys()...)
	for _, k := range singleKeys {
		all = append(all, k.key)
	}
	return all
}

// allSeries are those that there are.
func allSeries() []string {
	var all []string
	for _, s := range setups() {
		all = append(all, s.filed()...)
	}
	for _, k := range singleKeys {
		all = append(all, k.series)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// choose reads the comma-separated lists of the command line.
func choose(only, chosen string) (c choice, err error) {
	if c.Only, err = pick("row", "--only", only, keys()); err != nil {
		return c, err
	}
	c.Series, err = pick("series", "--series", chosen, allSeries())
	return c, err
}

func pick(what, flag, list string, from []string) (picked []string, err error) {
	for name := range strings.SplitSeq(list, ",") {
		if name == "" {
			continue
		}
		if !slices.Contains(from, name) {
			return nil, fmt.Errorf("unknown %s %q in %s: want some of %s", what, name, flag, strings.Join(from, ", "))
		}
		picked = append(picked, name)
	}
	return picked, nil
}
