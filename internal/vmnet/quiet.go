// SPDX-License-Identifier: Apache-2.0

package vmnet

import (
	"log/slog"
	"sync"
	"time"
)

// quietTime is how long a message that was logged is not logged again.
const quietTime = 10 * time.Second

// A quiet logs warnings that clients or faults can provoke in any number. Messages are constants, so there are few.
type quiet struct {
	log *slog.Logger

	mu   sync.Mutex
	seen map[string]*lastLogged
}

type lastLogged struct {
	at         time.Time
	suppressed int
}

func newQuiet(log *slog.Logger) *quiet { return &quiet{log: log, seen: map[string]*lastLogged{}} }

// warn logs message, or counts it for the next time.
func (q *quiet) warn(message string, args ...any) {
	q.mu.Lock()
	s := q.seen[message]
	if s == nil {
		s = &lastLogged{}
		q.seen[message] = s
	}
	now := time.Now()
	if !s.at.IsZero() && now.Sub(s.at) < quietTime {
		s.suppressed++
		q.mu.Unlock()
		return
	}
	if s.suppressed > 0 {
		args = append(args, "suppressed", s.suppressed)
	}
	s.at, s.suppressed = now, 0
	q.mu.Unlock()
	q.log.Warn(message, args...)
}
