// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// connect dials the socket called name that belongs to the daemon of socket, and returns its path.
func connect(ctx context.Context, socket, name string) (*net.UnixConn, string, error) {
	dir := socket + ".d"
	if st, err := os.Stat(socket); err == nil && st.IsDir() {
		dir = socket
	}
	path := filepath.Join(dir, name)
	if limit := len(syscall.RawSockaddrUnix{}.Path) - 1; len(path) > limit {
		return nil, path, fmt.Errorf("attach: the path %s has %d bytes, of which a socket's may have %d: %w",
			path, len(path), limit, syscall.ENAMETOOLONG)
	}
	refused := refusedTime
	if runtime.GOOS == "linux" { // a full backlog is EAGAIN there
		refused = 0
	}
	c, err := dial(ctx, path, refused)
	if err != nil {
		return nil, path, explain(ctx, err, socket, dir, path)
	}
	return c.(*net.UnixConn), path, nil
}

const (
	// busyPause is how long to wait before the next try while the daemon has as many waiting connections as the system allows.
	busyPause = 10 * time.Millisecond
	// refusedTime is how long to try again after a refused connection: macOS refuses also when as many connections wait as it allows,
	// which are 128.
	refusedTime = time.Second
)

// dial connects, as soon as the daemon accepts again if it is busy. A refusal, which may mean that, counts after refused only.
func dial(ctx context.Context, path string, refused time.Duration) (net.Conn, error) {
	if strings.HasPrefix(path, "@") {
		path = "./" + path // a file, not a name in Linux's abstract space
	}
	for began := time.Now(); ; {
		var d net.Dialer
		c, err := d.DialContext(ctx, "unix", path)
		if !errors.Is(err, syscall.EAGAIN) && (!errors.Is(err, syscall.ECONNREFUSED) || time.Since(began) >= refused) {
			return c, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(busyPause):
		}
	}
}

// explain says what to do about a connection that could not be made.
func explain(ctx context.Context, err error, socket, dir, path string) error {
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	var op *net.OpError
	if errors.As(err, &op) {
		err = op.Err // the path is said once
	}
	hint := ""
	switch {
	case errors.Is(err, fs.ErrPermission):
		hint = fmt.Sprintf("; it is for members of the group that ls -ld %s tells: join it and log in again, or give the daemon another --socket-group", dir)
	case errors.Is(err, fs.ErrNotExist):
		hint = absent(socket, dir)
	case errors.Is(err, syscall.ECONNREFUSED):
		hint = "; no daemon listens there any more: start it again"
	}
	return fmt.Errorf("attach: connect to %s: %w%s", path, err, hint)
}

// absent tells why there is no such socket.
func absent(socket, dir string) string {
	_, err := os.Lstat(socket)
	switch {
	case dir == socket:
		return "; this directory is none of socket_vmnet2's: name the daemon's socket or its --runtime-dir"
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Sprintf("; no daemon listens on %s: start socket_vmnet2, or name the socket of one that runs", socket)
	default:
		return fmt.Sprintf("; the daemon on %s has no %s: it must be socket_vmnet2, not older than this program, and not be "+
			"started with --runtime-dir=none; if it has a --runtime-dir, name that directory", socket, dir)
	}
}
