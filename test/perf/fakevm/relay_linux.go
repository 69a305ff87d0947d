// SPDX-License-Identifier: Apache-2.0

package fakevm

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"

	"github.com/socket-vmnet2/socket_vmnet2/test/rounds"
)

// The network of every relay. It is gvproxy's, whose Debian package cannot have another.
const (
	gateway = "192.168.127.1"
	alias   = "192.168.127.254" // of the host, whose loopback it leads to

	servicePort = 5201 // of iperf3's server and of the echo
	forwardPort = 5301 // of the host, leads to the first guest's servicePort
)

// guestAddress is that of a fake VM.
func guestAddress(i int) string { return fmt.Sprintf("192.168.127.%d", 11+i) }

// A relay is a running relay.
type relay struct {
	*process
	socket string
}

// startRelay runs the relay of a set-up in the host's namespace. The fake VMs wait for its socket.
func (l *lab) startRelay(ctx context.Context, s setup) (*relay, error) {
	r := &relay{socket: l.path("s")}
	j := job{}
	switch s.relay {
	case rounds.Daemon:
		j.program = l.o.Daemon
		j.args = []string{
			"--backend=usernet", "--state-dir=" + l.dir, "--allow-uid=0", "--socket-group=root", "--vmnet-gateway=" + gateway,
			fmt.Sprintf("--vmnet-mtu=%d", min(s.mtu, 16384)),
			fmt.Sprintf("--vmnet-forward=tcp:%d=%s:%d", forwardPort, guestAddress(0), servicePort),
		}
		j.args = append(append(j.args, l.o.DaemonArgs...), r.socket)
	case rounds.Gvproxy:
		j.program = l.o.Gvproxy
		j.args = []string{"-listen-qemu=unix://" + r.socket, "-listen=unix://" + r.socket + ".api", "-mtu=" + strconv.Itoa(s.mtu), "-ssh-port=-1"}
	case rounds.Floor:
		j.program, j.args = l.relays, []string{"switch", r.socket}
	case rounds.Old:
		j.program, j.args = l.relays, []string{"flood", r.socket}
	default:
		return nil, fmt.Errorf("no relay %q", s.relay)
	}
	var err error
	if r.process, err = l.host.start(j); err != nil {
		return nil, err
	}
	if s.relay == rounds.Gvproxy {
		if err := expose(ctx, r.socket+".api"); err != nil {
			r.kill()
			return nil, fmt.Errorf("%w: %w", err, r.failed("refuses"))
		}
	}
	return r, nil
}

// expose asks gvproxy for the forward that the daemon is given as an option.
func expose(ctx context.Context, socket string) error {
	client := http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", socket)
		},
	}}
	body, err := json.Marshal(map[string]string{
		"local": fmt.Sprintf("127.0.0.1:%d", forwardPort), "remote": fmt.Sprintf("%s:%d", guestAddress(0), servicePort), "protocol": "tcp",
	})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	up := func() bool { // the file is there before anybody listens
		c, err := (&net.Dialer{}).DialContext(ctx, "unix", socket)
		if err == nil {
			_ = c.Close()
		}
		return err == nil
	}
	if !until(ctx, up) {
		return fmt.Errorf("gvproxy does not listen at %s after %v", socket, patience)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://gvproxy/services/forwarder/expose", bytes.NewReader(body))
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return fmt.Errorf("ask gvproxy for a forward: %w", err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 1024))
		return fmt.Errorf("ask gvproxy for a forward: %s: %s", resp.Status, text)
	}
	return nil
}
