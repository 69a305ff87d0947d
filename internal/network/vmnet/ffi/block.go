// SPDX-License-Identifier: Apache-2.0

//go:build darwin || vmnetsim

package ffi

import (
	"fmt"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/socket-vmnet2/socket_vmnet2/internal/network/vmnet/api"
)

// The functions of blocks, for C: see block_*.s.
var blockEventAddress, blockAnswerAddress, blockCollectAddress uintptr

// A block is a literal, with a flag of its own if it is for events. It is in mapped memory for as long as the process lives: C may
// look at it, and call it, at any time.
type block struct {
	literal blockLiteral
	_       [56]byte // so that the flag has a cache line
	flag    wakeFlag
}

func (b *block) address() uintptr { return uintptr(unsafe.Pointer(&b.literal)) }

// An answer is what the handler of a start, a stop or a rule was called with. params is NULL unless an interface has started; then
// it was retained.
type answer struct {
	status api.Status
	params uintptr
}

// Blocks are those of one library.
type blocks struct {
	isa, write uintptr // _NSConcreteGlobalBlock and write(2) of that library
	answers    *wakeup // of all blocks for answers
	descriptor uintptr
	collector  *collector

	mu      sync.Mutex
	fresh   []block // were never used
	events  []*block
	idle    []*block // for answers; never for events, of which one may come late
	waiting map[*block]chan answer
}

// pageOfBlocks is how many blocks are mapped at a time.
const pageOfBlocks = 256

// mapped is zeroed memory for n values, which is never given back.
func mapped[T any](n int) ([]T, error) {
	mem, err := unix.Mmap(-1, 0, n*int(unsafe.Sizeof(*new(T))), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return nil, fmt.Errorf("map memory for blocks: %w", err)
	}
	return unsafe.Slice((*T)(unsafe.Pointer(&mem[0])), n), nil
}

// newBlocks makes what serves the blocks of a library.
func newBlocks(isa, write uintptr) (*blocks, error) {
	c, err := newCollector(isa)
	if err != nil {
		return nil, err
	}
	flags, err := mapped[wakeFlag](1)
	if err != nil {
		return nil, err
	}
	p := &blocks{isa: isa, write: write, descriptor: c.block.descriptor, collector: c, waiting: map[*block]chan answer{}}
	if p.answers, err = flags[0].open(write); err != nil {
		return nil, err
	}
	go serveAnswers(p)
	return p, nil
}

// take takes a block from idle ones of its kind, or a fresh one. p.mu is held.
func (p *blocks) take(idle *[]*block) (*block, error) {
	if last := len(*idle) - 1; last >= 0 {
		b := (*idle)[last]
		*idle = (*idle)[:last]
		return b, nil
	}
	if len(p.fresh) == 0 {
		var err error
		if p.fresh, err = mapped[block](pageOfBlocks); err != nil {
			return nil, err
		}
	}
	b := &p.fresh[0]
	p.fresh = p.fresh[1:]
	b.literal.isa, b.literal.flags, b.literal.descriptor = p.isa, blockIsGlobal, p.descriptor
	return b, nil
}

// answerBlock takes a block that can be called once: its answer is on the channel then, and the block idle again. retain is the
// address of xpc_retain, or 0 if the answer has no parameters.
func (p *blocks) answerBlock(retain uintptr) (*block, <-chan answer, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	b, err := p.take(&p.idle)
	if err != nil {
		return nil, nil, err
	}
	l, to := &b.literal, make(chan answer, 1)
	l.invoke, l.flag, l.retain = blockAnswerAddress, uintptr(unsafe.Pointer(p.answers.flag)), retain
	l.status, l.params = 0, 0
	p.waiting[b] = to
	l.called.Store(0) // from here on an answer counts
	return b, to, nil
}

// giveUp has a call of b do nothing any more, in the use that answers tells from others. b is not used again, since it may be called
// late. It reports false when an answer has come or is under way.
func (p *blocks) giveUp(b *block, answers <-chan answer) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.waiting[b] != answers || b.literal.called.Swap(1) != 0 {
		return false
	}
	delete(p.waiting, b)
	return true
}

// serveAnswers passes answers on, for as long as the process lives.
func serveAnswers(p *blocks) {
	for {
		p.answers.wait()
		p.deliver()
	}
}

// deliver passes on the answers that have come.
func (p *blocks) deliver() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for b, to := range p.waiting {
		if l := &b.literal; l.answered.Swap(0) != 0 {
			to <- answer{api.Status(l.status), l.params} // it has room
			delete(p.waiting, b)
			p.idle = append(p.idle, b)
		}
	}
}

// eventBlock takes a block for events, with its wakeup.
func (p *blocks) eventBlock() (*block, *wakeup, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	b, err := p.take(&p.events)
	if err != nil {
		return nil, nil, err
	}
	w, err := b.flag.open(p.write)
	if err != nil {
		p.events = append(p.events, b)
		return nil, nil, err
	}
	b.literal.invoke, b.literal.flag = blockEventAddress, uintptr(unsafe.Pointer(&b.flag))
	return b, w, nil
}

// putEvent takes an event block back. An event that comes nevertheless wakes the next user of the block for nothing.
func (p *blocks) putEvent(b *block, w *wakeup) {
	w.close()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.events = append(p.events, b)
}
