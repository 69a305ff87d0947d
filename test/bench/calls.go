// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/test/bench/rig"
)

// The programs that make the calls of vmnet: csrc/vmnet.c of package rig, and the command vmnetcalls.
const (
	programC  = "C"
	programGo = "Go"
)

// callSizes are the packets of a call, in the order of the programs: the last is as many as the daemon reads at once.
var callSizes = []string{"1", "32", "most"}

// callTime is the length of each case.
const callTime = 40 * time.Millisecond

// call is a case of one of the programs.
func call(program, op, size string) setup {
	return setup{name: callName(program, op, size), run: (*bench).makeCalls, group: "calls"}
}

func callName(program, op, size string) string { return program + ", vmnet_" + op + " of " + size }

// makeCalls runs both programs. A result's frames are the packets.
func (b *bench) makeCalls(ctx context.Context) (map[string]rig.Result, error) {
	inGo := filepath.Join(b.Dir(), "vmnetcalls")
	if !b.callsBuilt {
		err := errors.Join(rig.BuildVmnetC(ctx, b.Rig), b.Build(ctx, inGo, "test/bench/vmnetcalls", "-tags=vmnetsim"))
		if err != nil {
			return nil, err
		}
		b.callsBuilt = true
	}
	length := strconv.FormatInt(callTime.Milliseconds(), 10)
	all := map[string]rig.Result{}
	for program, words := range map[string][]string{programC: {b.VmnetC(), "calls", b.SimLib(), length}, programGo: {inGo, b.SimLib(), length}} {
		var complaints bytes.Buffer
		cmd := exec.CommandContext(ctx, words[0], words[1:]...)
		cmd.Stderr = &complaints
		out, err := cmd.Output()
		if err != nil {
			return nil, fmt.Errorf("make calls of vmnet from %s: %w: %s", program, err, strings.TrimSpace(complaints.String()))
		}
		if err := readCalls(all, program, out); err != nil {
			return nil, fmt.Errorf("read the calls of vmnet from %s: %w", program, err)
		}
	}
	return all, nil
}

// readCalls puts what a program printed into all: for each size a case of writing and one of reading.
func readCalls(all map[string]rig.Result, program string, out []byte) error {
	lines := json.NewDecoder(bytes.NewReader(out))
	for n := 0; ; n++ {
		var c struct {
			Op      string `json:"op"`
			Packets int64  `json:"packets"`
			CPU     int64  `json:"cpu_ns"`
		}
		err := lines.Decode(&c)
		switch {
		case errors.Is(err, io.EOF) && n == 2*len(callSizes):
			return nil
		case err != nil:
			return err
		case n >= 2*len(callSizes) || c.Packets == 0:
			return fmt.Errorf("case %d, %d packets", n, c.Packets)
		}
		all[callName(program, c.Op, callSizes[n/2])] = rig.Result{RelayCPUNS: c.CPU, Received: c.Packets}
	}
}
