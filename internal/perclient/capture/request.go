// SPDX-License-Identifier: Apache-2.0

package capture

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"

	"golang.org/x/net/bpf"

	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
)

const (
	// maxFilter is the most instructions that a filter may have, as in Linux (BPF_MAXINSNS).
	maxFilter = 4096
	// maxClients is how many clients a request may name.
	maxClients = 1024
)

// MinSnapLen and MaxSnapLen bound what is kept of each frame, in bytes.
const (
	MinSnapLen = frame.MinLen
	MaxSnapLen = frame.MaxLen
)

// The trailer of a capture's answer, which tells how it went.
const (
	TrailerFrames  = "Capture-Frames"
	TrailerDropped = "Capture-Dropped"
	TrailerReason  = "Capture-Reason"
)

// A Request says what to capture.
type Request struct {
	Clients []uint64      `json:"clients,omitempty"` // of these only; empty: of all, also of those that come later
	SnapLen int           `json:"snaplen,omitempty"` // bytes of each frame; 0: whole frames
	Count   uint64        `json:"count,omitempty"`   // ends after so many frames; 0: does not
	Filter  []instruction `json:"filter,omitempty"`  // of those only that it returns anything but 0 for; empty: all
}

// An instruction is one of classic BPF, as struct sock_filter: code, jt, jf and k.
type instruction []uint32

// DecodeRequest reads a request, which is a JSON object with these fields and no others, and checks it. Nothing at all asks
// for everything.
func DecodeRequest(r io.Reader) (q Request, err error) {
	b, err := io.ReadAll(r)
	if err != nil {
		return Request{}, fmt.Errorf("read the request: %w", err)
	}
	if b = bytes.TrimSpace(b); len(b) == 0 {
		return Request{}, nil
	}
	if b[0] != '{' {
		return Request{}, errors.New("the request is no JSON object")
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(&q); err != nil {
		return Request{}, fmt.Errorf("the request cannot be read: %w", err)
	}
	if d.InputOffset() != int64(len(b)) {
		return Request{}, errors.New("something follows the request")
	}
	return q, q.check()
}

// check refuses what is out of bounds.
func (q *Request) check() error {
	switch {
	case len(q.Clients) > maxClients:
		return fmt.Errorf("%d clients are named, more than %d", len(q.Clients), maxClients)
	case q.SnapLen != 0 && (q.SnapLen < MinSnapLen || q.SnapLen > MaxSnapLen):
		return fmt.Errorf("snaplen %d is not between %d and %d", q.SnapLen, MinSnapLen, MaxSnapLen)
	}
	_, err := newFilter(q.Filter)
	return err
}

// newFilter makes a machine for a program that is sound; nil for none. It cannot run for ever: jumps only go forward.
func newFilter(program []instruction) (*bpf.VM, error) {
	if len(program) == 0 {
		return nil, nil
	}
	if len(program) > maxFilter {
		return nil, fmt.Errorf("the filter has %d instructions, more than %d", len(program), maxFilter)
	}
	decoded := make([]bpf.Instruction, len(program))
	for n, i := range program {
		if len(i) != 4 || i[0] > math.MaxUint16 || max(i[1], i[2]) > math.MaxUint8 {
			return nil, fmt.Errorf("instruction %d of the filter has not four numbers (code, jt, jf, k) but %d", n, i)
		}
		decoded[n] = bpf.RawInstruction{Op: uint16(i[0]), Jt: uint8(i[1]), Jf: uint8(i[2]), K: i[3]}.Disassemble()
		switch decoded[n].(type) {
		case bpf.RawInstruction, bpf.NegateA: // the machine knows neither
			return nil, fmt.Errorf("instruction %d of the filter, code %#x, is none that runs here", n, i[0])
		}
	}
	vm, err := bpf.NewVM(decoded)
	if err != nil {
		return nil, fmt.Errorf("the filter is not sound: %w", err)
	}
	return vm, nil
}

// accepts tells whether vm, which may be nil, wants the frame.
func accepts(vm *bpf.VM, f []byte) bool {
	if vm == nil {
		return true
	}
	n, err := vm.Run(f)
	return err == nil && n != 0
}
