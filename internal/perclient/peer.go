// SPDX-License-Identifier: Apache-2.0

package perclient

import (
	"cmp"
	"slices"

	"github.com/socket-vmnet2/socket_vmnet2/internal/link"
	"github.com/socket-vmnet2/socket_vmnet2/internal/peercred"
)

// maxUsers is how many users have counters of their own. Who can connect is decided by a group, so there are few.
const maxUsers = 256

// A UserStats is what the clients of one user did since the start.
type UserStats struct {
	UID uint32 `json:"uid"`
	// Other: all users that are not known or have no counters of their own, and UID means nothing.
	Other bool `json:"other,omitempty"`

	Clients  int    `json:"clients"`  // connected now
	Accepted uint64 `json:"accepted"` // since the start, those connected now included
	Refused  uint64 `json:"refused"`  // above --max-clients

	// Of the clients that have left and those that are there.
	FramesToNet    uint64 `json:"frames_to_net"`
	BytesToNet     uint64 `json:"bytes_to_net"`
	FramesToClient uint64 `json:"frames_to_client"`
	BytesToClient  uint64 `json:"bytes_to_client"`
}

// Users are the counters of each user, by number, with those of all others at the end if there are any. They do not include
// what an image before an upgrade counted of clients that had left.
func (s *Server) Users() []UserStats {
	s.mu.Lock()
	defer s.mu.Unlock()
	live := users{byUID: make(map[uint32]*UserStats, len(s.users.byUID)), other: s.users.other}
	for uid, u := range s.users.byUID {
		sum := *u
		live.byUID[uid] = &sum
	}
	for c := range s.sessions {
		live.find(c.client.Peer).add(c.link.Stats())
	}
	list := make([]UserStats, 0, len(live.byUID)+1)
	for _, u := range live.byUID {
		list = append(list, *u)
	}
	slices.SortFunc(list, func(a, b UserStats) int { return cmp.Compare(a.UID, b.UID) })
	if live.other.Accepted+live.other.Refused > 0 {
		live.other.Other = true
		list = append(list, live.other)
	}
	return list
}

// users are the counters by user. The zero value is ready for use.
type users struct {
	byUID map[uint32]*UserStats // at most maxUsers
	other UserStats
}

// begin counts a client that has come, end one that has left, refuse one that is not served.
func (u *users) begin(p peercred.Peer) {
	n := u.take(p)
	n.Clients++
	n.Accepted++
}

func (u *users) end(p peercred.Peer, st link.Stats) {
	n := u.find(p)
	n.Clients--
	n.add(st)
}

func (u *users) refuse(p peercred.Peer) { u.take(p).Refused++ }

// find is the counters that count p.
func (u *users) find(p peercred.Peer) *UserStats {
	if n := u.byUID[p.UID]; n != nil && p.Known {
		return n
	}
	return &u.other
}

// take is find, and gives a new user counters while there is room. A user keeps them: who came when there was no room counts
// with the others for good.
func (u *users) take(p peercred.Peer) *UserStats {
	if n := u.find(p); n != &u.other || !p.Known || len(u.byUID) >= maxUsers {
		return n
	}
	if u.byUID == nil {
		u.byUID = map[uint32]*UserStats{}
	}
	n := &UserStats{UID: p.UID}
	u.byUID[p.UID] = n
	return n
}

// add adds what one client's link counted.
func (n *UserStats) add(st link.Stats) {
	n.FramesToNet += st.ToNetFrames
	n.BytesToNet += st.ToNetBytes
	n.FramesToClient += st.ToClientFrames
	n.BytesToClient += st.ToClientBytes
}
