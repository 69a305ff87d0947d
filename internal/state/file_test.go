// SPDX-License-Identifier: Apache-2.0

package state

import (
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/socket-vmnet2/socket_vmnet2/internal/testing/vnettest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const socket = "/var/run/socket_vmnet"

// warnings is how many there are in the log.
func warnings(log *vnettest.Log) int { return strings.Count(log.String(), "level=WARN") }

func open(dir string) (*File, *vnettest.Log) {
	log := &vnettest.Log{}
	return Open(Options{Dir: dir, Socket: socket, Log: slog.New(slog.NewTextHandler(log, nil))}), log
}

// stateDir is a directory that passes the checks, with the file of socket, if content is not "".
func stateDir(t *testing.T, content string) (dir, file string) {
	dir = filepath.Join(t.TempDir(), "state")
	require.NoError(t, os.Mkdir(dir, 0o700))
	file = filepath.Join(dir, FileName(socket))
	if content != "" {
		require.NoError(t, os.WriteFile(file, []byte(content), 0o600))
	}
	return dir, file
}

func someLeases() []Lease {
	return []Lease{
		{
			MAC: net.HardwareAddr{0x52, 0x54, 0, 0x12, 0x34, 1}, IP: netip.MustParseAddr("192.168.105.2"),
			Expires: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Hostname: "alpine", Name: "alpine-2",
		},
		{
			MAC: net.HardwareAddr{0x52, 0x54, 0, 0x12, 0x34, 2}, IP: netip.MustParseAddr("192.168.105.3"),
			Expires: time.Date(2026, 1, 2, 3, 4, 6, 0, time.UTC),
		},
	}
}

const goodFile = `{"version": 1, "interface_id": "01234567-89ab-4def-8123-456789abcdef", "subnet": "192.168.105.0/24", "later": [1], "leases": [
	{"mac": "52:54:00:12:34:01", "ip": "192.168.105.2", "expires": "2026-01-02T03:04:05Z", "hostname": "alpine", "name": "alpine-2"},
	{"mac": "52:54:00:12:34:02", "ip": "192.168.105.3", "expires": "2026-01-02T03:04:06Z"}]}`

// TestSaveAndOpen, whatever the umask is.
func TestSaveAndOpen(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "not", "there", "yet")
	f, log := open(dir)
	assert.Empty(t, f.Leases())
	f.SaveLeases(someLeases)
	old := syscall.Umask(0o777)
	err := f.Close()
	syscall.Umask(old)
	require.NoError(t, err)
	f.SaveLeases(func() []Lease { panic("called after Close") })

	info, err := os.Stat(f.Path())
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	assert.Len(t, entries, 1, "no temporary file is left")

	g, log2 := open(dir)
	assert.Equal(t, someLeases(), g.Leases())
	require.NoError(t, g.Close())
	assert.Empty(t, log.String()+log2.String())
}

// TestIgnored: whatever is wrong with the file costs one warning, and the file is replaced at the next change.
func TestIgnored(t *testing.T) {
	for name, change := range map[string][2]string{ // of goodFile
		"empty":             {goodFile, " "},
		"not JSON":          {goodFile, "\x00\x01"},
		"cut":               {goodFile[len(goodFile)/2:], ""},
		"rubbish behind":    {"}]}", "}]}x"},
		"a list":            {goodFile, "[]"},
		"no version":        {`"version": 1, `, ""},
		"another version":   {`"version": 1`, `"version": 2`},
		"version as text":   {`"version": 1`, `"version": "1"`},
		"bad MAC":           {"52:54:00:12:34:01", "zz"},
		"long MAC":          {"52:54:00:12:34:01", "52:54:00:12:34:01:00:00"},
		"multicast MAC":     {"52:54:00:12:34:01", "53:54:00:12:34:01"},
		"zero MAC":          {"52:54:00:12:34:01", "00:00:00:00:00:00"},
		"MAC twice":         {"52:54:00:12:34:01", "52:54:00:12:34:02"},
		"bad IP":            {"192.168.105.2", "192.168.105.256"},
		"IPv6":              {"192.168.105.2", "::1"},
		"multicast IP":      {"192.168.105.2", "224.0.0.1"},
		"IP twice":          {"192.168.105.2", "192.168.105.3"},
		"bad time":          {"2026-01-02T03:04:05Z", "yesterday"},
		"year 10000":        {"2026-01-02T03:04:05Z", "9999-12-31T23:59:59-01:00"},
		"bad name":          {"alpine-2", "a.b"},
		"name in capitals":  {"alpine-2", "Alpine-2"},
		"bad host name":     {"alpine", `a\nERROR| b`},
		"too large":         {"}]}", "}]}" + strings.Repeat(" ", maxSize)},
		"short id":          {"01234567-89ab", "0123-89ab"},
		"id without -":      {"01234567-89ab-4def", "01234567089ab-4def"},
		"empty id":          {"01234567-89ab-4def-8123-456789abcdef", ""},
		"id as number":      {`"01234567-89ab-4def-8123-456789abcdef"`, "7"},
		"bad subnet":        {"192.168.105.0/24", "x"},
		"subnet not masked": {"192.168.105.0/24", "192.168.105.1/24"},
	} {
		t.Run(name, func(t *testing.T) {
			bad := strings.Replace(goodFile, change[0], change[1], 1)
			require.NotEqual(t, goodFile, bad)
			dir, file := stateDir(t, bad)
			f, log := open(dir)
			assert.Empty(t, f.Leases())
			_, ok := f.AnchorID()
			assert.False(t, ok)
			_, ok = f.Subnet()
			assert.False(t, ok)
			assert.Equal(t, 1, warnings(log), log)
			assert.Contains(t, log.String(), file)
			f.SaveLeases(someLeases)
			require.NoError(t, f.Close())
			g, log := open(dir)
			assert.Equal(t, someLeases(), g.Leases())
			assert.Empty(t, log.String())
		})
	}
}

