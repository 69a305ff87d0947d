// SPDX-License-Identifier: Apache-2.0

package vmnet

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
	"github.com/socket-vmnet2/socket_vmnet2/internal/network"
	"github.com/socket-vmnet2/socket_vmnet2/internal/network/vmnet/api"
)

// A fake is vmnet.framework in Go: networks with a learning bridge each, limits, and faults that a test switches on. It
// watches over the rules of api and notes what breaks them.
type fake struct {
	features api.Features

	mu       sync.Mutex
	networks map[netip.Prefix]*fakeNetwork
	started  []*fakeInterface // those that run
	limit    int              // how many may run, 0 = any number
	every    []*fakeInterface // also those that have stopped
	created  []api.NetworkConfig
	configs  []api.InterfaceConfig // of plain interfaces
	bad      []string              // broken rules
	released int
	order    []string // of what ended: "stop", "release"

	// What starts do. nil = succeed at once.
	onCreate  func(api.NetworkConfig) error
	onStart   func(ctx context.Context, anchor bool) error
	tune      func(p *api.Params) // changes what is reported
	onForward func(ctx context.Context) error
	born      func(*fakeInterface) // changes a new interface
	other     netip.Prefix         // a subnet to give in place of what was asked for
}

// fakeDefault is the subnet when none is asked for.
var fakeDefault = netip.MustParsePrefix("192.168.64.0/24")

func newFake() *fake { return &fake{features: macOS26, networks: map[netip.Prefix]*fakeNetwork{}} }

func (f *fake) broken(format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.bad = append(f.bad, fmt.Sprintf(format, args...))
}

func (f *fake) rules() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.bad)
}

// running are the interfaces that run now.
func (f *fake) running() []*fakeInterface {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.started)
}

// setStart sets what starts do from now on.
func (f *fake) setStart(do func(ctx context.Context, anchor bool) error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.onStart = do
}

func (f *fake) Features() api.Features { return f.features }

func (f *fake) SharedInterfaces() ([]string, error) { return []string{"en0"}, nil }

// fakeNetwork is a subnet with its bridge.
type fakeNetwork struct {
	f      *fake
	subnet netip.Prefix
	mtu    int

	mu    sync.Mutex
	ports []*fakeInterface
	owner map[[6]byte]*fakeInterface
	gone  bool
}

func (f *fake) network(subnet netip.Prefix) *fakeNetwork {
	if !subnet.IsValid() {
		subnet = fakeDefault
	}
	if f.other.IsValid() {
		subnet = f.other
	}
	n := f.networks[subnet]
	if n == nil {
		n = &fakeNetwork{f: f, subnet: subnet, owner: map[[6]byte]*fakeInterface{}}
		f.networks[subnet] = n
	}
	return n
}

func (f *fake) NewNetwork(c api.NetworkConfig) (api.Network, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.created = append(f.created, c)
	if f.onCreate != nil {
		if err := f.onCreate(c); err != nil {
			return nil, err
		}
	}
	n := f.network(c.Subnet)
	n.gone, n.mtu = false, c.MTU
	return n, nil
}

func (f *fake) Start(ctx context.Context, c api.InterfaceConfig) (api.Interface, error) {
	var subnet netip.Prefix
	if c.Start.IsValid() {
		subnet = netip.PrefixFrom(c.Start, maskBits(c.Mask)).Masked()
	}
	f.mu.Lock()
	f.configs = append(f.configs, c)
	n := f.network(subnet)
	f.mu.Unlock()
	return n.Start(ctx, c)
}

func (n *fakeNetwork) Subnet() netip.Prefix { return n.subnet }

func (n *fakeNetwork) Release() {
	n.f.mu.Lock()
	defer n.f.mu.Unlock()
	if n.gone {
		return
	}
	n.f.released++
	n.f.order = append(n.f.order, "release")
	n.gone = true
}

var fakeMACs atomic.Uint32

