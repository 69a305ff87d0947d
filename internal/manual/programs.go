// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// built is a directory with the programs, under the names that decide what they are.
type built string

// buildPrograms builds the programs of the sources at root in dir.
func buildPrograms(ctx context.Context, goTool, root, dir string) (built, error) {
	for _, name := range []string{"socket_vmnet2", "socket_vmnet_client"} {
		cmd := exec.CommandContext(ctx, goTool, "build", "-o", filepath.Join(dir, name), "./cmd/"+name)
		cmd.Dir = root
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=", "GOOS=", "GOARCH=")
		if out, err := cmd.CombinedOutput(); err != nil {
			return "", fmt.Errorf("build %s: %w\n%s", name, err, out)
		}
	}
	return built(dir), os.Link(filepath.Join(dir, "socket_vmnet2"), filepath.Join(dir, "socket_vmnet"))
}

// help runs a program, whose name is the first word of command, with --help and returns what it prints.
func (b built) help(ctx context.Context, command string) (string, error) {
	words := strings.Fields(command)
	var out, errs bytes.Buffer
	cmd := exec.CommandContext(ctx, filepath.Join(string(b), words[0]), append(words[1:], "--help")...)
	cmd.Args[0] = words[0]
	cmd.Env = []string{"HOME=" + string(b)} // nothing of the caller's may be in the text
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s --help: %w, and on standard error: %q", command, err, errs.String())
	}
	if errs.Len() > 0 {
		return "", fmt.Errorf("%s --help writes to standard error: %q", command, errs.String())
	}
	return out.String(), nil
}

// programs are the usage texts of all.
type programs struct {
	daemon   usage   // socket_vmnet2
	old      usage   // socket_vmnet
	commands []usage // socket_vmnet2's subcommands, by name
	client   string  // how socket_vmnet_client is called
}

// usages asks the programs for their usage texts.
func (b built) usages(ctx context.Context) (programs, error) {
	var all programs
	ask := func(u *usage, command string) error {
		text, err := b.help(ctx, command)
		if err == nil {
			*u, err = parseUsage(command, text)
		}
		return err
	}
	if err := ask(&all.daemon, "socket_vmnet2"); err != nil {
		return all, err
	}
	if err := ask(&all.old, "socket_vmnet"); err != nil {
		return all, err
	}
	all.commands = make([]usage, len(all.daemon.commands))
	for i, name := range all.daemon.commands {
		if err := ask(&all.commands[i], "socket_vmnet2 "+name); err != nil {
			return all, err
		}
	}
	var err error
	all.client, err = b.clientUsage(ctx)
	return all, err
}

// clientUsage is the only line that socket_vmnet_client has to say of itself. It takes no options: --help would be a socket.
func (b built) clientUsage(ctx context.Context) (string, error) {
	cmd := exec.CommandContext(ctx, filepath.Join(string(b), "socket_vmnet_client"))
	cmd.Args[0] = "socket_vmnet_client"
	out, _ := cmd.CombinedOutput() // the exit code is 1
	line, ok := strings.CutPrefix(strings.TrimSpace(string(out)), "Usage: socket_vmnet_client ")
	if !ok || strings.Contains(line, "\n") {
		return "", fmt.Errorf("socket_vmnet_client without arguments prints no usage line: %q", out)
	}
	return line, nil
}
