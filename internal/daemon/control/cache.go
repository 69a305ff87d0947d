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
		st := src.Status()
		c.last = &snapshot{st, encoded(st), encoded(Clients{st.Format, st.Now, st.Clients}), encoded(Health{st.Format, st.Now, st.Health})}
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

// A snapshot is a description, and the answers that have it or a part of it.
type snapshot struct {
	status                 status.Status
	whole, clients, health http.HandlerFunc
}

// encoded answers with v, which is encoded once.
func encoded(v any) http.HandlerFunc {
	body := sync.OnceValues(func() ([]byte, error) { return json.Marshal(v) })
	return func(w http.ResponseWriter, _ *http.Request) {
		b, err := body()
		writeBody(w, http.StatusOK, b, err)
	}
}
