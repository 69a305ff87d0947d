// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"cmp"
	"os/user"
	"strconv"
	"sync"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/internal/printable"
)

const (
	// maxUserName and maxCommand are in bytes. Linux cuts the names of processes at 15, macOS at 16.
	maxUserName = 64
	maxCommand  = 32

	// maxUserNames is how many users' names are kept.
	maxUserNames = 256
	// userNameAge and processNameAge are for how long a name is good. A process may become another program, as socket_vmnet_client
	// does.
	userNameAge    = 5 * time.Minute
	processNameAge = 2 * time.Second

	// userNamePatience is how long a look-up may take, in a directory service perhaps, before the name is left out.
	userNamePatience = 50 * time.Millisecond
)

// userNames are the names of users. The zero value is ready for use.
type userNames struct {
	mu      sync.Mutex
	known   map[uint32]userName
	pending chan struct{} // closed at the end of the look-up that is under way; nil: none is
	slow    bool          // that has taken too long: nobody waits for it any more

	// Tests change them; zero is userNamePatience and the system's.
	patience time.Duration
	lookUp   func(uid uint32) string
}

type userName struct {
	name string
	at   time.Time
}

// name is uid's, empty if it has none or that cannot be told soon.
func (n *userNames) name(uid uint32) string {
	late := time.NewTimer(cmp.Or(n.patience, userNamePatience))
	defer late.Stop()
	for {
		n.mu.Lock()
		u, ok := n.known[uid]
		if ok && time.Since(u.at) < userNameAge || n.slow {
			n.mu.Unlock()
			return u.name
		}
		if n.pending == nil {
			n.pending = make(chan struct{})
			go n.find(uid, n.pending)
		}
		done := n.pending
		n.mu.Unlock()
		select {
		case <-done:
		case <-late.C:
			n.mu.Lock()
			n.slow = n.pending == done
			n.mu.Unlock()
			return u.name
		}
	}
}

// find looks uid up. One at a time does.
func (n *userNames) find(uid uint32, done chan struct{}) {
	lookUp := n.lookUp
	if lookUp == nil {
		lookUp = lookUpUser
	}
	name := printable.Line(lookUp(uid), maxUserName)
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.known == nil || len(n.known) >= maxUserNames {
		n.known = map[uint32]userName{}
	}
	n.known[uid] = userName{name, time.Now()}
	n.pending, n.slow = nil, false
	close(done)
}

func lookUpUser(uid uint32) string {
	u, err := user.LookupId(strconv.FormatUint(uint64(uid), 10))
	if err != nil {
		return ""
	}
	return u.Username
}

// processNames are the names of the clients' processes, which are good for processNameAge. The zero value is ready for use.
type processNames struct {
	mu    sync.Mutex
	known map[clientProcess]string
	since time.Time
}

// A clientProcess is a process of one client. Its number may be another's by the time of the next client.
type clientProcess struct {
	client uint64
	pid    int
}

// name is that of pid, empty where it cannot be told, or where the process began after its client, which began at that time: it
// is another one then that has got the number.
func (n *processNames) name(client uint64, pid int, began time.Time) string {
	if pid <= 0 {
		return ""
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.known == nil || time.Since(n.since) >= processNameAge {
		n.known, n.since = map[clientProcess]string{}, time.Now()
	}
	key := clientProcess{client, pid}
	name, ok := n.known[key]
	if ok {
		return name
	}
	if text, age, ok := processOf(pid); ok && age+processSlack >= time.Since(began) {
		name = printable.Line(text, maxCommand)
	}
	n.known[key] = name
	return name
}

// processSlack is how much younger than its client a process may seem: clocks differ, and are coarse.
const processSlack = 2 * time.Second
