// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/internal/perclient/passfd/proto"
)

// patience is how long a daemon may take to answer: vmnet may take seconds to start an interface, and more if it is busy.
const patience = time.Minute

// A session is what a daemon has taken on.
type session struct {
	socket   string // the daemon's
	reply    proto.Reply
	lifeline *os.File
}

// handOver gives the endpoint to the first daemon whose network is the one that c asks for.
func handOver(ctx context.Context, c *config, e *endpoint, log *logger) (*session, error) {
	files := configFiles()
	places, err := find(c, files)
	if err != nil {
		return nil, err
	}
	var failures []error
	for _, p := range places {
		s, err := ask(ctx, c, e, p.socket)
		switch {
		case err == nil:
			log.info("connected to the daemon at %q", p.socket)
			return s, nil
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case p.from != "":
			return nil, fmt.Errorf("%w (%s names this daemon)", err, p.from)
		case e.socket == "" && errors.As(err, new(mismatch)):
			return nil, err // it has had the machine's connection and ends it
		case errors.Is(err, fs.ErrNotExist) && !errors.Is(err, proto.ErrNoSocket):
			log.debug("%v", err)
		default:
			failures = append(failures, err)
		}
	}
	if len(failures) > 0 {
		return nil, errors.Join(failures...)
	}
	var tried []string
	for _, p := range places {
		tried = append(tried, p.socket)
	}
	return nil, fmt.Errorf("no daemon runs for the network %q: start socket_vmnet2 on one of %s, or give the line \"%s = SOCKET\" to %s",
		c.key(), strings.Join(tried, ", "), c.key(), strings.Join(files, " or "))
}

// ask hands the endpoint to one daemon and compares its network with what c asks for.
func ask(ctx context.Context, c *config, e *endpoint, socket string) (*session, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	r := proto.Request{Name: name(c), InterfaceID: c.interfaceID, Wait: true}
	a, err := proto.Adopt(ctx, socket, e.file, &r)
	if err != nil {
		return nil, err
	}
	if err := compare(c, &a.Reply); err != nil {
		a.Lifeline.Close()
		return nil, mismatch{fmt.Errorf("the daemon at %s %w; or name another daemon with --daemon=SOCKET", socket, err)}
	}
	return &session{socket: socket, reply: a.Reply, lifeline: a.Lifeline}, nil
}

// comeBack is how long a daemon that has stopped may take to come back: launchd lets ten seconds pass after a short life. It is a
// duration as text, for tests that are built with a shorter one.
var comeBack = "15s"

// comeBackPause is the time between two looks for it.
const comeBackPause = 100 * time.Millisecond

// A stopped is a daemon that has stopped.
type stopped struct{ socket string }

func (e stopped) Error() string { return fmt.Sprintf("the daemon at %s has stopped", e.socket) }

// again hands the endpoint to the next daemon at the same place, which has been lost since then. The machine goes on as if nothing had
// been.
func (s *session) again(ctx context.Context, c *config, e *endpoint, lost time.Time) (*session, error) {
	limit, _ := time.ParseDuration(comeBack)
	for time.Since(lost) < limit {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(comeBackPause):
		}
		next, err := ask(ctx, c, e, s.socket)
		if err == nil || !comingBack(err) {
			return next, err
		}
	}
	return nil, fmt.Errorf("%w and has not come back within %v: start the machine again once it runs", stopped{s.socket}, limit)
}

// comingBack reports whether err is what a daemon gives that does not run, or not yet or not any more.
func comingBack(err error) bool {
	var e *proto.Error
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.ECONNRESET) ||
		errors.Is(err, syscall.EPIPE) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.As(err, &e) && e.Code == proto.Stopping
}

// A mismatch is a daemon with another network than the one that was asked for.
type mismatch struct{ error }

// name is what the daemon's log calls the machine: its socket, whose path is shorter than a name may be.
func name(c *config) string {
	if proto.CheckName(c.socket) != nil {
		return ""
	}
	return c.socket
}