func (n *fakeNetwork) Start(ctx context.Context, c api.InterfaceConfig) (api.Interface, error) {
	f := n.f
	f.mu.Lock()
	do := f.onStart
	anchor := len(f.every) == 0
	gone := n.gone
	f.mu.Unlock()
	if gone {
		return nil, errors.New("the network was released")
	}
	if do != nil {
		if err := do(ctx, anchor); err != nil {
			return nil, err
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.limit > 0 && len(f.started) >= f.limit {
		return nil, &api.CallError{Call: "vmnet_start_interface", Status: api.Failure}
	}
	i := &fakeInterface{net: n, isolate: c.Isolate, wake: make(chan struct{}, 1)}
	i.params = fakeParams(n, c)
	if f.tune != nil {
		f.tune(&i.params)
	}
	if f.born != nil {
		f.born(i)
	}
	f.started = append(f.started, i)
	f.every = append(f.every, i)
	n.mu.Lock()
	n.ports = append(n.ports, i)
	n.mu.Unlock()
	return i, nil
}

func fakeParams(n *fakeNetwork, c api.InterfaceConfig) api.Params {
	mac := binary.BigEndian.AppendUint32([]byte{0xfa, 0x6e}, fakeMACs.Add(1))
	p := api.Params{
		MAC: net.HardwareAddr(mac), MTU: 1500, MaxPacket: 1514, ReadMax: 256, WriteMax: 256,
		InterfaceID: fmt.Sprintf("%X", c.InterfaceID),
		Start:       firstHost(n.subnet), End: lastHost(n.subnet), Mask: mask(n.subnet.Bits()),
	}
	if c.Start.IsValid() && !n.f.other.IsValid() {
		p.Start, p.End = c.Start, c.End
	}
	if mtu := max(c.MTU, n.mtu); mtu > 0 {
		p.MTU, p.MaxPacket = mtu, mtu+14
	}
	if c.Offload {
		p.MaxPacket = 65550
	}
	p.Entries = []api.Entry{{Key: "vmnet_mac_address", Value: p.MAC.String()}, {Key: "vmnet_mtu", Value: uint64(p.MTU)}}
	return p
}

// fakeQueue is how many packets wait in an interface at most.
const fakeQueue = 1 << 14

// A fakeInterface is a started interface.
type fakeInterface struct {
	net     *fakeNetwork
	params  api.Params
	isolate bool

	reads, writes, packets atomic.Int64 // calls, and packets written
	reading                atomic.Int32
	calls                  atomic.Int32 // under way

	mu       sync.Mutex
	queue    [][]byte
	notifies bool
	wake     chan struct{}
	stopped  bool
	forwards []network.Forward

	// Faults. nil or 0 = none.
	onRead  func() api.Status
	onWrite func(frames [][]byte) api.Status
	onStop  func(ctx context.Context) error
}

// fault changes the interface's faults.
func (i *fakeInterface) fault(change func(*fakeInterface)) {
	i.mu.Lock()
	defer i.mu.Unlock()
	change(i)
}

func (i *fakeInterface) Params() api.Params { return i.params }

func (i *fakeInterface) Notify(on bool) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.notifies = on
	return nil
}

func (i *fakeInterface) Wait() { <-i.wake }

func (i *fakeInterface) Wake() {
	select {
	case i.wake <- struct{}{}:
	default:
	}
}

func (i *fakeInterface) put(f []byte) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.stopped || len(i.queue) >= fakeQueue {
		return
	}
	i.queue = append(i.queue, f)
	if i.notifies && len(i.queue) == 1 { // it tells only when there were none before, as the real one does at its worst
		i.Wake()
	}
}

// desc and iov are vmpktdesc and iovec.
type desc struct {
	size uint64
	iov  *struct {
		base unsafe.Pointer
		size uint64
	}
	iovcnt, flags uint32
}

// args are the arguments of a call behind the first.
func args(call []uintptr) (p unsafe.Pointer, count *int32) {
	return *(*unsafe.Pointer)(unsafe.Pointer(&call[1])), *(**int32)(unsafe.Pointer(&call[2]))
}

