// SPDX-License-Identifier: Apache-2.0

package capture

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// frames are on the network of a guest, with what is said of them.
var frames = []struct {
	bytes string // hexadecimal groups
	said  string
}{
	{
		"\xff\xff\xff\xff\xff\xff\x52\x54\x00\x12\x34\x56\x08\x06\x00\x01\x08\x00\x06\x04\x00\x01\x52\x54\x00\x12\x34\x56\xc0\xa8\x69\x02\x00\x00\x00\x00\x00\x00\xc0\xa8\x69\x01",
		"52:54:00:12:34:56 > ff:ff:ff:ff:ff:ff ARP 192.168.105.2 to 192.168.105.1",
	},
	{
		"\x52\x54\x00\x12\x34\x56\x52\x54\x00\x00\x00\x01\x08\x06\x00\x01\x08\x00\x06\x04\x00\x02\x52\x54\x00\x00\x00\x01\xc0\xa8\x69\x01\x52\x54\x00\x12\x34\x56\xc0\xa8\x69\x02",
		"52:54:00:00:00:01 > 52:54:00:12:34:56 ARP 192.168.105.1 to 192.168.105.2",
	},
	{
		"\x52\x54\x00\x00\x00\x01\x52\x54\x00\x12\x34\x56\x08\x00\x45\x00\x00\x28\x00\x00\x40\x00\x40\x06\x00\x00\xc0\xa8\x69\x02\xc0\xa8\x69\x01\x9c\x40\x00\x50\x00\x00\x00\x00\x00\x00\x00\x00\x50\x02\x04\x00\x00\x00\x00\x00",
		"52:54:00:12:34:56 > 52:54:00:00:00:01 IPv4 TCP 192.168.105.2:40000 > 192.168.105.1:80",
	},
	{
		"\x52\x54\x00\x00\x00\x01\x52\x54\x00\x12\x34\x56\x81\x00\x00\x05\x08\x00\x45\x00\x00\x1c\x00\x00\x40\x00\x40\x11\x00\x00\xc0\xa8\x69\x02\xc0\xa8\x69\x01\x9c\x40\x04\xd2\x00\x08\x00\x00",
		"52:54:00:12:34:56 > 52:54:00:00:00:01 Dot1Q IPv4 UDP 192.168.105.2:40000 > 192.168.105.1:1234",
	},
	{
		"\x52\x54\x00\x00\x00\x01\x52\x54\x00\x12\x34\x56\x08\x00\x45\x00\x00\x1c\x00\x00\x40\x00\x40\x01\x00\x00\xc0\xa8\x69\x02\xc0\xa8\x69\x01\x08\x00\x00\x00\x00\x01\x00\x01",
		"52:54:00:12:34:56 > 52:54:00:00:00:01 IPv4 ICMPv4 192.168.105.2 > 192.168.105.1",
	},
	{"\x52\x54\x00\x00\x00\x01\x52\x54\x00\x12\x34\x56\x88\xb5\x1b[2J", "52:54:00:12:34:56 > 52:54:00:00:00:01 ethertype 0x88b5"},
	{"\x52\x54\x00\x00\x00\x01\x52\x54\x00\x12\x34\x56\x08\x00\x45\x00", "52:54:00:12:34:56 > 52:54:00:00:00:01 IPv4"},
	{"\x1b[2J", "1b5b324a"},
}

// pcapng is a capture of all frames, by one client.
func pcapng(t testing.TB, dropped uint64) []byte {
	t.Helper()
	var b bytes.Buffer
	w, err := pcapgo.NewNgWriterInterface(&b, pcapgo.NgInterface{Name: "others", LinkType: layers.LinkTypeEthernet}, pcapgo.DefaultNgWriterOptions)
	require.NoError(t, err)
	n, err := w.AddInterface(pcapgo.NgInterface{Name: "client 3 alpha", LinkType: layers.LinkTypeEthernet})
	require.NoError(t, err)
	at := time.Date(2026, 11, 22, 9, 8, 7, 654321000, time.UTC)
	for i, f := range frames {
		d := pcapgo.NgEpbFlagDirectionOutbound
		if i == 1 {
			d = pcapgo.NgEpbFlagDirectionInbound
		}
		require.NoError(t, w.WritePacketWithOptions(gopacket.CaptureInfo{
			Timestamp: at, CaptureLength: len(f.bytes), Length: 1514, InterfaceIndex: n,
		}, []byte(f.bytes), pcapgo.NgPacketOptions{Flags: &pcapgo.NgEpbFlags{Direction: d}}))
	}
	for i := range 2 {
		require.NoError(t, w.WriteInterfaceStats(i, pcapgo.NgInterfaceStatistics{LastUpdate: at, PacketsReceived: 100, PacketsDropped: dropped}))
	}
	require.NoError(t, w.Flush())
	return b.Bytes()
}

