// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/socket-vmnet2/socket_vmnet2/test/perf/fakevm"
)

// fakeFile is the file with the rounds of fake.
const fakeFile = "fake.json"

// fake is the verb fake: see package fakevm.
func (s *setting) fake(ctx context.Context, o options) error {
	out := o.out
	if filepath.Ext(out) != ".json" {
		if err := claim(out); err != nil {
			return err
		}
		out = filepath.Join(out, fakeFile)
	}
	program := o.daemon
	if program == "" || program == wordTree {
		dir, err := os.MkdirTemp("", "perf")
		if err != nil {
			return err
		}
		defer os.RemoveAll(dir)
		if program, err = s.build(ctx, dir); err != nil {
			return err
		}
	}
	file, err := fakevm.Run(ctx, fakevm.Options{
		Daemon: program, Gvproxy: o.gvproxy, Rounds: o.rounds, Seconds: o.seconds, Series: list(o.series), Only: list(o.only),
		Command: quote(append([]string{"test/perf.sh"}, o.words...)), Out: out, Progress: s.stdout,
	})
	if err != nil {
		return err
	}
	s.say("Rounds are in %s", out)
	fmt.Fprintf(s.stdout, "\n%s", fakevm.Table(file))
	return nil
}

// list are the names in s, with commas between.
func list(s string) []string {
	if s == "" {
		return nil
	}
	return strings.Split(s, ",")
}
