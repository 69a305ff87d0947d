// SPDX-License-Identifier: Apache-2.0

package rig

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
func buildPerFrame(ctx context.Context, r *Rig) error {
	r.opt.Progress("building a daemon that moves a datagram with each system call")
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
	dir := filepath.Dir(r.perFrame())
	replacement, overlay := filepath.Join(dir, "mmsg.go"), filepath.Join(dir, "overlay.json")
	replace, err := json.Marshal(map[string]map[string]string{"Replace": {original: replacement}})
	err = errors.Join(err, os.Mkdir(dir, 0o755), os.WriteFile(replacement, []byte(changed), 0o644), os.WriteFile(overlay, replace, 0o644))
	if err != nil {
		return fmt.Errorf("prepare the build: %w", err)
	}
	return r.Build(ctx, r.perFrame(), "cmd/socket_vmnet2", "-overlay="+overlay)
}

// perFrame is that daemon's path. By its name it takes all options.
func (r *Rig) perFrame() string { return filepath.Join(r.dir, "perframe", "socket_vmnet2") }
