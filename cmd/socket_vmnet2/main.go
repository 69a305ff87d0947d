// SPDX-License-Identifier: Apache-2.0

// Command socket_vmnet2 is the network daemon. Under any name that does not begin with socket_vmnet2 it is socket_vmnet:
// the same options, texts and exit codes, and nothing else.
package main

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/socket-vmnet2/socket_vmnet2/internal/compat"
	"github.com/socket-vmnet2/socket_vmnet2/internal/daemon"
	"github.com/socket-vmnet2/socket_vmnet2/internal/daemon/lowfd"
	"github.com/socket-vmnet2/socket_vmnet2/internal/gateway"
)

func main() {
	if code, ran := gateway.Main(compat.Version); ran {
		os.Exit(code)
	}
	os.Exit(run(os.Args))
}

func run(argv []string) int {
	// A client that has gone is an error of one write. Without this a closed stderr would end the daemon.
	signal.Ignore(syscall.SIGPIPE)
	if len(argv) < 2 || argv[1] != "exec" {
		lowfd.Release()
	}
	var personality compat.Personality
	if len(argv) > 0 {
		personality = compat.PersonalityOf(argv[0])
	}
	env := compat.IO{Stdout: os.Stdout, Stderr: os.Stderr, LookupEnv: os.LookupEnv, Commands: commandItems()}
	env.Width = widthOf(env)
	if code, ran := daemon.Check(argv, os.Stdin, env); ran {
		return code
	}
	if name, args := compat.Subcommand(argv, commandNames()); name != "" {
		return runCommand(name, args, env)
	}
	cfg, code := compat.Parse(personality, argv, env)
	if cfg == nil {
		return code
	}
	log := cfg.OpenLog(&compat.LogFile{FD: int(os.Stderr.Fd())})
	defer log.Flush()
	slog.SetDefault(log.Logger) // libraries that know no other logger
	if code, ran := daemon.Keep(cfg, log.Logger); ran {
		return code
	}
	var err error
	if cfg.ListInterfaces {
		err = printInterfaces(cfg, os.Stdout)
	} else {
		err = daemon.Serve(cfg, log, greeting(personality, cfg))
	}
	if err != nil {
		personality.LogError(log.Logger, err)
		return 1
	}
	return 0
}

// printInterfaces writes the interfaces of this host that bridged mode takes to w, one per line.
func printInterfaces(cfg *compat.Config, w io.Writer) error {
	names, err := daemon.ListInterfaces(cfg)
	if err != nil {
		return err
	}
	if len(names) == 0 {
		return errors.New("macOS names no interface of this host that can be bridged to")
	}
	_, err = fmt.Fprintln(w, strings.Join(names, "\n"))
	return err
}
