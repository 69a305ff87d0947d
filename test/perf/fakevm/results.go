// SPDX-License-Identifier: Apache-2.0

package fakevm

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/socket-vmnet2/socket_vmnet2/test/rounds"
)

// A transfer is the result of iperf3's client.
type transfer struct {
	seconds     float64
	bytes       uint64 // that arrived, payload
	retransmits uint64
}

// parseIperf reads what iperf3 --json prints.
func parseIperf(out []byte) (transfer, error) {
	var report struct {
		Error string
		End   struct {
			Sent struct {
				Retransmits uint64
			} `json:"sum_sent"`
			Received struct {
				Seconds float64
				Bytes   uint64
			} `json:"sum_received"`
		}
	}
	if err := json.Unmarshal(out, &report); err != nil {
		return transfer{}, fmt.Errorf("read what iperf3 printed: %w: %.200q", err, out)
	}
	if report.Error != "" {
		return transfer{}, errors.New("iperf3: " + report.Error)
	}
	if report.End.Received.Bytes == 0 || report.End.Received.Seconds <= 0 {
		return transfer{}, errors.New("iperf3 has transferred nothing")
	}
	return transfer{report.End.Received.Seconds, report.End.Received.Bytes, report.End.Sent.Retransmits}, nil
}

// parseEcho reads what csrc/echo.c prints into r.
func parseEcho(out []byte, r *rounds.Round) error {
	var e struct {
		Trips          uint64
		NS             int64
		P50, P99, P999 int64
	}
	if err := json.Unmarshal(out, &e); err != nil {
		return fmt.Errorf("read the round trips: %w: %.200q", err, out)
	}
	if e.Trips == 0 || e.NS <= 0 {
		return errors.New("no round trip was made")
	}
	r.Seconds, r.Trips, r.P50, r.P99, r.P999 = float64(e.NS)/1e9, e.Trips, e.P50, e.P99, e.P999
	return nil
}
