// SPDX-License-Identifier: Apache-2.0

package compat

import (
	"bytes"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// plainFile writes to f in socket_vmnet's form.
func plainFile(f *os.File) *LogFile {
	return &LogFile{FD: int(f.Fd()), note: func(w io.Writer) *slog.Logger { return NewLogger(w, slog.LevelInfo) }}
}

func TestLogFileDropsWhatNobodyReads(t *testing.T) {
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer r.Close()
	f := plainFile(w)
	line := []byte("INFO | " + strings.Repeat("x", 1000) + "\n")
	began := time.Now()
	const lines = 5000 // far more than a pipe holds
	for range lines {
		n, err := f.Write(line)
		require.NoError(t, err)
		require.Equal(t, len(line), n)
		require.Less(t, time.Since(began), patience, "one wait, not one per line")
	}
	lost := f.lost
	assert.Positive(t, lost)

	got := make(chan []byte)
	go func() {
		b, _ := io.ReadAll(r)
		got <- b
	}()
	require.Eventually(t, func() bool { // the reader is back
		_, err := f.Write([]byte("INFO | again\n"))
		return err == nil && f.lost == 0
	}, patience, time.Millisecond)
	require.NoError(t, w.Close())
	b := <-got
	assert.Equal(t, 1, bytes.Count(b, []byte("log lines were lost")))
	assert.True(t, bytes.HasSuffix(b, []byte("INFO | again\n")))
	for l := range strings.SplitSeq(strings.TrimSuffix(string(b), "\n"), "\n") {
		assert.Regexp(t, "^(INFO|WARN) ?\\| ", l, "every line has its begin")
	}
	assert.Equal(t, lines-lost, bytes.Count(b, line), "what was not counted as lost has come")
}

func TestLogFileWritesLongLines(t *testing.T) {
	r, w, err := os.Pipe()
	require.NoError(t, err)
	line := []byte(strings.Repeat("long ", 5000) + "\n")
	go func() {
		_, _ = plainFile(w).Write(line)
		_ = w.Close()
	}()
	b, err := io.ReadAll(r)
	require.NoError(t, err)
	assert.Equal(t, line, b)
}

// TestLogFileOnAFullDisk: what could not be written is counted and told as soon as there is room, and a line that was cut is
// ended first.
func TestLogFileOnAFullDisk(t *testing.T) {
	if _, err := os.Stat("/dev/full"); err != nil {
		return // Linux has it
	}
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	require.NoError(t, err)
	defer full.Close()
	f := plainFile(full)
	for range 3 {
		_, err := f.Write([]byte("INFO | lost\n"))
		require.ErrorIs(t, err, syscall.ENOSPC)
	}
	path := filepath.Join(t.TempDir(), "log")
	log, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	require.NoError(t, err)
	defer log.Close()
	f.FD = int(log.Fd())
	_, err = f.Write([]byte("INFO | there is room\n"))
	require.NoError(t, err)
	f.lose(true)
	_, err = f.Write([]byte("INFO | whole\n"))
	require.NoError(t, err)
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, "WARN | log lines were lost, they could not be written lines=3\nINFO | there is room\n"+
		"\nWARN | log lines were lost, they could not be written lines=1\nINFO | whole\n", string(b))
}
