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

// A Change is what is different in a program that is built from our sources.
type Change struct {
	File string // from the root of the repository
	Old  string // is in File exactly once
	New  string // takes its place
}

// apply returns the source file with the change.
func (c Change) apply(source string) (string, error) {
	if strings.Count(source, c.Old) != 1 {
		return "", fmt.Errorf("find %q once in %s, to change it to %q", c.Old, c.File, c.New)
	}
	return strings.Replace(source, c.Old, c.New, 1), nil
}

// BuildChanged is Build with one source file changed, for this program only. Beside out it leaves what that takes, so no two
// programs share a directory.
func (r *Rig) BuildChanged(ctx context.Context, out, pkg string, c Change) error {
	root, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", module).Output()
	if err != nil {
		return fmt.Errorf("find the sources: %w", err)
	}
	original := filepath.Join(strings.TrimSpace(string(root)), filepath.FromSlash(c.File))
	source, err := os.ReadFile(original)
	if err != nil {
		return fmt.Errorf("read the source to change: %w", err)
	}
	changed, err := c.apply(string(source))
	if err != nil {
		return err
	}
	dir := filepath.Dir(out)
	replacement, overlay := filepath.Join(dir, "changed.go"), filepath.Join(dir, "overlay.json")
	replace, err := json.Marshal(map[string]map[string]string{"Replace": {original: replacement}})
	err = errors.Join(err, os.MkdirAll(dir, 0o755), os.WriteFile(replacement, []byte(changed), 0o644), os.WriteFile(overlay, replace, 0o644))
	if err != nil {
		return fmt.Errorf("prepare the build: %w", err)
	}
	return r.Build(ctx, out, pkg, "-overlay="+overlay)
}
