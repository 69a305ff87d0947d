// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"strings"
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

func TestControl(t *testing.T) {
	noLeaks(t)
	socket := newSocket(t)
	got := controls(t, socket, "control", 200, `{"format":1,"later":{},"daemon":{"pid":7},"network":{"mode":"shared","subnet":"192.168.105.0/24"},
		"clients":[{"id":2,"name":"web","mac":"52:54:00:12:34:57","ip":"192.168.105.3","to_net":{"frames":2,"bytes":684,"drops":{}}}],
		"health":[{"code":"storm","severity":"error","clients":[2],"text":"x","fix":["y"]}]}`)
	c := Control(socket)
	s, err := c.Status(t.Context())
	check(t, err)
	if s.Daemon.PID != 7 || s.Network.Subnet.String() != "192.168.105.0/24" || len(s.Health) != 1 || s.Health[0].Clients[0] != 2 {
		t.Errorf("%+v", s)
	}
	clients, err := c.Clients(t.Context())
	check(t, err)
	if len(clients) != 1 || clients[0].Name != "web" || clients[0].IP.String() != "192.168.105.3" || clients[0].ToNet.Bytes != 684 {
		t.Errorf("%+v", clients)
	}
	check(t, c.Kick(t.Context(), 2))
	for _, want := range []string{"GET /v1/status", "GET /v1/clients", "DELETE /v1/clients/2"} {
		if is := <-got; is != want {
			t.Errorf("request %q, want %q", is, want)
		}
	}
	root := controls(t, socket, "control.root", 200, "{}")
	check(t, Control(socket+".d").Kick(t.Context(), 3))
	if is := <-root; is != "DELETE /v1/clients/3" {
		t.Errorf("request %q at control.root", is)
	}
}

func TestControlRefusals(t *testing.T) {
	for name, c := range map[string]struct {
		status int
		body   string
		is     error
		want   string
	}{
		"forbidden": {403, `{"error":{"code":"forbidden","text":"only root may"}}`, ErrForbidden, "only root may"},
		"no client": {404, `{"error":{"code":"no_client","text":"there is no client 7"}}`, ErrNoClient, "no client 7"},
		"no JSON":   {200, `<html>`, nil, "invalid character"},
		"no reason": {502, `{}`, nil, "502"},
		"no daemon": {0, "", fs.ErrNotExist, "no daemon listens"},
	} {
		noLeaks(t)
		socket := newSocket(t)
		if c.status != 0 {
			controls(t, socket, "control", c.status, c.body)
		}
		err := Control(socket).Kick(t.Context(), 7)
		if err == nil || c.is != nil && !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "control") {
			t.Errorf("%s: error %v", name, err)
		}
		if strings.Count(fmt.Sprint(err), "attach: ") != 1 {
			t.Errorf("%s: error %v names the package twice", name, err)
		}
		os.RemoveAll(socket + ".d")
		if s, err := Control(socket).Status(t.Context()); err == nil || s != nil {
			t.Errorf("%s: %v, %v without a daemon", name, s, err)
		}
	}
}
