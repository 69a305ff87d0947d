// SPDX-License-Identifier: Apache-2.0

package daemon

import (
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

	// userNamePatience is how long the look-ups of one description may take, in a directory service perhaps, before names are left out.
	userNamePatience = 50 * time.Millisecond
)

// userNames are the names of users. The zero value is ready for use.
type userNames struct {
	mu     sync.Mutex
	known  map[uint32]*userName
	asking sync.Mutex // one look-up at a time does

	lookUp func(uid uint32) string // tests change it; nil is the system's
}

type userName struct {
	asked time.Time
	found chan struct{} // closed when name is set
	name  string
}

// name is uid's, empty if it has none or if that cannot be told before late is closed.
func (n *userNames) name(uid uint32, late <-chan struct{}) string {
	n.mu.Lock()
	u := n.known[uid]
	if u == nil || time.Since(u.asked) >= userNameAge {
		if n.known == nil || len(n.known) >= maxUserNames {
			n.known = map[uint32]*userName{}
		}
		u = &userName{asked: time.Now(), found: make(chan struct{})}
		n.known[uid] = u
		go n.find(uid, u)
	}
	n.mu.Unlock()
	select {
	case <-u.found:
	case <-late:
		select {
		case <-u.found:
		default:
			return ""
		}
	}
	return u.name
}

// find looks uid up.
func (n *userNames) find(uid uint32, u *userName) {
	defer close(u.found)
	n.asking.Lock()
	defer n.asking.Unlock()
	lookUp := n.lookUp
	if lookUp == nil {
		lookUp = lookUpUser
	}
	u.name = printable.Line(lookUp(uid), maxUserName)
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
