// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"
)

// SendBuffer builds test/e2e/sndbuf with the machine's C compiler and returns what to add to a guest's Env so that QEMU's
// sockets get send buffers of size bytes.
func (l *Lab) SendBuffer(ctx context.Context, size int) ([]string, error) {
	root, err := ModuleRoot()
	if err != nil {
		return nil, err
	}
	lib := l.Path("sndbuf.so")
	source := filepath.Join(root, "test", "e2e", "sndbuf", "sndbuf.c")
	out, err := exec.CommandContext(ctx, "gcc", "-shared", "-fPIC", "-O2", "-o", lib, source).CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("build %s: %w\n%s", source, err, out)
	}
	return []string{"SNDBUF=" + strconv.Itoa(size), "LD_PRELOAD=" + lib}, nil
}