// TestForeign: what is at the file's path is not a file of ours.
func TestForeign(t *testing.T) {
	tests := []struct {
		name string
		root bool // needs root to set up
		make func(t *testing.T, file string)
	}{
		{"link to a good file", false, func(t *testing.T, file string) {
			require.NoError(t, os.WriteFile(file+".other", []byte(goodFile), 0o600))
			require.NoError(t, os.Symlink(file+".other", file))
		}},
		{"fifo", false, func(t *testing.T, file string) { require.NoError(t, syscall.Mkfifo(file, 0o600)) }},
		{"group may write, and a temporary file of a crash", false, func(t *testing.T, file string) {
			require.NoError(t, os.WriteFile(file+".tmp", []byte("of a crash"), 0o600))
			require.NoError(t, os.WriteFile(file, []byte(goodFile), 0o600))
			require.NoError(t, os.Chmod(file, 0o660))
		}},
		{"another owner", true, func(t *testing.T, file string) {
			require.NoError(t, os.WriteFile(file, []byte(goodFile), 0o600))
			require.NoError(t, os.Chown(file, 12345, -1))
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if tt.root && os.Geteuid() != 0 {
				if os.Getenv("CI") != "" {
					t.Fatal("CI has to run the tests as root")
				}
				t.Skip("needs root to give a file to another user: run the tests as root")
			}
			dir, file := stateDir(t, "")
			tt.make(t, file)
			f, log := open(dir)
			assert.Empty(t, f.Leases())
			assert.Equal(t, 1, warnings(log), log)
			f.SaveLeases(someLeases)
			require.NoError(t, f.Close())
			info, err := os.Lstat(file)
			require.NoError(t, err)
			assert.True(t, info.Mode().IsRegular(), "replaced by a file of ours")
			assert.Equal(t, os.FileMode(0o600), info.Mode().Perm())
			assert.NoFileExists(t, file+".tmp")
			if b, err := os.ReadFile(file + ".other"); err == nil {
				assert.Equal(t, goodFile, string(b), "the link was not followed")
			}
		})
	}
}

func TestDirectoryAtPath(t *testing.T) {
	dir, file := stateDir(t, "")
	require.NoError(t, os.Mkdir(file, 0o700))
	f, log := open(dir)
	assert.Equal(t, 1, warnings(log))
	f.SaveLeases(someLeases)
	require.NoError(t, f.Close())
	assert.Equal(t, 2, warnings(log), "one for reading, one for writing")
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	assert.Len(t, entries, 1)
}

