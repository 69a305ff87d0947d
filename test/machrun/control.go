// SPDX-License-Identifier: Apache-2.0

package machrun

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"sync/atomic"
	"syscall"
	"unsafe"
)

// Forever as the second value of Set lets a switch apply to every call.
const Forever = math.MaxInt64

// The layout of control.h. Values are 64 bits in the machine's order, and atomic.
const (
	magic      = "machrun-control"
	fileName   = "machrun.control"
	headerSize = 64
	recordSize = 64
	recordName = 40
)

// A Control is the mapped control file of one or more programs, which get its directory as MACHRUN_DIR. Its methods may be
// called from several goroutines.
type Control struct {
	mem     []byte
	records map[string]int // offsets
}

var tablePattern = regexp.MustCompile(`(?m)^(CALL|SWITCH|GAUGE)\((\w+)\)$`)

// names are those of the records, in their order.
func names() (all []string, err error) {
	b, err := csrc.ReadFile("csrc/switches.h")
	if err != nil {
		return nil, err
	}
	for _, m := range tablePattern.FindAllSubmatch(b, -1) {
		name := string(m[2])
		if string(m[1]) == "CALL" {
			all = append(all, "fail."+name, "slow."+name, "stop."+name)
		} else {
			all = append(all, name)
		}
	}
	return all, nil
}

// image is a fresh control file.
func image(names []string) []byte {
	mem := make([]byte, headerSize+len(names)*recordSize)
	copy(mem, magic)
	binary.NativeEndian.PutUint64(mem[16:], uint64(len(names)))
	for i, name := range names {
		copy(mem[headerSize+i*recordSize:], name)
	}
	return mem
}

// Open maps the control file in dir, and makes both if they are missing. It must have done so before a program starts.
func Open(dir string) (*Control, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	all, err := names()
	if err != nil {
		return nil, err
	}
	path, want := filepath.Join(dir, fileName), image(all)
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		err = os.WriteFile(path, want, 0o600)
		if err != nil {
			return nil, err
		}
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	c := &Control{records: map[string]int{}}
	if st, err := f.Stat(); err != nil || st.Size() != int64(len(want)) {
		return nil, errors.Join(fmt.Errorf("%s is of another version: remove it", path), err)
	}
	c.mem, err = syscall.Mmap(int(f.Fd()), 0, len(want), syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	if err != nil {
		return nil, os.NewSyscallError("mmap", err)
	}
	for i, name := range all {
		at := headerSize + i*recordSize
		c.records[name] = at
		if !bytes.Equal(c.mem[:headerSize], want[:headerSize]) || !bytes.Equal(c.mem[at:at+recordName], want[at:at+recordName]) {
			return nil, errors.Join(fmt.Errorf("%s is of another version: remove it", path), c.Close())
		}
	}
	return c, nil
}

// Close unmaps the file.
func (c *Control) Close() error { return syscall.Munmap(c.mem) }

// cell is a value of a record. It panics for an unknown name, since tests alone use it.
func (c *Control) cell(name string, which int) *atomic.Int64 {
	at, ok := c.records[name]
	if !ok {
		panic(fmt.Sprintf("machrun: there is no switch or sum %q", name))
	}
	return (*atomic.Int64)(unsafe.Pointer(&c.mem[at+recordName+8*which]))
}

// Set flips a switch: its value, how many calls it applies to (Forever unless given), and how many calls are let pass
// first.
func (c *Control) Set(name string, values ...int64) {
	count, skip := int64(Forever), int64(0)
	if len(values) > 1 {
		count = values[1]
	}
	if len(values) > 2 {
		skip = values[2]
	}
	c.cell(name, 0).Store(0) // off, while its parts change
	c.cell(name, 2).Store(skip)
	c.cell(name, 1).Store(count)
	c.cell(name, 0).Store(values[0])
}

// Value is what a switch stands at, or a sum.
func (c *Control) Value(name string) int64 { return c.cell(name, 0).Load() }

// Left is how many calls a switch still applies to.
func (c *Control) Left(name string) int64 { return c.cell(name, 1).Load() }
