// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strconv"
)

// An IPerf is what matters of iperf3's output.
type IPerf struct {
	End struct {
		Sent struct {
			Retransmits *uint64 `json:"retransmits"` // nil where the sender's system does not tell
		} `json:"sum_sent"`
		Received struct {
			Seconds       float64 `json:"seconds"`
			Bytes         uint64  `json:"bytes"`
			BitsPerSecond float64 `json:"bits_per_second"`
		} `json:"sum_received"`
	} `json:"end"`
	Error string `json:"error"`
}

// ParseIPerf reads the output of iperf3 --json. What is no whole result is an error.
func ParseIPerf(b []byte) (IPerf, error) {
	var t IPerf
	if err := json.Unmarshal(b, &t); err != nil {
		return t, fmt.Errorf("no iperf3 result, or half of one: %w", err)
	}
	switch {
	case t.Error != "":
		return t, fmt.Errorf("iperf3 says: %s", t.Error)
	case t.End.Received.Seconds <= 0:
		return t, errors.New("no iperf3 result: it has no end.sum_received")
	case t.End.Received.Bytes == 0:
		return t, errors.New("iperf3 received nothing")
	}
	return t, nil
}

// ServeIPerf runs the server of a program iperf3 on the host's loopback and returns its port.
func (l *Lab) ServeIPerf(ctx context.Context, program string) (port string, server *Process, err error) {
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	port = strconv.Itoa(free.Addr().(*net.TCPAddr).Port)
	_ = free.Close()
	if server, err = l.Start("iperf3", program, "-s", "--forceflush", "-B", "127.0.0.1", "-p", port); err == nil {
		if _, err = server.Output().WaitFor(ctx, "Server listening on "+port); err != nil {
			err = fmt.Errorf("start iperf3 on the host: %w\n%s", err, server.Output().Tail(5))
		}
	}
	return port, server, err
}
