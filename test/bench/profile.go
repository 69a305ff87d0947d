// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/test/bench/rig"
	"github.com/socket-vmnet2/socket_vmnet2/test/rounds"
)

// profileTime is how long the daemon is watched.
const profileTime = 5 * time.Second

// watched are the flows that the daemon is watched with.
var watched = []struct {
	text string
	load rig.Load
}{
	{"64 frames per write", rig.Load{Batch: rig.BatchFrames}},
	{"1 frame per write", rig.Load{Batch: 1}},
	{"passed datagram sockets", rig.Load{Batch: rig.BatchFrames, Kinds: rig.Passed + rig.Passed}},
	{"stream > passed datagram socket", rig.Load{Batch: rig.BatchFrames, Kinds: rig.Stream + rig.Passed}},
	{"passed datagram socket > stream", rig.Load{Batch: rig.BatchFrames, Kinds: rig.Passed + rig.Stream}},
	{"paths, unconnected > connected", rig.Load{Batch: rig.BatchFrames, Kinds: rig.Unconnected + rig.Connected}},
}

// profile runs two clients through the daemon, of each kind for a while, and prints where its time goes (perf) or which system
// calls it makes (strace). The figures under strace are not comparable with anything.
func (b *bench) profile(ctx context.Context) error {
	for _, w := range watched {
		fmt.Printf("\n%s\n", w.text)
		w.load.Clients, w.load.Pairs, w.load.Time = 2, 1, profileTime
		if err := b.watch(ctx, w.load); err != nil {
			return fmt.Errorf("profile with %s: %w", b.p.Profile, err)
		}
	}
	return nil
}

func (b *bench) watch(ctx context.Context, l rig.Load) (err error) {
	r, err := b.Start(rounds.Daemon)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Stop()) }()
	data := filepath.Join(b.Dir(), "profile")
	pid, seconds := strconv.Itoa(r.PID()), strconv.Itoa(int(profileTime.Seconds()))
	var watcher *exec.Cmd
	switch b.p.Profile {
	case "perf": // a virtual machine often has no counters, so the clock is what samples
		watcher = exec.CommandContext(ctx, "perf", "record", "-e", "cpu-clock", "-g", "-o", data, "-p", pid, "--", "sleep", seconds)
	case "strace":
		watcher = exec.CommandContext(ctx, "timeout", "--signal=INT", seconds, "strace", "-f", "-c", "-o", data, "-p", pid)
	default:
		return errors.New("unknown tool: want perf or strace")
	}
	var startErr error
	l.Mark = func(event string) {
		if event == rig.EventBegin {
			startErr = watcher.Start()
		}
	}
	res, err := b.Drive(ctx, r, l)
	if err = errors.Join(err, startErr); err != nil {
		return err
	}
	_ = watcher.Wait() // timeout and strace tell by their status that they were interrupted
	fmt.Printf("%d frames, %.0f ns of the daemon's CPU time per frame\n", res.Received, res.CPU())
	return show(ctx, b.p.Profile, data)
}

func show(ctx context.Context, tool, data string) error {
	args := []string{"cat", data}
	if tool == "perf" {
		args = []string{"perf", "report", "--stdio", "--no-children", "-g", "none", "--percent-limit", "0.5", "-i", data}
	}
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	return cmd.Run()
}