func TestCopy(t *testing.T) {
	all := pcapng(t, 3)
	for name, r := range map[string]io.Reader{
		"at once": bytes.NewReader(all), "byte by byte": iotest.OneByteReader(bytes.NewReader(all)), "with its end": iotest.DataErrReader(bytes.NewReader(all)),
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			c, err := Copy(&out, r)
			require.NoError(t, err)
			assert.Equal(t, Counts{Frames: uint64(len(frames)), Bytes: int64(len(all))}, c)
			assert.Equal(t, all, out.Bytes())
		})
	}
}

// TestCopyOfACutFile: whatever is missing, what is written are whole blocks.
func TestCopyOfACutFile(t *testing.T) {
	all := pcapng(t, 3)
	for n := range all {
		var out bytes.Buffer
		c, err := Copy(&out, bytes.NewReader(all[:n]))
		whole := whole(t, all, n)
		if whole == n && n > 0 {
			require.NoError(t, err)
		} else {
			require.ErrorIs(t, err, io.ErrUnexpectedEOF)
		}
		require.EqualValues(t, whole, c.Bytes)
		require.Equal(t, string(all[:whole]), out.String())
	}
}

// whole is how many of the first n bytes of a file are whole blocks.
func whole(t *testing.T, b []byte, n int) (at int) {
	t.Helper()
	for {
		if at+8 > n {
			return at
		}
		l := int(binary.LittleEndian.Uint32(b[at+4:]))
		if at+l > n {
			return at
		}
		at += l
	}
}

// A disk has room for so many bytes.
type disk struct {
	bytes.Buffer
	room int
}

var errFull = errors.New("no space left")

func (d *disk) Write(b []byte) (int, error) {
	n := min(len(b), d.room)
	d.room -= n
	d.Buffer.Write(b[:n])
	if n < len(b) {
		return n, errFull
	}
	return n, nil
}

func TestCopyToAFullDisk(t *testing.T) {
	all := pcapng(t, 0)
	for n := range all {
		d := &disk{room: n}
		c, err := Copy(d, bytes.NewReader(all))
		require.ErrorIs(t, err, errFull)
		require.ErrorAs(t, err, new(*WriteError))
		require.EqualValues(t, whole(t, all, n), c.Bytes, "so long is it when it is cut to that")
	}
}

func TestCopyOfSomethingElse(t *testing.T) {
	all := pcapng(t, 0)
	twoLengths := bytes.Clone(all)
	twoLengths[binary.LittleEndian.Uint32(all[4:])-1]++
	for name, b := range map[string][]byte{
		"text":           []byte("HTTP/1.1 200 OK\r\n\r\n"),
		"zeros":          make([]byte, 100),
		"length 0":       append(bytes.Clone(all), make([]byte, 8)...),
		"length odd":     append(bytes.Clone(all), 6, 0, 0, 0, 33, 0, 0, 0),
		"length immense": append(bytes.Clone(all), 6, 0, 0, 0, 0, 0, 0, 0x80),
		"two lengths":    twoLengths,
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Copy(io.Discard, bytes.NewReader(b))
			assert.ErrorIs(t, err, errFormat)
		})
	}
}

func TestLines(t *testing.T) {
	var out bytes.Buffer
	c, err := Lines(&out, bytes.NewReader(pcapng(t, 3)), time.UTC)
	require.NoError(t, err)
	assert.Equal(t, Counts{Frames: uint64(len(frames))}, c)
	lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
	require.Len(t, lines, len(frames))
	for i, f := range frames {
		way := "out"
		if i == 1 {
			way = "in "
		}
		assert.Equal(t, "09:08:07.654321 client 3 alpha "+way+" "+f.said+", length 1514", lines[i])
	}
	_, err = Lines(&disk{room: 10}, bytes.NewReader(pcapng(t, 0)), time.UTC)
	require.ErrorAs(t, err, new(*WriteError))
	_, err = Lines(io.Discard, strings.NewReader("HTTP/1.1 200 OK"), time.UTC)
	require.ErrorIs(t, err, errFormat)
}

func FuzzRead(f *testing.F) {
	f.Add(pcapng(f, 3))
	f.Add(pcapng(f, 0)[:100])
	f.Fuzz(func(t *testing.T, b []byte) {
		var out bytes.Buffer
		c, err := Copy(&out, bytes.NewReader(b))
		require.EqualValues(t, out.Len(), c.Bytes)
		if err == nil {
			require.Equal(t, b, out.Bytes())
		}
	})
}

func FuzzDescribe(f *testing.F) {
	for _, c := range frames {
		f.Add([]byte(c.bytes))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, r := range describe(b) {
			require.True(t, r >= ' ' && r < 0x7f, "%q", describe(b))
		}
	})
}
