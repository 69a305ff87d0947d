// SPDX-License-Identifier: Apache-2.0

// Command manual writes the manual pages and the completions for bash and zsh:
//
//	docs/man/socket_vmnet2.8, socket_vmnet.8, socket_vmnet_client.1
//	etc/completions/socket_vmnet2.bash, _socket_vmnet2
//
// What they say of options and subcommands is from the usage texts of the programs, which are built and asked for it. The
// prose around it is in the directory prose, the shell code in the directory shell. With -check nothing is written: it is an
// error if a file is not what would be written. It runs at the root of the repository.
package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
)

func main() {
	check := flag.Bool("check", false, "write nothing, and fail if a file would change")
	goTool := flag.String("go", "go", "the go `command`")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, *goTool, ".", *check)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "manual:", err)
		os.Exit(1)
	}
}

// run makes all files from the sources at root and writes or checks them there.
func run(ctx context.Context, goTool, root string, check bool) error {
	dir, err := os.MkdirTemp("", "manual")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	progs, err := buildPrograms(ctx, goTool, root, dir)
	if err != nil {
		return err
	}
	all, err := progs.usages(ctx)
	if err != nil {
		return err
	}
	files, err := generate(all)
	if err != nil {
		return err
	}
	if check {
		return compare(root, files)
	}
	for name, content := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, content, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// generate makes all files: their contents by their paths below the root.
func generate(all programs) (map[string][]byte, error) {
	files := map[string][]byte{}
	for name, make := range map[string]func(programs) ([]byte, error){
		"docs/man/socket_vmnet2.8":           page("socket_vmnet2.8"),
		"docs/man/socket_vmnet.8":            page("socket_vmnet.8"),
		"docs/man/socket_vmnet_client.1":     page("socket_vmnet_client.1"),
		"etc/completions/socket_vmnet2.bash": completion("socket_vmnet2.bash"),
		"etc/completions/_socket_vmnet2":     completion("_socket_vmnet2"),
	} {
		b, err := make(all)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		files[name] = b
	}
	return files, nil
}

// compare finds out whether the files below root are what they would be.
func compare(root string, files map[string][]byte) error {
	var stale []string
	for name, want := range files {
		if got, err := os.ReadFile(filepath.Join(root, name)); err != nil || !bytes.Equal(got, want) {
			stale = append(stale, name)
		}
	}
	if len(stale) == 0 {
		return nil
	}
	slices.Sort(stale)
	return fmt.Errorf("not what the programs' usage texts give, run make manual: %s", strings.Join(stale, ", "))
}