// TestUntrustedDirectory: state is neither read nor written where others could change it. TestFind of handover has what is between the
// root and the directory.
func TestUntrustedDirectory(t *testing.T) {
	sticky := func(dir string) error { return errors.Join(os.Mkdir(dir, 0o700), os.Chmod(dir, 0o777|os.ModeSticky)) }
	for _, tt := range []struct {
		name, at string
		make     func(dir string) error
		ok       bool
	}{
		{"fine", "/a", func(string) error { return nil }, true},
		{"sticky parent", "/a/x", func(dir string) error { return sticky(dir + "/a") }, true},
		{"sticky itself", "/a", func(dir string) error { return sticky(dir + "/a") }, false},
		{"others may write", "/a", func(dir string) error { return errors.Join(os.Mkdir(dir+"/a", 0o700), os.Chmod(dir+"/a", 0o703)) }, false},
		{"a file", "/a", func(dir string) error { return os.WriteFile(dir+"/a", nil, 0o600) }, false},
		{"below a file", "/a/x", func(dir string) error { return os.WriteFile(dir+"/a", nil, 0o600) }, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			base := t.TempDir()
			require.NoError(t, tt.make(base))
			f, log := open(base + tt.at)
			f.SaveLeases(someLeases)
			require.NoError(t, f.Close())
			if tt.ok {
				assert.Empty(t, log.String())
				assert.FileExists(t, f.Path())
				return
			}
			assert.Equal(t, 1, warnings(log), log)
			assert.Empty(t, f.Path())
			assert.NoFileExists(t, filepath.Join(base+tt.at, FileName(socket)))
		})
	}
}

func TestNoDirectory(t *testing.T) {
	f, log := open("")
	f.SaveLeases(func() []Lease { panic("called") })
	require.NoError(t, f.Close())
	assert.Empty(t, f.Path()+log.String())
}

// TestDiskFull: the old file stays whole, one warning however often it fails, and it is tried again.
func TestDiskFull(t *testing.T) {
	dir, file := stateDir(t, goodFile)
	f, log := open(dir)
	f.write = func(string, []byte) error { return syscall.ENOSPC }
	for range 3 {
		f.SaveLeases(func() []Lease { return someLeases()[:1] })
		f.save()
	}
	assert.Equal(t, 1, warnings(log), log)
	assert.Contains(t, log.String(), "no space left")
	b, err := os.ReadFile(file)
	require.NoError(t, err)
	assert.Equal(t, goodFile, string(b))

	f.write = replace
	require.NoError(t, f.Close(), "Close tries again")
	g, _ := open(dir)
	assert.Len(t, g.Leases(), 1)
}

// TestDebounce: a change is written a second later, many changes are written once, and nothing runs while nothing changes, also after
// a write that failed.
func TestDebounce(t *testing.T) {
	dir, _ := stateDir(t, "")
	synctest.Test(t, func(t *testing.T) {
		f, _ := open(dir)
		var writes atomic.Int32
		var fails atomic.Bool
		fails.Store(true)
		f.write = func(string, []byte) error {
			writes.Add(1)
			if fails.Load() {
				return errors.New("no")
			}
			return nil
		}
		for range 100 {
			f.SaveLeases(someLeases)
			time.Sleep(5 * time.Millisecond)
		}
		assert.Zero(t, writes.Load())
		time.Sleep(501 * time.Millisecond)
		assert.EqualValues(t, 1, writes.Load(), "a second after the first change")
		time.Sleep(time.Hour)
		assert.EqualValues(t, 1, writes.Load(), "no timer runs after a failure")
		fails.Store(false)
		f.SaveLeases(someLeases)
		time.Sleep(time.Hour)
		assert.EqualValues(t, 2, writes.Load())
		f.SaveLeases(someLeases)
		require.NoError(t, f.Close())
		assert.EqualValues(t, 3, writes.Load(), "Close does not wait")
		time.Sleep(time.Hour)
		assert.EqualValues(t, 3, writes.Load())
	})
}

// TestConcurrentSaves: changes, saves and Close from many goroutines; the file is always whole and ends at the last state.
func TestConcurrentSaves(t *testing.T) {
	dir, file := stateDir(t, goodFile)
	f, log := open(dir)
	var last atomic.Int64
	snapshot := func() []Lease {
		l := someLeases()
		l[0].Expires = time.Unix(last.Load(), 0).UTC()
		return l
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 30 {
				last.Add(1)
				f.SaveLeases(snapshot)
				f.save()
				b, err := os.ReadFile(file)
				if assert.NoError(t, err) {
					_, err = decode(b)
					assert.NoError(t, err)
				}
			}
		})
	}
	wg.Wait()
	require.NoError(t, f.Close())
	require.NoError(t, f.Close())
	assert.Empty(t, log.String())
	g, _ := open(dir)
	assert.Equal(t, int64(240), g.Leases()[0].Expires.Unix())
}
