// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"fmt"
	"net"

	"github.com/socket-vmnet2/socket_vmnet2/internal/handoff"
	"github.com/socket-vmnet2/socket_vmnet2/internal/metrics"
)

// openMetrics takes the port of --metrics-listen. It is served with the clients.
func (d *daemon) openMetrics() error {
	if !d.cfg.MetricsListen.IsValid() {
		return nil
	}
	ln, err := metrics.Listen(d.cfg.MetricsListen)
	if err != nil {
		return err
	}
	d.serveMetrics(ln)
	return nil
}

// serveMetrics comes before the network, which keeps guests away from the port.
func (d *daemon) serveMetrics(ln *net.TCPListener) {
	if a, ok := ln.Addr().(*net.TCPAddr); ok { // the port may have been 0
		d.cfg.MetricsListen = a.AddrPort()
	}
	d.metrics = metrics.NewServer(ln, metrics.Handler(d.describe, d.log), d.cfg.MetricsAnywhere, d.log)
	d.log.Info("metrics can be read", "url", fmt.Sprintf("http://%s%s", ln.Addr(), metrics.Path))
}

// takeMetrics goes on with the port. The clients do not depend on it, so the daemon does without where it has to.
func (d *daemon) takeMetrics(in *handoff.In, fd int) {
	if !d.cfg.MetricsListen.IsValid() {
		return
	}
	err := error(nil)
	if fd != 0 {
		var ln *net.TCPListener
		if ln, err = in.TCPListener(fd); err == nil {
			d.serveMetrics(ln)
			return
		}
	}
	if again := d.openMetrics(); again != nil {
		d.log.Warn("metrics cannot be read at the port any more", "error", again, "taking_over", err)
	}
}
