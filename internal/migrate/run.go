// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"time"
)

// run asks a program, which may take this long.
func (f *finder) run(limit time.Duration, name string, args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(f.ctx, limit)
	defer cancel()
	out, err := f.Run(ctx, name, args...)
	if err != nil && ctx.Err() != nil {
		return out, fmt.Errorf("gave no answer within %v", limit)
	}
	return out, err
}

// notThere tells whether a program failed because the machine has none of that name.
func notThere(err error) bool { return errors.Is(err, exec.ErrNotFound) }