// compare tells how the daemon's network differs from what c asks for, and what to do.
func compare(c *config, r *proto.Reply) error {
	if c.mode != "" && r.Mode != c.mode {
		return fmt.Errorf("has a %s network, not a %s one: start one with --vmnet-mode=%[2]s", r.Mode, c.mode)
	}
	if c.mode == "bridged" && r.Interface != c.sharedInterface {
		return fmt.Errorf("bridges to %q, not to %q: start one with --vmnet-mode=bridged --vmnet-interface=%s",
			r.Interface, c.sharedInterface, c.sharedInterface)
	}
	for _, a := range []struct {
		option, flag, have string
		want               netip.Addr
	}{
		{"start-address", "vmnet-gateway", r.StartAddress, c.start},
		{"end-address", "vmnet-dhcp-end", r.EndAddress, c.end},
		{"subnet-mask", "vmnet-mask", r.SubnetMask, c.mask},
	} {
		// The embedded network ends its range before addresses that are no guest's, such as the host's own.
		have, _ := netip.ParseAddr(a.have)
		shorter := a.option == "end-address" && have.IsValid() && have.Less(a.want)
		if a.want.IsValid() && have != a.want && !shorter {
			return fmt.Errorf("has a network with the %s %q, not %s: start one with --%s=%s", a.option, a.have, a.want, a.flag, a.want)
		}
	}
	switch offload := c.tso || c.checksum; {
	case offload && !r.Offload:
		return errors.New("has a network without offload, as --enable-tso and --enable-checksum-offload need it: leave them out " +
			"(minikube: --vmnet-offloading=false; krunkit: offloading=off), or start the daemon with --offload for all its clients")
	case !offload && r.Offload:
		return errors.New("has a network with offload, on which a machine gets frames of 64 KiB: give --enable-tso and " +
			"--enable-checksum-offload if it can take them (krunkit: offloading=on), or start the daemon without --offload")
	case c.isolation && !r.Isolated:
		return errors.New("has a network on which machines reach each other, unlike --enable-isolation: start it with --isolate")
	}
	return nil
}

// info is the line on stdout: the keys of vmnet_start_interface's answer, as vmnet-helper prints them, and with --network those
// of the network.
type info struct {
	SubnetMask      string `json:"vmnet_subnet_mask,omitempty"`
	MTU             int    `json:"vmnet_mtu,omitempty"`
	EndAddress      string `json:"vmnet_end_address,omitempty"`
	StartAddress    string `json:"vmnet_start_address,omitempty"`
	InterfaceID     string `json:"vmnet_interface_id,omitempty"`
	MaxPacketSize   int    `json:"vmnet_max_packet_size,omitempty"`
	ReadMaxPackets  int    `json:"vmnet_read_max_packets,omitempty"`
	WriteMaxPackets int    `json:"vmnet_write_max_packets,omitempty"`
	MACAddress      string `json:"vmnet_mac_address,omitempty"`
	NetSubnet       string `json:"net_ipv4_subnet,omitempty"`
	NetMask         string `json:"net_ipv4_mask,omitempty"`
}

// infoLine makes that line.
func infoLine(c *config, r *proto.Reply) []byte {
	i := info{
		SubnetMask: r.SubnetMask, MTU: r.MTU, EndAddress: r.EndAddress, StartAddress: r.StartAddress,
		InterfaceID:   strings.ToUpper(r.InterfaceID), // as macOS writes them
		MaxPacketSize: r.MaxPacketSize, ReadMaxPackets: r.ReadMaxPackets, WriteMaxPackets: r.WriteMaxPackets,
		MACAddress: r.MACAddress,
	}
	if c.network != "" {
		i.NetMask, i.NetSubnet = r.SubnetMask, subnet(r.StartAddress, r.SubnetMask)
	}
	b, err := json.Marshal(i)
	if err != nil {
		panic(err) // texts and numbers
	}
	return append(b, '\n')
}

// subnet is the first address of start's subnet, empty if there is none.
func subnet(start, mask string) string {
	a, m := net.ParseIP(start).To4(), net.ParseIP(mask).To4()
	if a == nil || m == nil {
		return ""
	}
	return a.Mask(net.IPMask(m)).String()
}

// wait waits for the session's end, or until this process is told to stop. A stopped: the daemon has gone. It shuts the socket
// down when it ends a session for another reason, mostly because the machine has gone.
func (s *session) wait(ctx context.Context, e *endpoint, log *logger) error {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = io.Copy(io.Discard, s.lifeline)
	}()
	select {
	case <-ctx.Done():
		s.lifeline.Close()
		<-ended
		return ctx.Err()
	case <-ended:
	}
	if e.shut() {
		log.info("socket was closed by peer")
		return nil
	}
	return stopped{s.socket}
}
