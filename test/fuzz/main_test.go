// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"errors"
	"io"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestRead(t *testing.T) {
	const progress = "fuzz: elapsed: 0s, gathering baseline coverage: 0/27 completed\n" +
		"fuzz: elapsed: 3s, execs: 35098 (11698/sec), new interesting: 3 (total: 30)\n" +
		"fuzz: elapsed: 5s, execs: 60000 (11698/sec), new interesting: 3 (total: 30)\n"
	for name, c := range map[string]struct {
		out     string
		err     error
		execs   int
		crashes int
		failed  bool
	}{
		"well":          {progress + "PASS\nok  \tx\t5.1s\n", nil, 60000, 0, false},
		"crash":         {progress + "--- FAIL: FuzzX (0.01s)\n    Failing input written to testdata/fuzz/FuzzX/1\n", errors.New("exit status 1"), 60000, 1, false},
		"does not run":  {"no test files\n", errors.New("exit status 1"), 0, 0, true},
		"does not link": {"# x\nundefined: y\nFAIL\tx [build failed]\n", errors.New("exit status 1"), 0, 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			var x outcome
			err := x.read(c.out, c.err)
			assert.Equal(t, c.failed, err != nil)
			assert.Equal(t, c.execs, x.Execs)
			assert.Equal(t, c.crashes, x.Crashes)
			var table bytes.Buffer
			print(&table, []outcome{x})
			if c.crashes > 0 {
				assert.Contains(t, table.String(), "Failing input")
			}
		})
	}
}

// TestTargets: the targets that read what others say are there. A parser without one is added to this list with its target.
func TestTargets(t *testing.T) {
	t.Chdir("../..")
	var out bytes.Buffer
	require.Zero(t, run([]string{"-list"}, &out, io.Discard))
	for _, name := range []string{
		"internal/frame.FuzzScan", "internal/mmsg.FuzzPack", "internal/compat.FuzzScanner", "internal/usernet/dhcp.FuzzHandle",
		"internal/usernet/dns.FuzzHandleUDP", "internal/usernet.FuzzFrames", "internal/passing/proto.FuzzDecodeRequest",
		"internal/passing/proto.FuzzDecodeReply", "internal/passing/proto.FuzzRights", "internal/passing/proto.FuzzReadMessage",
		"attach.FuzzDecodeReply", "internal/state.FuzzDecode", "internal/bridge.FuzzBridge", "internal/watch.FuzzWatch", "internal/ifid.FuzzParse",
		"internal/unixgram.FuzzClassify", "internal/unixgram.FuzzAnswers", "internal/unixgram.FuzzDiagAnswers", "internal/handoff.FuzzDecode", "internal/antispoof.FuzzFilter", "internal/vmnet/pkt.FuzzBatch", "test/soak/ledger.FuzzReceive",
		"internal/migrate.FuzzFiles", "internal/migrate.FuzzPrograms", "internal/shell.FuzzQuote",
	} {
		assert.Contains(t, out.String(), "  "+name+"\n")
	}
}

func TestArguments(t *testing.T) {
	for _, args := range [][]string{{"-nonsense"}, {"-run=("}} {
		var errs bytes.Buffer
		assert.Equal(t, 2, run(args, io.Discard, &errs))
		assert.NotEmpty(t, errs.String())
	}
}
