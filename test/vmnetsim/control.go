// SPDX-License-Identifier: Apache-2.0

package vmnetsim

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"syscall"
	"unsafe"

	"github.com/socket-vmnet2/socket_vmnet2/test/cbuild"
)

// Forever as the second value of Set lets a fault apply to every call.
const Forever = math.MaxInt64

// The layout of control.h. Values are 64 bits in the machine's order, and atomic.
const (
	magic       = "vmnetsim-control"
	version     = 3
	headerSize  = 24
	recordSize  = 32
	processSize = 128
	ownerSize   = 128
	ruleSize    = 64
	launchSize  = 64
	launchName  = 56
	leaseSize   = 128
	lockByte    = 1 << 30

	processes, owners, rules, launches, leases = 64, 255, 256, 16, 512
)

// A Control is the mapped control file of one or more simulators. Its methods may be called from several goroutines.
type Control struct {
	f        *os.File
	mem      []byte
	tables   map[string]*table
	switches map[Switch]int // offsets of records

	calls, gauges, processes, owners, rules, launches section
}

type section struct{ offset, count, size int }

func (s section) at(i int) int { return s.offset + i*s.size }

// Open maps the control file in dir, and makes both if they are missing, as vmnetsim_open does.
func Open(dir string) (*Control, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(filepath.Join(dir, "control"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	c := &Control{f: f}
	err = cbuild.Flock(f, syscall.LOCK_EX) // the owners' lock, which excludes other processes
	if err == nil {
		err = errors.Join(c.mapFile(), cbuild.Flock(f, syscall.LOCK_UN))
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open %s: %w", f.Name(), err), c.Close())
	}
	return c, nil
}

func (c *Control) mapFile() error {
	want, err := c.image()
	if err != nil {
		return err
	}
	st, err := c.f.Stat()
	if err != nil {
		return err
	}
	if st.Size() == 0 {
		if _, err := c.f.WriteAt(want, 0); err != nil {
			return err
		}
	} else if st.Size() != int64(len(want)) {
		return fmt.Errorf("it has %d bytes, want %d: another version made it, remove it", st.Size(), len(want))
	}
	c.mem, err = syscall.Mmap(int(c.f.Fd()), 0, len(want), syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	if err != nil {
		return os.NewSyscallError("mmap", err)
	}
	if !bytes.Equal(c.mem[:headerSize], want[:headerSize]) {
		return errors.New("another version made it, remove it")
	}
	return nil
}

// Close unmaps the file.
func (c *Control) Close() error {
	var err error
	if c.mem != nil {
		err = syscall.Munmap(c.mem)
		c.mem = nil
	}
	return errors.Join(err, c.f.Close())
}

// cell is the value at an offset.
func (c *Control) cell(at int) *atomic.Int64 { return (*atomic.Int64)(unsafe.Pointer(&c.mem[at])) }

// Set flips a switch. For faults, the values are a status or 1, how many calls it applies to (Forever unless given), and
// how many calls are let pass first; other switches have one value. It panics for an unknown switch, since tests alone
// use it.
func (c *Control) Set(s Switch, values ...int64) {
	at, ok := c.switches[s]
	if !ok || len(values) < 1 || len(values) > 3 {
		panic(fmt.Sprintf("vmnetsim: no switch %q that takes %d values", s, len(values)))
	}
	values = slices.Concat(values, []int64{0, Forever, 0}[len(values):]) // what is not given
	c.cell(at).Store(0)                                                  // off, while its parts change
	c.cell(at + 16).Store(values[2])
	c.cell(at + 8).Store(values[1])
	c.cell(at).Store(values[0])
}

// Reset sets all switches back, forgets sockets of launchd, and counts from zero again. What lives is not touched.
func (c *Control) Reset() {
	for s, at := range c.switches {
		c.Set(s, c.cell(at+24).Load())
	}
	for _, s := range []section{c.calls, c.gauges} {
		for i := range s.count {
			c.cell(s.at(i)).Store(0)
		}
	}
	c.SetSockets()
}

// Calls are how often each exported function was called, by all processes.
func (c *Control) Calls() map[string]uint64 {
	m := map[string]uint64{}
	for i, name := range c.tables["CALL"].names {
		m[name] = uint64(c.cell(c.calls.at(i)).Load())
	}
	return m
}

// SetSockets makes launch_activate_socket hand out descriptors, which the process asking must have inherited; one name
// may come several times. None: not started by launchd.
func (c *Control) SetSockets(sockets ...Socket) {
	s := c.launches
	for i := range s.count {
		at := s.at(i)
		c.cell(at + launchName).Store(0)
		if i < len(sockets) {
			clear(c.mem[at : at+launchName])
			copy(c.mem[at:at+launchName-1], sockets[i].Name)
			c.cell(at + launchName).Store(int64(sockets[i].FD) + 1)
		}
	}
}

// A Socket is one of launchd's.
type Socket struct {
	Name string
	FD   int
}

func ipv4(v int64) netip.Addr {
	return netip.AddrFrom4([4]byte(binary.BigEndian.AppendUint32(nil, uint32(v))))
}
