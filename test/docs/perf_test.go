// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"path/filepath"
	"sync"
)

// perfProgram is what test/perf.sh builds and becomes.
var perfProgram = sync.OnceValue(func() string {
	out := filepath.Join(box.dir, "perf")
	if err := build(out, "./test/perf"); err != nil {
		return err.Error() // which cannot be run
	}
	return out
})
