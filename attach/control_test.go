// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"testing"
)

// controls answers each request at SOCKET.d/name with body. It returns the requests' first lines.
func controls(t *testing.T, socket, name string, status int, body string) chan string {
	t.Helper()
	got := make(chan string, 10)
	serveAt(t, socket, name, func(c *net.UnixConn) {
		r, err := http.ReadRequest(bufio.NewReader(c))
		if err != nil {
			return
		}
		got <- r.Method + " " + r.URL.Path
		fmt.Fprintf(c, "HTTP/1.1 %d x\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s", status, len(body), body)
	})
	return got
}
