// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/test/bench/rig"
)

// The programs that make the calls, and the libraries that they make them to.
const (
	programC   = "C"
	programGo  = "Go"
	libraryAll = "simulator"
	libraryNil = "nothing" // vmnet_read and vmnet_write do nothing
)

// What a case of the programs is about.
const (
	opEmpty      = "empty"      // a vmnet_read that finds nothing
	opRead       = "read"       // in Go with making a batch of it
	opReadBatch  = "read-batch" // in C with making a batch of it
	opWrite      = "write"
	opEvent      = "event"
	opAllocRead  = "alloc-read"
	opAllocWrite = "alloc-write"
)

// A callCase is one line that csrc/vmnetcalls.c or the command vmnetcalls prints.
type callCase struct {
	Round   int    `json:"round"`
	Program string `json:"program"`
	Library string `json:"library"`
	Op      string `json:"op"`
	PerCall int    `json:"packets_per_call"` // at most; what was written or read in each call
	Len     int    `json:"frame_bytes"`
	Calls   int64  `json:"calls"`
	Packets int64  `json:"packets"`
	CPU     int64  `json:"cpu_ns"` // of the whole process
	Mallocs int64  `json:"mallocs"`
}

// cost is the CPU time per packet in ns, or per call where a call has one packet or none.
func (c callCase) cost() float64 {
	return quotient(float64(c.CPU), float64(max(c.Packets, c.Calls)))
}

const (
	caseTime      = 40 * time.Millisecond // of each case
	quickCaseTime = 10 * time.Millisecond
	allocCalls    = 1_000_000 // whose allocations are counted, of each kind
	quickAllocs   = 100_000
)

// calls runs both programs with both libraries, interleaved as the other rounds are.
func (b *bench) calls(ctx context.Context) ([]callCase, error) {
	if !wantsCalls(b.p.choice) {
		return nil, nil
	}
	type combination struct{ program, library string }
	order := []combination{
		{programC, libraryAll}, {programGo, libraryAll}, {programC, libraryNil}, {programGo, libraryNil},
	}
	var all []callCase
	for round := range b.p.Rounds {
		progress("calls of vmnet, round %d of %d", round+1, b.p.Rounds)
		for _, c := range order {
			cases, err := b.makeCalls(ctx, c.program, c.library)
			if err != nil {
				return nil, fmt.Errorf("make calls of vmnet from %s: %w", c.program, err)
			}
			for _, found := range cases {
				found.Round, found.Program, found.Library = round, c.program, c.library
				all = append(all, found)
			}
		}
		slices.Reverse(order)
	}
	return all, nil
}

// makeCalls runs one of the programs.
func (b *bench) makeCalls(ctx context.Context, program, library string) ([]callCase, error) {
	length, counted := caseTime, allocCalls
	if b.p.Quick {
		length, counted = quickCaseTime, quickAllocs
	}
	lib := b.SimLib()
	if library == libraryNil {
		lib = b.calling.nothing
	}
	name, args := b.calling.c, []string{lib, strconv.FormatInt(length.Milliseconds(), 10)}
	if program == programGo {
		if library == libraryNil {
			counted = 0
		}
		name, args = b.calling.inGo, append(args, strconv.Itoa(counted))
	}
	if library == libraryAll {
		args = append(args, opEvent)
	}
	var complaints bytes.Buffer
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Stderr = &complaints
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%w: %s", err, strings.TrimSpace(complaints.String()))
	}
	return readCases(out)
}

func readCases(out []byte) (cases []callCase, err error) {
	for lines := bufio.NewScanner(bytes.NewReader(out)); lines.Scan(); {
		var c callCase
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			return nil, fmt.Errorf("read %q: %w", lines.Text(), err)
		}
		if c.Calls == 0 {
			return nil, fmt.Errorf("no call was made in %q", lines.Text())
		}
		cases = append(cases, c)
	}
	if len(cases) == 0 {
		return nil, errors.New("the program gave no result")
	}
	return cases, nil
}

// A calling is the programs that make the calls.
type calling struct {
	nothing string // the simulator with a vmnet_read and a vmnet_write that do nothing
	c       string // csrc/vmnetcalls.c
	inGo    string // vmnetcalls
}

// buildCalls builds them, and the simulator.
func (b *bench) buildCalls(ctx context.Context) error {
	if err := rig.BuildSimulated(ctx, b.Rig); err != nil {
		return err
	}
	dir, lib := b.Dir(), b.SimLib()
	b.calling = calling{
		nothing: filepath.Join(dir, "libnothing.so"), c: filepath.Join(dir, "vmnetcalls-c"), inGo: filepath.Join(dir, "vmnetcalls-go"),
	}
	abi := "-I" + filepath.Dir(lib)
	return errors.Join(
		b.Compile(ctx, b.calling.c, []string{abi}, "vmnetcalls.c", "vmnetlib.c"),
		b.Compile(ctx, b.calling.nothing, []string{abi, "-fPIC", "-shared", "-Wl,--no-as-needed", lib}, "nullcalls.c"),
		b.BuildTagged(ctx, b.calling.inGo, "test/bench/vmnetcalls"),
	)
}
