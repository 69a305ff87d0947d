// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// What is different in the daemon that moves a datagram with each system call: a constant of package mmsg. Everything else is
// compiled from the same sources, so that the comparison shows what batches are worth and nothing else.
const (
	batchSource   = "internal/mmsg/mmsg.go"
	batchConstant = "BatchLen = 32"
	frameConstant = "BatchLen = 1"
)

// perFrameSource is the source file with the constant changed.
func perFrameSource(source string) (string, error) {
	if strings.Count(source, batchConstant) != 1 {
		return "", fmt.Errorf("find %q once in %s, which the benchmark changes to %q", batchConstant, batchSource, frameConstant)
	}
	return strings.Replace(source, batchConstant, frameConstant, 1), nil
}

// buildPerFrame builds that daemon.
func (b *bench) buildPerFrame(ctx context.Context) error {
	progress("building a daemon that moves a datagram with each system call")
	root, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", module).Output()
	if err != nil {
		return fmt.Errorf("find the sources: %w", err)
	}
	original := filepath.Join(strings.TrimSpace(string(root)), filepath.FromSlash(batchSource))
	source, err := os.ReadFile(original)
	if err != nil {
		return fmt.Errorf("read the source to change: %w", err)
	}
	changed, err := perFrameSource(string(source))
	if err != nil {
		return err
	}
	dir := filepath.Join(b.dir, "perframe")
	replacement, overlay := filepath.Join(dir, "mmsg.go"), filepath.Join(dir, "overlay.json")
	replace, err := json.Marshal(map[string]map[string]string{"Replace": {original: replacement}})
	err = errors.Join(err, os.Mkdir(dir, 0o755), os.WriteFile(replacement, []byte(changed), 0o644), os.WriteFile(overlay, replace, 0o644))
	if err != nil {
		return fmt.Errorf("prepare the build: %w", err)
	}
	b.perFrame = filepath.Join(dir, "socket_vmnet2") // by this name it takes all options
	return build(ctx, b.perFrame, "cmd/socket_vmnet2", "-overlay="+overlay)
}
