// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/test/lab/sequence"
)

// pumpPort is the TCP port on which a guest takes a Pump.
const pumpPort = "5003"

// watchPort is where a guest's watch answers, see there.
const watchPort = "5002"

// Watch has the guest follow the numbered frames that arrive, for Seen and Counted.
func (g *Guest) Watch(ctx context.Context) error {
	if err := g.Background(ctx, "guest watch eth0", "watch"); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, bootTimeout)
	defer cancel()
	return Poll(ctx, func() error {
		_, err := g.Seen(ctx, "count")
		return err
	})
}

// Seen is what has come to the guest since the last cut, by the address of the sender. The word is "report", "count" for the same
// without the gaps, which take some time over the serial line, or "cut", which begins a new period too.
func (g *Guest) Seen(ctx context.Context, word string) (map[string]sequence.Report, error) {
	r, err := g.Must(ctx, "echo "+word+" | nc 127.0.0.1 "+watchPort)
	if err != nil {
		return nil, err
	}
	reports := map[string]sequence.Report{}
	if err := json.Unmarshal([]byte(r.Output), &reports); err != nil {
		return nil, fmt.Errorf("read what %s has seen: %w in %q", g.Name, err, r.Output)
	}
	return reports, nil
}

// Pace has the guest send a numbered frame of size bytes to the address mac every interval, or as fast as it can for 0, until
// EndBackground of name.
func (g *Guest) Pace(ctx context.Context, mac string, size int, interval time.Duration, name string) error {
	return g.Background(ctx, fmt.Sprintf("guest pace eth0 %s %d %d", mac, size, interval.Microseconds()), name)
}

// ServePump starts the other side of Pump.
func (g *Guest) ServePump(ctx context.Context) error {
	return g.Background(ctx, "guest verify "+pumpPort, "verify")
}

// Pump has the guest send over one TCP connection to the guest at address to, in which ServePump has been called: mbit
// million bits a second, or all it takes for 0.
func (g *Guest) Pump(ctx context.Context, to string, mbit int) error {
	return g.Background(ctx, fmt.Sprintf("guest pump %s:%s %d", to, pumpPort, mbit), "pump")
}

// A Transfer is how far a TCP connection has come, up to half a second ago.
type Transfer struct {
	Bytes int
	// Bad are the pieces that were not what the other guest sent.
	Bad int
	// Stall is the longest time in which nothing went on.
	Stall time.Duration
	// Ended is the error that ended the connection, empty while it lasts.
	Ended string
}

// Pumped is how far the Pump to this guest has come.
func (g *Guest) Pumped(ctx context.Context) (Transfer, error) {
	return g.transfer(ctx, "verify", "received")
}

// Pumping is how far the Pump from this guest has come.
func (g *Guest) Pumping(ctx context.Context) (Transfer, error) {
	return g.transfer(ctx, "pump", "sent")
}

func (g *Guest) transfer(ctx context.Context, name, word string) (Transfer, error) {
	r, err := g.Must(ctx, "tail -n 1 /tmp/"+name+".log")
	if err != nil {
		return Transfer{}, err
	}
	v := r.Values()
	n, err := strconv.Atoi(v[word])
	if err != nil {
		return Transfer{}, fmt.Errorf("read how far the transfer of %s has come: it says %q", g.Name, r.Output)
	}
	bad, _ := strconv.Atoi(v["bad"])        // our own program's numbers
	stall, _ := strconv.Atoi(v["stall_ms"]) // likewise
	return Transfer{Bytes: n, Bad: bad, Stall: time.Duration(stall) * time.Millisecond, Ended: v["ended"]}, nil
}
