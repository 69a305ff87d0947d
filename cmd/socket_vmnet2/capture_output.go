// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/socket-vmnet2/socket_vmnet2/internal/capture/read"
	"github.com/socket-vmnet2/socket_vmnet2/internal/printable"
)

// A captureOutput is where a capture goes: a file, standard output, or lines on that.
type captureOutput struct {
	name  string // for messages
	w     io.Writer
	lines bool

	file  *os.File // nil: none of ours
	fresh bool     // it is a regular file, which was made for this capture
	path  string   // of a fresh file
	final string   // where a fresh file goes when the capture begins; empty: it is there
}

// openCapture opens FILE, in a way that a link, or whoever may write in its directory, leads to no other file than one that is made
// here.
func openCapture(ctx context.Context, path string, overwrite bool, stdout io.Writer) (*captureOutput, error) {
	switch path {
	case "":
		return &captureOutput{name: "the standard output", w: stdout, lines: true}, nil
	case "-":
		return &captureOutput{name: "the standard output", w: stdout}, nil
	}
	o := &captureOutput{name: printable.Lines(path), path: path, fresh: true}
	fi, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, fmt.Errorf("write the capture: %w", err)
	case fi.Mode()&(fs.ModeNamedPipe|fs.ModeCharDevice) != 0:
		return o, o.open(ctx, unix.O_NOFOLLOW|unix.O_NONBLOCK)
	case !fi.Mode().IsRegular():
		return nil, fmt.Errorf("write the capture: %s is neither a file nor a FIFO or a device", o.name)
	case !overwrite:
		return nil, fmt.Errorf("write the capture: %s exists: choose another name, or say --overwrite", o.name)
	default: // the capture takes its place once there is one
		o.final = path
		o.path = filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+"."+strconv.Itoa(os.Getpid()))
	}
	return o, o.open(ctx, os.O_CREATE|os.O_EXCL)
}

// fifoPause is how often it is looked whether somebody reads a FIFO.
const fifoPause = 50 * time.Millisecond

// open opens what is at the path. A FIFO waits for its reader until ctx is done.
func (o *captureOutput) open(ctx context.Context, flags int) error {
	f, err := os.OpenFile(o.path, os.O_WRONLY|flags, 0o600)
	for errors.Is(err, unix.ENXIO) && ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-time.After(fifoPause):
		}
		f, err = os.OpenFile(o.path, os.O_WRONLY|flags, 0o600)
	}
	if err != nil {
		return fmt.Errorf("write the capture: %w", err)
	}
	o.file, o.w = f, f
	if o.fresh = flags&os.O_EXCL != 0; o.fresh {
		return nil
	}
	if fi, err := f.Stat(); err != nil || fi.Mode().IsRegular() || fi.IsDir() { // it was replaced meanwhile
		_ = f.Close()
		return fmt.Errorf("write the capture: %s is no FIFO or device any more", o.name)
	}
	return nil
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
	err := o.file.Close()
	if o.fresh {
		err = errors.Join(err, os.Remove(o.path))
	}
	return err
}

// copy writes what r has.
func (o *captureOutput) copy(r io.Reader) (read.Counts, error) {
	if o.lines {
		return read.Lines(o.w, r, time.Local)
	}
	return read.Copy(o.w, r)
}

// finish closes a file, which ends with a whole block whatever happened. It returns err, or what went wrong here.
func (o *captureOutput) finish(c read.Counts, err error) error {
	if o.file == nil {
		return err
	}
	if errors.As(err, new(*read.WriteError)) && o.fresh {
		if terr := o.file.Truncate(c.Bytes); terr != nil {
			err = errors.Join(err, terr)
		}
	}
	if cerr := o.file.Close(); cerr != nil && err == nil {
		err = &read.WriteError{Err: cerr}
	}
	return err
}
