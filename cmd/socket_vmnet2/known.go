// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net"
	"sync"

	"github.com/socket-vmnet2/socket_vmnet2/internal/perclient"
	"github.com/socket-vmnet2/socket_vmnet2/internal/state"
)

// A known list keeps the datagram clients that are answered at a path, for the next process: they do not notice a restart,
// and a guest that has nothing to say would not be reached until it speaks.
type known struct {
	file *state.File // nil: nothing is kept

	mu     sync.Mutex
	live   map[string]knownClient  // by path
	macs   map[string]state.Client // of those that are being invited
	frozen bool                    // the daemon stops: who is there now is there at the next start
}

type knownClient struct {
	uid     uint32
	session *perclient.Session
}

func newKnown(file *state.File) *known {
	return &known{file: file, live: map[string]knownClient{}, macs: map[string]state.Client{}}
}

// add keeps the client at path until remove.
func (k *known) add(path string, uid uint32, x *perclient.Session) {
	k.mu.Lock()
	select {
	case <-x.Done(): // remove has been called, or is about to be
	default:
		k.live[path] = knownClient{uid, x}
	}
	k.mu.Unlock()
	k.save()
}

// remove forgets the client at path if its session has ended: another one may be there already.
func (k *known) remove(path string) {
	k.mu.Lock()
	c, gone := k.live[path]
	if gone = gone && !k.frozen; gone {
		select {
		case <-c.session.Done():
			delete(k.live, path)
		default:
			gone = false
		}
	}
	k.mu.Unlock()
	if gone {
		k.save()
	}
}

// saveSession saves the session of the client at path for another image; false: there is none.
func (k *known) saveSession(path string) (v perclient.Saved, ok bool) {
	k.mu.Lock()
	c, ok := k.live[path]
	k.mu.Unlock()
	if !ok {
		return v, false
	}
	return c.session.Save()
}

// has reports whether x is the session of a client in the list.
func (k *known) has(x *perclient.Session) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, c := range k.live {
		if c.session == x {
			return true
		}
	}
	return false
}

// use has the list kept in another file.
func (k *known) use(file *state.File) {
	k.mu.Lock()
	k.file = file
	k.mu.Unlock()
	k.save()
}

// freeze keeps the list as it is, though sessions end.
func (k *known) freeze() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.frozen = true
}

func (k *known) save() {
	k.mu.Lock()
	file := k.file
	k.mu.Unlock()
	if file != nil {
		file.SaveClients(k.snapshot)
	}
}

// snapshot is the clients there are, as they are kept.
func (k *known) snapshot() []state.Client {
	k.mu.Lock()
	defer k.mu.Unlock()
	list := make([]state.Client, 0, len(k.live))
	for path, c := range k.live {
		list = append(list, state.Client{Path: path, UID: c.uid, MAC: c.session.MAC()})
	}
	return list
}

// recall calls invite for each client that the last process has kept.
func (k *known) recall(invite func(path string, uid uint32)) {
	if k.file == nil {
		return
	}
	for _, c := range k.file.Clients() {
		k.mu.Lock()
		stop := k.frozen
		k.macs[c.Path] = c
		k.mu.Unlock()
		if stop {
			return
		}
		invite(c.Path, c.UID)
		k.mu.Lock()
		delete(k.macs, c.Path)
		k.mu.Unlock()
	}
	k.save() // those that have gone are forgotten
}

// mac is the address of the guest behind a client that is being invited, nil for any other.
func (k *known) mac(path string) net.HardwareAddr {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.macs[path].MAC
}
