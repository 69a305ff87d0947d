// SPDX-License-Identifier: Apache-2.0

package control

import (
	"encoding/json"
	"net/http"
	"sync"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/internal/status"
)

// cacheTime is how old an answer may be. Describing 256 clients takes about a millisecond, so whoever asks all the time costs a
// hundredth of a processor.
const cacheTime = 100 * time.Millisecond

// A cache keeps the last description of the daemon, and has one made at a time.
type cache struct {
	mu   sync.Mutex
	last *snapshot
	made time.Time
}

// get is a description that is not older than cacheTime.
func (c *cache) get(src daemon) *snapshot {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.last == nil || time.Since(c.made) > cacheTime {
		c.last = &snapshot{status: src.Status()}
		c.made = time.Now()
	}
	return c.last
}

// forget has the next answer be new.
func (c *cache) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last = nil
}

// A part is what of a description is asked for.
type part int

const (
	wholeStatus part = iota
	onlyClients
	onlyHealth
	parts
)

// A snapshot is a description and its encoded parts.
type snapshot struct {
	status  status.Status
	encoded [parts]struct {
		once sync.Once
		body []byte // ends with a line feed
		err  error
	}
}

// encode is part p in JSON.
func (s *snapshot) encode(p part) ([]byte, error) {
	e := &s.encoded[p]
	e.once.Do(func() {
		var v any = s.status
		switch p {
		case onlyClients:
			v = Clients{s.status.Format, s.status.Now, s.status.Clients}
		case onlyHealth:
			v = Health{s.status.Format, s.status.Now, s.status.Health}
		}
		e.body, e.err = json.Marshal(v)
		e.body = append(e.body, '\n')
	})
	return e.body, e.err
}

// write answers with part p.
func (s *snapshot) write(w http.ResponseWriter, p part) {
	body, err := s.encode(p)
	if err != nil {
		writeInternal(w, err)
		return
	}
	writeBody(w, http.StatusOK, body)
}