func (i *fakeInterface) Read(r *api.Reader) api.Status {
	i.reads.Add(1)
	if i.reading.Add(1) > 1 {
		i.net.f.broken("two reads at a time")
	}
	defer i.reading.Add(-1)
	i.calls.Add(1)
	defer i.calls.Add(-1)
	i.mu.Lock()
	do := i.onRead
	if i.stopped {
		i.net.f.broken("read of a stopped interface")
		do = func() api.Status { return api.InvalidAccess }
	}
	i.mu.Unlock()
	if do != nil {
		if st := do(); st != api.Success {
			return st
		}
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	r.Reset()
	p, count := args(r.Call(0))
	d := unsafe.Slice((*desc)(p), int(*count))
	n := min(len(d), len(i.queue))
	for k, f := range i.queue[:n] {
		if d[k].size < uint64(min(i.params.MaxPacket, frame.MaxLen)) || d[k].size != d[k].iov.size || d[k].iovcnt != 1 || d[k].flags != 0 {
			i.net.f.broken("descriptor %d is not ready: %+v", k, d[k])
		}
		d[k].size = uint64(copy(unsafe.Slice((*byte)(d[k].iov.base), d[k].iov.size), f))
	}
	i.queue = i.queue[n:]
	*count = int32(n)
	return api.Success
}

func (i *fakeInterface) Write(w *api.Writer) api.Status {
	i.writes.Add(1)
	i.calls.Add(1)
	defer i.calls.Add(-1)
	p, count := args(w.Call(0))
	var frames [][]byte
	sum := 0
	for _, d := range unsafe.Slice((*desc)(p), int(*count)) {
		if d.size != d.iov.size || d.iovcnt != 1 || d.flags != 0 {
			i.net.f.broken("descriptor of a write: %+v", d)
		}
		frames = append(frames, slices.Clone(unsafe.Slice((*byte)(d.iov.base), d.size)))
		sum += int(d.size)
	}
	i.mu.Lock()
	do, stopped := i.onWrite, i.stopped
	i.mu.Unlock()
	if stopped {
		i.net.f.broken("write to a stopped interface")
		return api.InvalidAccess
	}
	if len(frames) > i.params.WriteMax && i.params.WriteMax > 0 || sum > maxBytes || len(frames) == 0 {
		i.net.f.broken("write of %d packets, %d bytes", len(frames), sum)
		return api.TooManyPackets
	}
	if do != nil {
		if st := do(frames); st != api.Success {
			return st
		}
	}
	for _, f := range frames {
		if len(f) > i.params.MaxPacket || len(f) < frame.MinLen {
			i.net.f.broken("write of a packet of %d bytes", len(f))
			return api.PacketTooBig
		}
	}
	i.packets.Add(int64(len(frames)))
	i.net.carry(i, frames)
	return api.Success
}

// carry passes frames on like a learning bridge.
func (n *fakeNetwork) carry(from *fakeInterface, frames [][]byte) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, f := range frames {
		n.owner[[6]byte(f[6:12])] = from
		to := n.owner[[6]byte(f[:6])]
		for _, i := range n.ports {
			if i == from || f[0]&1 == 0 && to != nil && to != i || i.isolate && from.isolate {
				continue
			}
			i.put(f)
		}
	}
}

func (i *fakeInterface) Forward(ctx context.Context, f network.Forward) error {
	if do := i.net.f.onForward; do != nil {
		return do(ctx)
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.forwards = append(i.forwards, f)
	return nil
}

func (i *fakeInterface) Stop(ctx context.Context) error {
	i.mu.Lock()
	do, again := i.onStop, i.stopped
	i.mu.Unlock()
	if again {
		return nil
	}
	if do != nil {
		if err := do(ctx); err != nil {
			return err
		}
	}
	if i.calls.Load() > 0 {
		i.net.f.broken("stopped while a call is under way")
	}
	i.mu.Lock()
	i.stopped, i.notifies, i.queue = true, false, nil
	i.mu.Unlock()
	f := i.net.f
	f.mu.Lock()
	f.order = append(f.order, "stop")
	f.started = slices.DeleteFunc(f.started, func(j *fakeInterface) bool { return j == i })
	f.mu.Unlock()
	n := i.net
	n.mu.Lock()
	defer n.mu.Unlock()
	n.ports = slices.DeleteFunc(n.ports, func(j *fakeInterface) bool { return j == i })
	for mac, j := range n.owner {
		if j == i {
			delete(n.owner, mac)
		}
	}
	return nil
}
