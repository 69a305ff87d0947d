// SPDX-License-Identifier: Apache-2.0

package frame_test

import (
	"bufio"
	"encoding/binary"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
)

// reference reads a stream frame by frame in the plainest way there is, to compare Scan with.
func reference(stream []byte) (p parsed) {
	for len(stream) >= 4 {
		n := uint64(stream[0])<<24 | uint64(stream[1])<<16 | uint64(stream[2])<<8 | uint64(stream[3])
		if n > 69632 {
			p.err = frame.ErrTooLong
			break
		}
		if uint64(len(stream)) < 4+n {
			break
		}
		if n < 14 {
			p.runts++
		} else {
			p.frames = append(p.frames, stream[4:4+n])
		}
		stream = stream[4+n:]
	}
	p.left = stream
	return p
}

// cut takes stream apart into chunks whose sizes come from how; an exhausted or zero size takes the rest.
func cut(stream, how []byte) (chunks [][]byte) {
	for len(stream) > 0 {
		n := len(stream)
		if len(how) > 0 {
			if how[0] > 0 {
				n = min(n, int(how[0]))
			}
			how = how[1:]
		}
		chunks = append(chunks, stream[:n])
		stream = stream[n:]
	}
	return chunks
}

// FuzzScan feeds a byte stream at once and in arbitrary chunks. Both must give what the reference gives, and never a frame
// outside 14 to 69,632 bytes. Seeds are here and in testdata/fuzz/FuzzScan.
func FuzzScan(f *testing.F) {
	stream, _, _ := mixed()
	f.Add(stream, []byte{1, 2, 3, 5, 8, 13, 21, 34, 55})
	f.Add(frame.Append(frame.Append(nil, arp), header), []byte{4, 42, 4, 14})
	f.Add(append(frame.Append(nil, pattern(1514)), prefix(frame.MaxLen+1)...), []byte{255, 255})
	f.Add(prefix(0xffffffff), []byte{1, 1, 1, 1})
	f.Fuzz(func(t *testing.T, stream, how []byte) {
		// Long inputs find nothing more (TestLengths has the long frames) and make the mutator crawl.
		if len(stream) > 8<<10 {
			return
		}
		want := reference(stream)
		chunked := feed(cut(stream, how)...)
		whole := feed(stream)
		for name, got := range map[string]parsed{"whole": whole, "chunked": chunked} {
			require.ErrorIs(t, got.err, want.err, name)
			require.Equal(t, want.runts, got.runts, name)
			require.Equal(t, want.frames, got.frames, name)
			for _, fr := range got.frames {
				require.True(t, len(fr) >= 14 && len(fr) <= 69632, "%s: frame of %d bytes", name, len(fr))
			}
		}
		if want.err == nil {
			require.Equal(t, string(want.left), string(whole.left), "what waits for more")
			require.Equal(t, string(want.left), string(chunked.left), "what waits for more, chunked")
		}
	})
}

// FuzzScanAsQEMU holds Scan against another reader of the format, in C and by QEMU's rules: testdata/reader.c.
func FuzzScanAsQEMU(f *testing.F) {
	in, out := reader(f)
	var word [4]byte
	get := func(t *testing.T) uint32 {
		_, err := io.ReadFull(out, word[:])
		require.NoError(t, err)
		return binary.NativeEndian.Uint32(word[:])
	}
	stream, _, _ := mixed()
	f.Add(stream)
	f.Add(append(frame.Append(nil, pattern(1514)), prefix(frame.MaxLen+1)...))
	f.Add(append(prefix(0), prefix(frame.MaxLen)...))
	f.Fuzz(func(t *testing.T, stream []byte) {
		if len(stream) > 8<<10 {
			return
		}
		_, err := in.Write(append(binary.NativeEndian.AppendUint32(nil, uint32(len(stream))), stream...))
		require.NoError(t, err)
		var want parsed
		left := uint32(0)
		for n := get(t); ; n = get(t) {
			if n == 1<<32-2 {
				want.err = frame.ErrTooLong
				break
			} else if n == 1<<32-1 {
				left = get(t)
				break
			}
			b := make([]byte, n)
			_, err := io.ReadFull(out, b)
			require.NoError(t, err)
			if n < frame.MinLen {
				want.runts++
			} else {
				want.frames = append(want.frames, b)
			}
		}
		got := feed(stream)
		require.ErrorIs(t, got.err, want.err)
		require.Equal(t, want.runts, got.runts)
		require.Equal(t, want.frames, got.frames)
		if want.err == nil {
			require.Len(t, got.left, int(left))
		}
	})
}

// reader runs the reader in C.
func reader(f *testing.F) (in io.Writer, out io.Reader) {
	gcc, err := exec.LookPath("gcc")
	if err != nil && os.Getenv("CI") == "" {
		f.Skip("needs gcc, try: apt-get install gcc libc6-dev")
	}
	program := filepath.Join(f.TempDir(), "reader")
	said, err := exec.Command(gcc, "-std=c11", "-Wall", "-Wextra", "-Werror", "-o", program, "testdata/reader.c").CombinedOutput()
	require.NoError(f, err, "%s", said)
	c := exec.Command(program)
	in, err = c.StdinPipe()
	require.NoError(f, err)
	pipe, err := c.StdoutPipe()
	require.NoError(f, err)
	require.NoError(f, c.Start())
	f.Cleanup(func() {
		_ = c.Process.Kill()
		_ = c.Wait()
	})
	return in, bufio.NewReader(pipe)
}
