// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/socket-vmnet2/socket_vmnet2/internal/compat"
	"github.com/socket-vmnet2/socket_vmnet2/internal/daemon"
	"github.com/socket-vmnet2/socket_vmnet2/internal/network"
	"github.com/socket-vmnet2/socket_vmnet2/internal/ops/selftest"
)

// selftestTime is how long a self test may take. Closing what is open then comes on top: all in all it is below a minute.
const selftestTime = 50 * time.Second

// macOSLeases is where macOS's DHCP server records its leases.
const macOSLeases = "/var/db/dhcpd_leases"

func selftestCommand(env compat.IO) *cli.Command {
	network := compat.NewNetwork()
	return &cli.Command{
		Name: "selftest",
		Usage: `Opens the network that a daemon with the same options would open, but for itself alone, and tries it with fake guests:
addresses, frames, how many interfaces start, and whether the same network starts again. It needs no virtual
machine and takes less than a minute. A running daemon is left alone. The report is meant to be pasted into an issue.`,
		Flags: append([]cli.Flag{
			&cli.BoolFlag{Name: "json", Usage: "print one JSON document instead of text"},
			&cli.BoolFlag{Name: "quick", Usage: "8 interfaces at most"},
		}, network.Flags()...),
		Description: "Exit code: 0 no step failed, 1 a step failed or the test was interrupted, 2 the network did not start",
		Action:      coded(func(c *cli.Context, env compat.IO) (int, error) { return selftestAction(c, network, env) }, env),
	}
}

// selftestAction does what a command line of known options asks for.
func selftestAction(c *cli.Context, network compat.Network, env compat.IO) (int, error) {
	cfg, err := network.Config(c, env)
	if err != nil {
		return 0, err
	}
	dir, err := os.MkdirTemp("", "socket_vmnet2-selftest-")
	if err != nil {
		return 0, fmt.Errorf("no place for what the network keeps, point TMPDIR to a directory that can be written to: %w", err)
	}
	defer os.RemoveAll(dir)
	cfg.StateDir, cfg.SocketPath = filepath.Join(dir, "state"), filepath.Join(dir, "socket")

	level := slog.LevelWarn
	if cfg.Debug {
		level = slog.LevelDebug
	}
	kept := &keeper{w: env.Stderr}
	log := compat.NewLogger(kept, level)
	slog.SetDefault(log) // libraries that know no other logger
	ctx, stop := daemon.UntilSignal(log)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, selftestTime)
	defer cancel()
	for _, w := range append(cfg.Warnings, compat.PrivilegeWarnings(runtime.GOOS, cfg.Backend, os.Geteuid(), os.Getuid())...) {
		log.Warn(w)
	}

	o := selftestOptions(cfg, log)
	if c.Bool("quick") {
		o.Interfaces = 8
	}
	defer progress(env, fmt.Sprintf("trying the network, at most %v", selftestTime))()
	if !c.Bool("json") {
		if err := selftest.WriteHead(env.Stdout, o.Environment); err != nil {
			return 0, err
		}
		o.OnStep = func(s selftest.Step) { _ = selftest.WriteStep(env.Stdout, s) }
	}
	rep := selftest.Run(ctx, o)
	kept.mu.Lock()
	rep.Log = append([]string{}, kept.lines...)
	kept.mu.Unlock()
	if c.Bool("json") {
		return rep.ExitCode(), writeJSON(env.Stdout, rep)
	}
	return rep.ExitCode(), rep.WriteTail(env.Stdout)
}

// selftestOptions are the options for the network of cfg.
func selftestOptions(cfg *compat.Config, log *slog.Logger) selftest.Options {
	o := selftest.Options{
		Open:         func(ctx context.Context) (network.Network, error) { return daemon.OpenNetwork(ctx, cfg, log) },
		Isolated:     cfg.Isolate,
		NoRouter:     cfg.DisableNAT44,
		SharingAsked: cfg.VmnetInterfaces == compat.InterfacesOne,
		Environment:  environment(cfg),
	}
	if cfg.Backend.Resolve(runtime.GOOS) == compat.BackendVmnet {
		o.Describe = describeVmnet
		o.Sharing = func(n network.Network) (int, error) { s, _ := daemon.VmnetStatus(n); return s.Shared, s.LastFailure }
		if runtime.GOOS == "darwin" && cfg.Mode != network.ModeBridged {
			o.LeasesFile = macOSLeases
		}
	}
	return o
}

// describeVmnet tells which way a vmnet network was made, and what macOS said of its first interface.
func describeVmnet(n network.Network) selftest.Facts {
	s, ok := daemon.VmnetStatus(n)
	if !ok {
		return nil
	}
	facts := selftest.Facts{{Name: "api", Value: s.API}, {Name: "api_why", Value: s.Why}}
	for _, e := range s.Anchor.Entries {
		facts = append(facts, selftest.Fact{Name: e.Key, Value: fmt.Sprint(e.Value)})
	}
	return facts
}

// environment is what the report tells of the program, the machine and the user.
func environment(cfg *compat.Config) selftest.Facts {
	program, err := os.Executable()
	if err != nil {
		program = err.Error()
	}
	facts := selftest.Facts{
		{Name: "version", Value: compat.Version},
		{Name: "go", Value: runtime.Version()},
		{Name: "arguments", Value: strings.Join(os.Args[1:], " ")},
		{Name: "system", Value: systemVersion()},
		{Name: "architecture", Value: runtime.GOARCH},
		{Name: "cpus", Value: runtime.NumCPU()},
		{Name: "uid", Value: os.Geteuid()},
		{Name: "root", Value: os.Geteuid() == 0},
		{Name: "backend", Value: string(cfg.Backend.Resolve(runtime.GOOS))},
	}
	if runtime.GOOS == "darwin" {
		facts = append(facts, selftest.Fact{Name: "entitlement", Value: selftest.Entitlement(program)})
	}
	return facts
}

// mostKept bounds the lines of the log that go into a report.
const mostKept = 50

// keeper passes log lines on, and keeps warnings and errors for the report. The logger writes one line at a time.
type keeper struct {
	w io.Writer

	mu    sync.Mutex
	lines []string
}

func (k *keeper) Write(b []byte) (int, error) {
	line := strings.TrimSuffix(string(b), "\n")
	if strings.HasPrefix(line, "WARN") || strings.HasPrefix(line, "ERROR") {
		k.mu.Lock()
		if len(k.lines) < mostKept {
			k.lines = append(k.lines, line)
		}
		k.mu.Unlock()
	}
	return k.w.Write(b)
}
