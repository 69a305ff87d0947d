// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// patience is how long a test waits for what must happen.
const patience = 30 * time.Second

// shortDir returns a directory with a path short enough for a socket on each system.
func shortDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "attach")
	check(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// serve plays a daemon: handle has each connection to SOCKET.d/name, until the test's end. It returns SOCKET.
func serve(t testing.TB, name string, handle func(*net.UnixConn)) (socket string) {
	t.Helper()
	socket = filepath.Join(shortDir(t), "sock")
	check(t, os.Mkdir(socket+".d", 0o700))
	serveAt(t, socket, name, handle)
	return socket
}

// serveAt does that at a SOCKET that there is, until stop is called or the test ends.
func serveAt(t testing.TB, socket, name string, handle func(*net.UnixConn)) (stop func()) {
	t.Helper()
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(socket+".d", name), Net: "unix"})
	check(t, err)
	var group sync.WaitGroup
	group.Add(1)
	go func() {
		defer group.Done()
		for {
			c, err := l.AcceptUnix()
			if err != nil {
				return
			}
			group.Add(1)
			go func() {
				defer group.Done()
				defer c.Close()
				handle(c)
			}()
		}
	}()
	stop = func() {
		l.Close()
		group.Wait()
	}
	t.Cleanup(stop)
	return stop
}

// pair returns two ends of a connected pair.
func pair(t testing.TB, kind int) (ours, theirs *os.File) {
	t.Helper()
	syscall.ForkLock.RLock()
	fds, err := syscall.Socketpair(syscall.AF_UNIX, kind, 0)
	if err == nil {
		syscall.CloseOnExec(fds[0])
		syscall.CloseOnExec(fds[1])
	}
	syscall.ForkLock.RUnlock()
	check(t, err)
	ours, theirs = os.NewFile(uintptr(fds[0]), "ours"), os.NewFile(uintptr(fds[1]), "theirs")
	t.Cleanup(func() { ours.Close(); theirs.Close() })
	return ours, theirs
}

// message is one line that came in, with what came along.
type message struct {
	line  string
	files []*os.File
}

// read reads one line as the daemon would.
func read(t testing.TB, c *net.UnixConn) message {
	t.Helper()
	var m message
	buf, oob := make([]byte, 8192), make([]byte, 1024)
	for !strings.HasSuffix(m.line, "\n") {
		n, on, _, _, err := c.ReadMsgUnix(buf, oob)
		if err != nil || n == 0 {
			break
		}
		fds, err := rights(oob[:on])
		if err != nil {
			t.Error(err)
		}
		for _, fd := range fds {
			m.files = append(m.files, os.NewFile(uintptr(fd), "handed over"))
		}
		m.line += string(buf[:n])
	}
	return m
}

// answer writes a line with descriptors on its first byte.
func answer(t testing.TB, c *net.UnixConn, line string, files ...*os.File) {
	t.Helper()
	var fds []int
	for _, f := range files {
		fds = append(fds, int(f.Fd()))
	}
	var oob []byte
	if fds != nil {
		oob = syscall.UnixRights(fds...)
	}
	n, _, err := c.WriteMsgUnix([]byte(line), oob, nil)
	if err == nil && n < len(line) {
		_, err = c.Write([]byte(line[n:]))
	}
	if err != nil {
		t.Error(err)
	}
}

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

// untilEOF waits for the other side's end.
func untilEOF(c *net.UnixConn) { _, _ = c.Read(make([]byte, 1)) }

// goodReply is a reply with each key.
const goodReply = `{"version":1,"transport":"dgram","backend":"usernet","mode":"shared","gateway":"192.168.105.1","isolated":false,` +
	`"offload":false,"vmnet_mac_address":"52:54:00:12:34:56","vmnet_mtu":1500,"vmnet_max_packet_size":1514,` +
	`"vmnet_subnet_mask":"255.255.255.0","vmnet_start_address":"192.168.105.1","vmnet_end_address":"192.168.105.254",` +
	`"vmnet_interface_id":"6BA7B810-9DAD-41D1-80B4-00C04FD430C8","vmnet_read_max_packets":256,"vmnet_write_max_packets":256}` + "\n"

// vectors is testdata/protocol.json.
type vectors struct {
	Version  int    `json:"version"`
	Codes    []Code `json:"codes"`
	Requests []struct {
		Name    string   `json:"name"`
		Line    string   `json:"line"`
		Pad     int      `json:"pad"`
		Request *request `json:"request"`
		Code    Code     `json:"code"`
	} `json:"requests"`
	Encode []struct {
		Name    string  `json:"name"`
		Line    string  `json:"line"`
		Request request `json:"request"`
	} `json:"encode"`
	Replies []replyVector `json:"replies"`
	Decode  []replyVector `json:"decode"`
	Adopt   []struct {
		Name        string   `json:"name"`
		Data        string   `json:"data"`
		Descriptors []string `json:"descriptors"`
		Reply       bool     `json:"reply"`
		Refused     bool     `json:"refused"`
		Code        Code     `json:"code"`
	} `json:"adopt"`
}

type replyVector struct {
	Name  string `json:"name"`
	Line  string `json:"line"`
	Pad   int    `json:"pad"`
	Reply reply  `json:"reply"`
	Bad   bool   `json:"bad"`
}

// readVectors reads the file, in which there must be nothing that the structs do not know.
func readVectors(t testing.TB) (v vectors) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", "protocol.json"))
	check(t, err)
	var all map[string]json.RawMessage
	check(t, json.Unmarshal(b, &all))
	delete(all, "about")
	delete(all, "max_line")
	if b, err = json.Marshal(all); err != nil {
		t.Fatal(err)
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	check(t, d.Decode(&v))
	return v
}

// pad puts the letters in for which ~ stands.
func pad(s string, n int) string {
	if n == 0 {
		return s
	}
	return strings.Replace(s, "~", strings.Repeat("a", n), 1)
}

// noLeaks fails the test if it ends with more goroutines or descriptors than it began with.
func noLeaks(t *testing.T) {
	t.Helper()
	goroutines, files := runtime.NumGoroutine(), openFiles(t)
	t.Cleanup(func() { // runs after what the test registers later
		var is string
		for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
			g, f := runtime.NumGoroutine(), openFiles(t)
			if g <= goroutines && f <= files {
				return
			}
			is = fmt.Sprintf("%d goroutines and %d descriptors, at the beginning %d and %d", g, f, goroutines, files)
		}
		buf := make([]byte, 1<<16)
		t.Errorf("left behind: %s\n%s", is, buf[:runtime.Stack(buf, true)])
	})
}

// openFiles counts this process's descriptors.
func openFiles(t testing.TB) int {
	t.Helper()
	e, err := os.ReadDir("/dev/fd")
	check(t, err)
	return len(e)
}

// check ends the test with err.
func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
