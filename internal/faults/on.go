// SPDX-License-Identifier: Apache-2.0

//go:build faults

package faults

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// lookEvery is how often the file is read.
const lookEvery = 5 * time.Millisecond

// armed are the panics that are to come, by point.
var armed atomic.Pointer[map[string]*atomic.Int64]

func init() {
	if path := os.Getenv(Env); path != "" {
		go watch(path)
	}
}

// Point panics when name is armed.
func Point(name string) {
	m := armed.Load()
	if m == nil {
		return
	}
	if left := (*m)[name]; left != nil && left.Add(-1) >= 0 {
		panic("injected at " + name)
	}
}

// In is Point if b has Mark in it.
func In(name string, b []byte) {
	if armed.Load() != nil && bytes.Contains(b, []byte(Mark)) {
		Point(name)
	}
}

// watch follows the file for as long as the program runs.
func watch(path string) {
	for last := ""; ; time.Sleep(lookEvery) {
		b, err := os.ReadFile(path)
		if err != nil || string(b) == last {
			continue
		}
		last = string(b)
		nonce := arm(last)
		ack := fmt.Sprintf("%s %d", nonce, runtime.NumGoroutine())
		tmp := path + AckSuffix + ".new"
		if os.WriteFile(tmp, []byte(ack), 0o600) == nil {
			_ = os.Rename(tmp, path+AckSuffix)
		}
	}
}

// arm does what text says and returns its nonce.
func arm(text string) (nonce string) {
	nonce, rest, _ := strings.Cut(text, "\n")
	m := map[string]*atomic.Int64{}
	for line := range strings.Lines(rest) {
		name, count, _ := strings.Cut(strings.TrimSpace(line), " ")
		if n, err := strconv.ParseInt(count, 10, 64); err == nil {
			m[name] = &atomic.Int64{}
			m[name].Store(n)
		}
	}
	armed.Store(&m)
	return nonce
}
