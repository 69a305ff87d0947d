// SPDX-License-Identifier: Apache-2.0

package dns

import (
	"io"
	"net/netip"
	"os"
	"sync"
	"time"

	"github.com/miekg/dns"
)

const (
	// maxResolvers is how many resolvers of the file are used, as in the C libraries.
	maxResolvers = 3
	// recheck is how long the file is taken as unchanged.
	recheck = time.Second
	// maxResolvConf is how much of the file is read, in bytes.
	maxResolvConf = 64 << 10
)

// resolvConf is the host's list of resolvers. A missing, unreadable or empty file is an empty list.
type resolvConf struct {
	path string

	mu      sync.Mutex
	checked time.Time
	list    []string
}

// servers returns the addresses of the resolvers. The slice is not changed later.
func (r *resolvConf) servers() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.checked.IsZero() || time.Since(r.checked) >= recheck {
		r.checked, r.list = time.Now(), readResolvers(r.path)
	}
	return r.list
}

func readResolvers(path string) []string {
	f, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer f.Close()
	conf, err := dns.ClientConfigFromReader(io.LimitReader(f, maxResolvConf))
	if err != nil {
		return nil
	}
	var list []string
	for _, s := range conf.Servers {
		if a, err := netip.ParseAddr(s); err == nil && len(list) < maxResolvers {
			list = append(list, a.String())
		}
	}
	return list
}
