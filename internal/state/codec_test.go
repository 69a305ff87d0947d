// SPDX-License-Identifier: Apache-2.0

package state

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestEncodeGolden(t *testing.T) {
	b, err := encode(content{leases: someLeases()})
	require.NoError(t, err)
	assert.Equal(t, `{
	"leases": [
		{
			"mac": "52:54:00:12:34:01",
			"ip": "192.168.105.2",
			"expires": "2026-01-02T03:04:05Z",
			"hostname": "alpine",
			"name": "alpine-2"
		},
		{
			"mac": "52:54:00:12:34:02",
			"ip": "192.168.105.3",
			"expires": "2026-01-02T03:04:06Z"
		}
	],
	"version": 1
}
`, string(b))
}

// FuzzDecode: any bytes are taken or refused, and what is taken survives being written again.
func FuzzDecode(f *testing.F) {
	f.Add([]byte(goodFile))
	f.Add([]byte(`{"version":1}`))
	f.Add([]byte(`{"version":1,"x":null,"leases":[{}]}`))
	f.Add([]byte(`{"version":1,"leases":[{"mac":"02:00:00:00:00:01","ip":"10.0.0.2","expires":"9999-12-31T23:59:59.999999999+23:59"}]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := decode(b)
		if err != nil {
			return
		}
		out, err := encode(c)
		if err != nil {
			if len(b) > maxSize/8 {
				return // indented, it may exceed the limit
			}
			t.Fatalf("cannot write what was read: %v", err)
		}
		again, err := decode(out)
		if err != nil {
			t.Fatalf("cannot read what was written: %v\n%s", err, out)
		}
		if fmt.Sprint(len(again.leases), len(again.extra)) != fmt.Sprint(len(c.leases), len(c.extra)) {
			t.Fatalf("%d leases and %d others became %d and %d", len(c.leases), len(c.extra), len(again.leases), len(again.extra))
		}
	})
}
