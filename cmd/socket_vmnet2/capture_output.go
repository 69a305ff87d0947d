// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/internal/perclient/capture"
	"github.com/socket-vmnet2/socket_vmnet2/internal/printable"
)

// A captureOutput is where a capture goes: a file, standard output, or lines on that.
type captureOutput struct {
	name  string // for messages
	w     io.Writer
	lines bool

	file  *os.File // nil: none of ours
	path  string   // of file
	final string   // where it goes when the capture begins; empty: it is there
}

// openCapture makes FILE, in a way that a link, or another user who may write in its directory, leads to no other file.
func openCapture(path string, overwrite bool, stdout io.Writer) (*captureOutput, error) {
	switch path {
	case "":
		return &captureOutput{name: "the standard output", w: stdout, lines: true}, nil
	case "-":
		return &captureOutput{name: "the standard output", w: stdout}, nil
	}
	o := &captureOutput{name: printable.Lines(path), path: path}
	fi, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err == nil && !fi.Mode().IsRegular():
		return nil, fmt.Errorf("write the capture: %s is no file: have a FIFO or a device written to by the shell, with --write=- >", o.name)
	case err == nil && !overwrite:
		return nil, fmt.Errorf("write the capture: %s exists: choose another name, or say --overwrite", o.name)
	case err == nil: // the capture takes its place once there is one
		o.final = path
		o.path = filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+"."+strconv.Itoa(os.Getpid()))
	}
	if o.file, err = os.OpenFile(o.path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600); err != nil {
		return nil, fmt.Errorf("write the capture: %w", err)
	}
	o.w = o.file
	return o, nil
}

// begin puts a file into its place.
func (o *captureOutput) begin() error {
	if o.final == "" {
		return nil
	}
	if err := os.Rename(o.path, o.final); err != nil {
		return errors.Join(fmt.Errorf("write the capture: %w", err), o.discard())
	}
	o.path = o.final
	return nil
}

// discard leaves nothing behind.
func (o *captureOutput) discard() error {
	if o.file == nil {
		return nil
	}
	return errors.Join(o.file.Close(), os.Remove(o.path))
}

// copy writes what r has.
func (o *captureOutput) copy(r io.Reader) (capture.Counts, error) {
	if o.lines {
		return capture.Lines(o.w, r, time.Local)
	}
	return capture.Copy(o.w, r)
}

// finish closes a file, which ends with a whole block whatever happened. It returns err, or what went wrong here.
func (o *captureOutput) finish(c capture.Counts, err error) error {
	if o.file == nil {
		return err
	}
	if errors.As(err, new(*capture.WriteError)) {
		if terr := o.file.Truncate(c.Bytes); terr != nil {
			err = errors.Join(err, terr)
		}
	}
	if cerr := o.file.Close(); cerr != nil && err == nil {
		err = &capture.WriteError{Err: cerr}
	}
	return err
}
