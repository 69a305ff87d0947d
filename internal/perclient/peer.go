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

// Users are the counters of each user, by number, with those of all others at the end if there are any.
func (s *Server) Users() []UserStats {
	_, _, users := s.Census()
	return users
}

// users are the counters by user. The zero value is ready for use.
type users struct {
	byUID map[uint32]*UserStats // at most maxUsers
	other UserStats
}

// clone is a copy that shares nothing.
func (u *users) clone() *users {
	c := &users{byUID: make(map[uint32]*UserStats, len(u.byUID)), other: u.other}
	for uid, n := range u.byUID {
		same := *n
		c.byUID[uid] = &same
	}
	return c
}

// list is all of them, by number, the others last.
func (u *users) list() []UserStats {
	list := make([]UserStats, 0, len(u.byUID)+1)
	for _, n := range u.byUID {
		list = append(list, *n)
	}
	slices.SortFunc(list, func(a, b UserStats) int { return cmp.Compare(a.UID, b.UID) })
	if u.other.Accepted+u.other.Refused > 0 {
		other := u.other
		other.Other = true
		list = append(list, other)
	}
	return list
}

// restore takes over what another program has counted of its users, whose clients come back.
func (u *users) restore(list []UserStats) {
	for _, n := range list {
		n.Clients = 0
		if n.Other {
			u.other = n
		} else if len(u.byUID) < maxUsers {
			if u.byUID == nil {
				u.byUID = map[uint32]*UserStats{}
			}
			u.byUID[n.UID] = &n
		}
	}
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
