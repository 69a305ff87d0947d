// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// A Lease is what DHCP gave to a guest.
type Lease struct {
	// IP is the address, Bits the length of its prefix.
	IP   string
	Bits string
	// Router, DNS and Server are addresses; Seconds is how long the lease lasts.
	Router, DNS, Server string
	Seconds             string
}

// LeaseOf reads the lease from the values that the guest's DHCP scripts print.
func LeaseOf(v map[string]string) Lease {
	return Lease{IP: v["ip"], Bits: v["bits"], Router: v["router"], DNS: v["dns"], Server: v["server"], Seconds: v["lease"]}
}

// DHCP gets a lease with busybox's udhcpc and sets it.
func (g *Guest) DHCP(ctx context.Context) (Lease, error) {
	r, err := g.Must(ctx, "dhcp")
	if err != nil {
		return Lease{}, err
	}
	return LeaseOf(r.Values()), nil
}

var pingRE = regexp.MustCompile(`, (\d+)% packet loss[^=]*= [\d.]+/([\d.]+)/`)

// Ping sends five echo requests and returns the mean time to the reply. All five must be answered, in whatever time a busy
// machine needs for that.
func (g *Guest) Ping(ctx context.Context, address string) (time.Duration, error) {
	r, err := g.Must(ctx, "ping -c 5 -i 0.2 -W 30 "+address)
	if err != nil {
		return 0, err
	}
	m := pingRE.FindStringSubmatch(r.Output)
	if m == nil || m[1] != "0" {
		return 0, fmt.Errorf("ping %s from %s: not every request was answered:\n%s", address, g.Name, r.Output)
	}
	ms, err := strconv.ParseFloat(m[2], 64)
	if err != nil {
		return 0, fmt.Errorf("ping %s from %s: %w", address, g.Name, err)
	}
	return time.Duration(ms * float64(time.Millisecond)), nil
}

// Resolve asks the name server of the lease for the address of name.
func (g *Guest) Resolve(ctx context.Context, name string) (string, error) {
	r, err := g.Must(ctx, "nslookup "+name)
	if err != nil {
		return "", err
	}
	_, answer, _ := strings.Cut(r.Output, "Name:")
	_, answer, ok := strings.Cut(answer, "Address: ")
	if !ok {
		return "", fmt.Errorf("resolve %s from %s: no address in the answer:\n%s", name, g.Name, r.Output)
	}
	address, _, _ := strings.Cut(answer, "\n")
	return strings.TrimSpace(address), nil
}

// Fetch fetches the text of a page with busybox's wget and returns how long it took as seen from outside the guest.
func (g *Guest) Fetch(ctx context.Context, url string) (string, time.Duration, error) {
	start := time.Now()
	// Not wget -T: with it Debian's static busybox crashes as it looks a name up.
	r, err := g.Must(ctx, "timeout 40 wget -q -O - "+url)
	if err != nil {
		return "", 0, err
	}
	return r.Output, time.Since(start), nil
}

// Background starts a command that goes on while others run. Its output goes to /tmp/NAME.log, its process id to
// /tmp/NAME.pid.
func (g *Guest) Background(ctx context.Context, command, name string) error {
	_, err := g.Must(ctx, fmt.Sprintf("%s >/tmp/%s.log 2>&1 & echo $! >/tmp/%s.pid", command, name, name))
	return err
}

// EndBackground ends a command started with Background and returns what it printed.
func (g *Guest) EndBackground(ctx context.Context, name string) (Result, error) {
	return g.Run(ctx, fmt.Sprintf("kill $(cat /tmp/%s.pid); cat /tmp/%s.log", name, name))
}
