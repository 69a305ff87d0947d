// SPDX-License-Identifier: Apache-2.0

// Package manual makes the manual pages and the completions for bash and zsh of a tree of commands:
//
//	docs/man/socket_vmnet2.8, socket_vmnet.8
//	etc/completions/socket_vmnet2.bash, _socket_vmnet2
//
// The prose around options and commands is in the directory prose, the shell code in the directory shell. A test of
// cmd/socket_vmnet2, which has the tree, writes the files and finds those that are not current.
package manual

import (
	"bytes"
	"embed"
	"fmt"
	"path"
	"strings"
	"text/template"

	"github.com/urfave/cli/v2"

	"github.com/socket-vmnet2/socket_vmnet2/internal/compat"
)

// Both are text/template: prose of mdoc, and shell code that gets the tables.
//
//go:embed prose all:shell
var templates embed.FS

// A Tree is what the programs take.
type Tree struct {
	Old, Daemon []cli.Flag     // of socket_vmnet, and of socket_vmnet2 without a command
	Commands    []*cli.Command // of socket_vmnet2
}

// Files are all files: their contents by their paths below the root.
func Files(tree Tree) (map[string]string, error) {
	all := tablesOf(tree)
	files := map[string]string{}
	for name, in := range map[string]string{
		"docs/man/socket_vmnet2.8": "prose", "docs/man/socket_vmnet.8": "prose",
		"etc/completions/socket_vmnet2.bash": "shell", "etc/completions/_socket_vmnet2": "shell",
	} {
		base := path.Base(name)
		t, err := template.New(base).Funcs(functions).ParseFS(templates, in+"/"+base)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		var b bytes.Buffer
		if err := t.Execute(&b, all); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		files[name] = b.String()
	}
	return files, nil
}

// functions are those of the templates.
var functions = template.FuncMap{
	"form": form, "options": func(flags []cli.Flag) string { return options(compat.Items(flags)) }, "body": body,
	"quote": quote, "join": strings.Join,
}

// quote makes one word for a shell.
func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
