// SPDX-License-Identifier: Apache-2.0

// Command bench measures the built daemon through its sockets and compares it, in the same run, with small C
// relays: a floor that does as much with as few system calls, and the old way, one frame at a time to everybody.
// docs/performance.md says what is measured and why so.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/test/bench/rig"
	"github.com/socket-vmnet2/socket_vmnet2/test/rounds"
)

// A missedError reports that --strict was given and targets were missed.
type missedError int

func (m missedError) Error() string { return fmt.Sprintf("%d targets missed", int(m)) }

// params are what the command line sets. They are part of the JSON output.
type params struct {
	Daemon  string        `json:"daemon"` // path of the binary under test
	Rounds  int           `json:"rounds"`
	Warm    time.Duration `json:"warm_ns"`
	Time    time.Duration `json:"time_ns"`     // of one measurement
	Frames  int           `json:"gc_frames"`   // relayed while garbage collections are counted
	MemRuns int           `json:"memory_runs"` // daemons whose memory is measured
	Settle  time.Duration `json:"settle_ns"`   // after the active clients have left, before memory is measured
	Quick   bool          `json:"quick"`
	choice                // what is measured

	JSON     string   `json:"-"` // where the raw rounds go
	Verdicts string   `json:"-"` // where everything else goes
	Strict   bool     `json:"-"` // missed targets are a failure
	Profile  string   `json:"-"` // perf or strace: watch the daemon instead of measuring
	Args     []string `json:"daemon_args"`
	Command  string   `json:"-"` // that does the same again
}

func main() {
	p, err := parse(os.Args[1:])
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err == nil {
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
		err = run(ctx, p)
		stop()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func parse(args []string) (params, error) {
	p := params{Frames: 1_000_000, MemRuns: 3, Settle: 3 * time.Second}
	var only, series, extra string
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	f.StringVar(&p.Daemon, "daemon", "bin/socket_vmnet2", "the `binary` under test")
	f.StringVar(&extra, "daemon-args", "", "more `flags` for the daemon, separated by spaces")
	f.IntVar(&p.Rounds, "rounds", 9, "measurements of each set-up, interleaved; the best decides. Points of curves have half as many")
	f.DurationVar(&p.Time, "time", 500*time.Millisecond, "length of one measurement")
	f.StringVar(&only, "only", "", "comma-separated `keys` of the rows to measure: "+strings.Join(keys(), ", "))
	f.StringVar(&series, "series", "", "comma-separated `names` of series to measure: "+strings.Join(allSeries(), ", "))
	f.StringVar(&p.JSON, "json", "", "write the machine and the raw rounds to `file`, for the report")
	f.StringVar(&p.Verdicts, "verdicts", "", "write the machine, the verdicts and the calls of vmnet to `file`")
	f.BoolVar(&p.Quick, "quick", false, "two short rounds: shows that everything works, not how fast")
	f.BoolVar(&p.Strict, "strict", false, "exit 1 when a target is missed, not only when the run is invalid")
	f.StringVar(&p.Profile, "profile", "", "run two clients under load and watch the daemon with `tool` (perf or strace) instead")
	if err := f.Parse(args); err != nil {
		return p, err
	}
	if f.NArg() > 0 {
		return p, fmt.Errorf("unexpected argument %q", f.Arg(0))
	}
	p.Warm = 150 * time.Millisecond
	if p.Quick {
		p.Rounds, p.MemRuns = 2, 1
		p.Time, p.Warm, p.Settle = 200*time.Millisecond, 50*time.Millisecond, time.Second
	}
	if p.Rounds < 1 || p.Time < 10*time.Millisecond {
		return p, errors.New("--rounds below 1 or --time below 10ms")
	}
	p.Args = strings.Fields(extra)
	p.Command = strings.TrimSpace("go run ./test/bench " + strings.Join(args, " "))
	var err error
	p.choice, err = choose(only, series)
	return p, err
}

// A bench is a rig and what of the command line is measured with it.
type bench struct {
	*rig.Rig
	p       params
	calling calling
	more    []rounds.Round // of what is no comparison
}

func newBench(ctx context.Context, p params) (*bench, error) {
	r, err := rig.New(ctx, rig.Options{
		Daemon: p.Daemon, Args: p.Args, Time: p.Time, Warm: p.Warm, Kinds: kinds(),
		Progress: func(what string) { progress("%s", what) },
	})
	return &bench{Rig: r, p: p}, err
}

// build makes what the rows need.
func (b *bench) build(ctx context.Context) error {
	needed := b.p.relays()
	if b.p.single(keyIdleVmnet) {
		needed = append(needed, rig.DaemonBridged)
	}
	if err := b.Prepare(ctx, needed...); err != nil || !wantsCalls(b.p.choice) {
		return err
	}
	return b.buildCalls(ctx)
}

// run does everything. The error says why the run is invalid, or, with --strict, that targets were missed.
func run(ctx context.Context, p params) error {
	b, err := newBench(ctx, p)
	if err != nil {
		return err
	}
	defer b.Close()
	if p.Profile != "" {
		return b.profile(ctx)
	}
	if err := b.build(ctx); err != nil {
		return err
	}
	rep := report{Machine: rounds.ThisMachine(ctx), Command: p.Command, Params: p}
	progress("%s, %d cores, kernel %s", rep.Machine.CPU, rep.Machine.Cores, rep.Machine.Kernel)
	if rep.Rounds, err = b.rounds(ctx); err != nil {
		return err
	}
	if rep.Calls, err = b.calls(ctx); err != nil {
		return err
	}
	rep.Verdicts = append(judge(rep.Rounds, p.rows()), judgeCalls(rep.Calls, p.choice)...)
	singles, err := b.singles(ctx)
	if err != nil {
		return err
	}
	rep.Verdicts = append(rep.Verdicts, singles...)
	rep.Machine.LoadEnd = rounds.LoadAverage()
	rep.print(os.Stdout)
	rep.more = b.more
	return errors.Join(rep.write(), rep.outcome(p.Strict))
}

// begun is when the run began.
var begun = time.Now()

func progress(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "bench: %4.0f s: "+format+"\n", append([]any{time.Since(begun).Seconds()}, args...)...)
}
