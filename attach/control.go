// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"time"
)

// ranOnFor reports whether the daemon on socket answers at its control socket, and has run for at least that long: through the life of a
// link, say. An upgrade in place does not count as an end.
func ranOnFor(ctx context.Context, socket string, age time.Duration) bool {
	hc := http.Client{Transport: &http.Transport{
		DisableKeepAlives: true, // the daemon answers one request on a connection
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			// The first is for root and the daemon's user alone: members of the group cannot keep it busy.
			conn, _, err := connect(ctx, socket, "control.root")
			if err != nil {
				conn, _, err = connect(ctx, socket, "control")
			}
			if err != nil {
				return nil, err
			}
			return conn, nil
		},
	}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://localhost/v1/version", nil)
	if err != nil {
		return false
	}
	resp, err := hc.Do(req)
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	var v struct {
		Uptime float64 `json:"uptime_s"`
	}
	return json.NewDecoder(http.MaxBytesReader(nil, resp.Body, 1<<16)).Decode(&v) == nil && v.Uptime >= age.Seconds()
}
