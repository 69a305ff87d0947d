// SPDX-License-Identifier: Apache-2.0

// The report draws pages and plots from raw rounds: every figure and every point in them is computed from the *.json files of one
// directory, which bench and perf.sh write. make report does it for docs/performance, test/perf.sh report for a directory of
// one's own.
//
//	go -C test/report run . -raw DIR -out DIR            # paths are relative to test/report: give absolute ones
//	go -C test/report run . -raw DIR -out DIR -check     # changes nothing; fails if the pages are not what the rounds give
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/socket-vmnet2/socket_vmnet2/test/report/internal/figures"
	"github.com/socket-vmnet2/socket_vmnet2/test/report/internal/output"
	"github.com/socket-vmnet2/socket_vmnet2/test/report/internal/pages"
)

func main() {
	err := report(os.Args[1:], os.Stdout)
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "report:", err)
		os.Exit(1)
	}
}

// report makes the pages, or with -check compares them.
func report(args []string, stdout io.Writer) error {
	flags := flag.NewFlagSet("report", flag.ContinueOnError)
	flags.SetOutput(stdout)
	raw := flags.String("raw", "", "directory of the raw rounds (*.json)")
	out := flags.String("out", "", "directory for the pages, new or of an earlier report")
	peers := flags.String("peers", "../../docs/performance/peers.json", "file of the figures that others have published")
	notes := flags.String("notes", "../../docs/performance/notes.json", "file of figures that no round has, if there are any")
	check := flags.Bool("check", false, "write nothing; fail if what is there is not what the rounds give")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("%q is too much: there are only options", flags.Arg(0))
	}
	if *raw == "" || *out == "" {
		return errors.New("-raw and -out are needed; -help explains them")
	}

	runs, err := figures.Load(*raw)
	if err != nil {
		return err
	}
	published, err := pages.LoadPeers(*peers)
	if err != nil {
		return err
	}
	noted, err := pages.LoadNotes(*notes)
	if err != nil {
		return err
	}
	link, err := between(*out, *raw)
	if err != nil {
		return err
	}
	files, err := pages.Make(pages.Source{Runs: runs, Peers: published, Notes: noted, Raw: link})
	if err != nil {
		return err
	}
	if *check {
		return output.Compare(*out, files)
	}
	if err := output.Write(*out, files); err != nil {
		return err
	}
	fmt.Fprintf(stdout, "%d files in %s\n", len(files), *out)
	return nil
}

// between is the way from one directory to another, as a link has it.
func between(from, to string) (string, error) {
	a, err := filepath.Abs(from)
	if err != nil {
		return "", err
	}
	b, err := filepath.Abs(to)
	if err != nil {
		return "", err
	}
	link, err := filepath.Rel(a, b)
	return filepath.ToSlash(link), err
}
