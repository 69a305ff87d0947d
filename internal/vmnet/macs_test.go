// SPDX-License-Identifier: Apache-2.0

package vmnet

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestManyAddressesBehindTheAnchor: however many addresses are behind the anchor, what a sharing client sends to one of them
// goes to no other client.
func TestManyAddressesBehindTheAnchor(t *testing.T) {
	f := newFake()
	f.limit = 3
	r := newRig(t, f, onNetwork())
	defer r.end()
	hostile, victim := r.attach(1), r.attach(2)
	a, b := r.attach(3), r.attach(4) // share
	mac := hostile.mac
	for i := range 3000 { // a bridge learns 256 behind a client
		hostile.mac = []byte{2, 0, 0, 1, byte(i >> 8), byte(i)}
		hostile.say(hostile.to(everybody, strconv.Itoa(i)))
	}
	hostile.mac = mac
	r.until("the spray", func() bool { return b.hears("2999") })
	r.talk(victim, a)
	a.say(a.to(victim.mac, "secret"))
	r.until("it arrives", func() bool { return victim.hears("secret") })
	assert.False(t, b.hears("secret"), "the other sharing client heard it")
}
