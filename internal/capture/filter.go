// SPDX-License-Identifier: Apache-2.0

package capture

import (
	"fmt"

	"golang.org/x/net/bpf"
)

// newFilter makes a machine for a program that is sound; nil for none. It cannot run for ever: jumps only go forward.
func newFilter(program []Instruction) (*bpf.VM, error) {
	if len(program) == 0 {
		return nil, nil
	}
	if len(program) > maxFilter {
		return nil, fmt.Errorf("the filter has %d instructions, more than %d", len(program), maxFilter)
	}
	decoded := make([]bpf.Instruction, len(program))
	for n, i := range program {
		decoded[n] = bpf.RawInstruction{Op: i.Op, Jt: i.JT, Jf: i.JF, K: i.K}.Disassemble()
		switch decoded[n].(type) {
		case bpf.RawInstruction, bpf.NegateA: // the machine knows neither
			return nil, fmt.Errorf("instruction %d of the filter, code %#x, is none that runs here", n, i.Op)
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
