// SPDX-License-Identifier: Apache-2.0

package unixgram

import "sync/atomic"

// A leftover is a client that has gone from here with frames unread: as long as its socket exists they stay charged.
type leftover struct {
	account account
	target  *Target
}

// A user is all accounts of one user.
type user struct {
	uid      uint32
	accounts atomic.Int32 // changed under the lock of shared
	used     atomic.Int64 // the sum of the accounts'
}

// An account is what one client has unread at the shared socket. Its pipe's lock guards it.
type account struct {
	user *user      // nil: it is closed
	used int        // charged bytes, at most
	peer diagSocket // the client's socket, once it was looked for

	out     int // what all clients had unread when this one's queue was asked for last
	unasked int // how often it was not asked for since
}

// charge adds n bytes to what is unread.
func (a *account) charge(n int) {
	a.used += n
	a.user.used.Add(int64(n))
}

// clear notes that nothing is unread.
func (a *account) clear() { a.charge(-a.used) }

// limit is what a may have unread, given what one of so many clients may.
func (a *account) limit(share int) int {
	if a.user.accounts.Load() <= userClients {
		return share
	}
	others := int(a.user.used.Load()) - a.used
	return min(share, max(0, userClients*share-others))
}

// emptied asks whether the client has read everything, given what all of them have not. That takes 10 us and more, so it does
// not ask again at once as long as that number stays as it was: mostly nobody has read anything then.
func (a *account) emptied(s *shared, t *Target, out int) bool {
	if out == a.out && a.unasked < maxUnasked {
		a.unasked++
		return false
	}
	a.out, a.unasked = out, 0
	return s.diags.empty(&a.peer, t)
}

// open makes the account of a client. Its error is errTooMany.
func (s *shared) open(t *Target) (account, error) {
	s.mu.Lock()
	u := s.users[t.uid]
	if u == nil {
		u = &user{uid: t.uid}
		s.users[t.uid] = u
	}
	if u.accounts.Load() >= maxUserAccounts {
		s.mu.Unlock()
		return account{}, errTooMany
	}
	if u.accounts.Add(1) <= userClients {
		s.accounts.Add(1)
	}
	s.mu.Unlock()
	a := account{user: u}
	s.diags.prepare(&a.peer, t)
	return a, nil
}

// end forgets an account.
func (s *shared) end(a *account) {
	a.clear()
	s.mu.Lock()
	defer s.mu.Unlock()
	n := a.user.accounts.Add(-1)
	if n < userClients {
		s.accounts.Add(-1)
	}
	if n == 0 {
		delete(s.users, a.user.uid)
	}
	a.user = nil
}

// settle ends an account. It owns t, which is kept as long as its client may have something unread.
func (s *shared) settle(a *account, t *Target) {
	old := *a
	*a = account{}
	if old.used == 0 || !s.keep(leftover{old, t}) {
		s.end(&old)
		t.Close()
	}
}

// keep remembers l if its client has something unread.
func (s *shared) keep(l leftover) bool {
	s.use.RLock()
	defer s.use.RUnlock()
	if s.closed || s.read(&l.account, l.target) || !l.target.alive() {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.left) >= maxAccounts {
		return false
	}
	s.left = append(s.left, l)
	return true
}
