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
	// userNameAge is for how long a user's name is good.
	userNameAge = 5 * time.Minute

	// userNamePatience is how long the look-ups of one description may take, in a directory service perhaps, before names are left out.
	userNamePatience = 50 * time.Millisecond
)

// userNames are the names of users.
type userNames struct {
	mu     sync.Mutex
	known  map[uint32]*userName
	asking sync.Mutex // one look-up at a time does

	lookUp func(uid uint32) string // lookUpUser; tests have others
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
		go func() {
			defer close(u.found)
			n.asking.Lock()
			defer n.asking.Unlock()
			u.name = printable.Line(n.lookUp(uid), maxUserName)
		}()
	}
	n.mu.Unlock()
	select {
	case <-u.found:
		return u.name
	default:
	}
	select {
	case <-u.found:
		return u.name
	case <-late:
		return ""
	}
}

func lookUpUser(uid uint32) string {
	u, err := user.LookupId(strconv.FormatUint(uint64(uid), 10))
	if err != nil {
		return ""
	}
	return u.Username
}

// processName is that of a client's process, empty where it cannot be told, or where the process began after its client, which began at
// that time: it is another one then that has got the number. A process may become another program, as socket_vmnet_client does.
func processName(pid int, began time.Time) string {
	if pid <= 0 {
		return ""
	}
	text, age, ok := processOf(pid)
	if !ok || age+processSlack < time.Since(began) {
		return ""
	}
	return printable.Line(text, maxCommand)
}

// processSlack is how much younger than its client a process may seem: clocks differ, and are coarse.
const processSlack = 2 * time.Second
