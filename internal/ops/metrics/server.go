// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"syscall"
)

// Path is where the metrics are.
const Path = "/metrics"

// Listen takes the port.
func Listen(at netip.AddrPort) (*net.TCPListener, error) {
	ln, err := net.ListenTCP("tcp", net.TCPAddrFromAddrPort(at))
	if err == nil {
		return ln, nil
	}
	why := ""
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		why = "another program uses that port; end it or give --metrics-listen another port: "
	case errors.Is(err, syscall.EACCES):
		why = "this user may not use that port; give --metrics-listen one above 1023: "
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		why = "this host does not have that address: "
	}
	return nil, fmt.Errorf("listen for metrics at %s: %s%w", at, why, err)
}

// Alone has the metrics, which h answers with, be all that there is at a port: a program that connects to it can read and change nothing
// else. With anyHost it is not looked at what name it is asked by.
func Alone(h http.Handler, anyHost bool) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET "+Path, h)
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "there is only "+Path+" here", http.StatusNotFound)
	})
	if anyHost {
		return mux
	}
	return byAddress(mux)
}

// byAddress refuses requests by a name. A web page could else have a name of its author's lead to 127.0.0.1 and read the metrics: to
// the browser they would be of that site.
func byAddress(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !isAddress(r.Host) {
			http.Error(w, "ask by address or as localhost, not by another name", http.StatusMisdirectedRequest)
			return
		}
		h.ServeHTTP(w, r)
	})
}

// isAddress tells whether host, with or without a port, is an address or localhost.
func isAddress(host string) bool {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	if strings.EqualFold(host, "localhost") || host == "" { // HTTP/1.0 has no host
		return true
	}
	_, err := netip.ParseAddr(strings.TrimSuffix(strings.TrimPrefix(host, "["), "]"))
	return err == nil
}
