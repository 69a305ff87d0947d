// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/internal/status"
	"github.com/socket-vmnet2/socket_vmnet2/test/e2e/lab"
)

// tour is two guests of QEMU from boot to end, looked at with each of the commands. What tshark reads of a live capture is held
// against the daemon's own counters.
func tour(s *stage) {
	tools, err := lab.FindTools(true)
	if s.fault(err) {
		return
	}
	l, err := lab.New(s.ctx, lab.Options{Tools: tools})
	if s.fault(err) {
		return
	}
	defer func() { s.fault(l.Close()) }()
	s.page.section("capture")
	s.start(optGateway)
	end := s.background("socket_vmnet2 capture --socket=" + shownDir + "/sock -w all.pcapng")
	guests := s.boot(l, "alpha", "beta")
	if guests == nil {
		end()
		return
	}
	var lease lab.Lease
	for _, g := range guests {
		_, err = g.Must(s.ctx, "hostname "+g.Name) // what it tells DHCP
		s.fault(err)
		lease, err = g.DHCP(s.ctx)
		s.fault(err)
	}
	_, err = guests[0].Ping(s.ctx, lease.IP)
	s.fault(err)
	s.untilQuiet()
	before := frames(s.status())
	end()
	after := frames(s.status()) // a guest of a busy machine may have said something as late as now
	out := s.show("tshark -r all.pcapng | wc -l")
	read, err := strconv.Atoi(strings.TrimSpace(out))
	s.fault(err)
	if uint64(read) < before || uint64(read) > after || read == 0 {
		s.fault(fmt.Errorf("tshark reads %d frames, the daemon counted %d, and %d a moment later", read, before, after))
	}
	s.show("socket_vmnet2 clients " + shownDir + "/sock")
	s.names(s.show("tshark -r all.pcapng -Y icmp.type==0 -T fields -e ip.src -e ip.dst -e icmp.seq | head -2"), lease.IP)
	s.page.section("commands")
	s.names(s.show("socket_vmnet2 status --hosts "+shownDir+"/sock"), lease.IP, "alpha.vmnet.internal")
	s.show("socket_vmnet2 log-level debug " + shownDir + "/sock")
	s.names(s.show("curl -s --unix-socket "+shownDir+"/sock.d/control http://localhost/metrics | grep receive_packets"), "socket_vmnet2_client_receive_packets_total", "beta")
	s.show("socket_vmnet2 kick beta " + shownDir + "/sock")
	s.until("beta is gone", func() bool { return len(s.status().Clients) == 1 })
	s.silent(s.show("socket_vmnet2 clients "+shownDir+"/sock"), "beta")
}

// boot boots guests of QEMU on the daemon, one after the other so that their numbers are always the same; nil when one does not.
func (s *stage) boot(l *lab.Lab, names ...string) (guests []*lab.Guest) {
	for i, name := range names {
		mac := fmt.Sprintf("52:54:00:00:00:%02x", 0x0a+i)
		g, err := l.Boot(s.ctx, lab.GuestOptions{Name: name, MAC: mac, Netdev: lab.StreamNetdev(s.socket(), 0)})
		if s.fault(err) {
			return nil
		}
		guests = append(guests, g)
	}
	return guests
}

// background types a command with & behind it, and returns what ends it as Ctrl-C does.
func (s *stage) background(command string) func() {
	s.page.add(s.shown(), command+" &", "", 0)
	cmd := s.command("/bin/sh", "-c", "exec "+strings.ReplaceAll(command, shownDir, s.dir))
	said, err := os.Create(s.dir + "/said")
	if s.fault(err) {
		return func() {}
	}
	cmd.Stdout, cmd.Stderr = said, said
	if s.fault(cmd.Start()) {
		return func() {}
	}
	name, _, _ := strings.Cut(command[strings.Index(command, "-w ")+len("-w "):], " ")
	s.until(command+" has begun", func() bool {
		info, err := os.Stat(s.dir + "/" + name)
		return err == nil && info.Size() > 0
	})
	return func() {
		s.fault(cmd.Process.Signal(syscall.SIGINT))
		s.ended(cmd)
		text, _ := os.ReadFile(said.Name())
		_ = said.Close()
		s.page.add(s.shown(), "kill -INT %2; wait %2", string(text), cmd.ProcessState.ExitCode())
	}
}

func (s *stage) ended(cmd *exec.Cmd) {
	if err := cmd.Wait(); err != nil {
		s.fault(fmt.Errorf("%s: %w", cmd, err))
	}
}

// untilQuiet waits until no client has sent or got anything for two seconds: guests speak IPv6 unasked for a while.
func (s *stage) untilQuiet() {
	last, since := frames(s.status()), time.Now()
	s.until("it is quiet", func() bool {
		if now := frames(s.status()); now != last {
			last, since = now, time.Now()
		}
		return time.Since(since) > 2*time.Second
	})
}

// frames is how many there were both ways. Each frame from one client to another is two.
func frames(st status.Status) (n uint64) {
	for _, c := range st.Clients {
		n += c.ToNet.Frames + c.ToClient.Frames
	}
	return n
}
