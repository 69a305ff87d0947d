// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// licenceFile is how modules name the texts that must go with their code.
var licenceFile = regexp.MustCompile(`(?i)^(licen[cs]e|copying|notice|patents)([.-].*)?$`)

// licences collects the licences of everything that is linked into the programs: the modules and Go itself.
func (r *release) licences(ctx context.Context) ([]byte, error) {
	out, err := output(r.command(ctx, targets[0], "env", "GOROOT"))
	if err != nil {
		return nil, err
	}
	lines := []string{"Go\t" + strings.TrimSpace(string(out))}
	for _, on := range targets {
		args := []string{"list", "-deps", "-f", "{{with .Module}}{{if not .Main}}{{.Path}} {{.Version}}\t{{.Dir}}{{end}}{{end}}"}
		for _, p := range programs {
			args = append(args, "./cmd/"+p.name)
		}
		if out, err = output(r.command(ctx, on, args...)); err != nil {
			return nil, err
		}
		lines = append(lines, strings.Split(strings.TrimSpace(string(out)), "\n")...)
	}
	slices.Sort(lines)
	text := bytes.NewBufferString("The programs contain the following modules.\n")
	for _, line := range slices.Compact(lines) {
		module, dir, _ := strings.Cut(line, "\t")
		if module == "" {
			continue // of a package of the standard library or of ours
		}
		if err := appendLicences(text, module, dir); err != nil {
			return nil, err
		}
	}
	return text.Bytes(), nil
}

// appendLicences writes the texts of one module, which must have one.
func appendLicences(text *bytes.Buffer, module, dir string) error {
	files, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("licence of %s: %w", module, err)
	}
	found := false
	for _, f := range files {
		if !f.Type().IsRegular() || !licenceFile.MatchString(f.Name()) {
			continue
		}
		b, err := os.ReadFile(filepath.Join(dir, f.Name()))
		if err != nil {
			return fmt.Errorf("licence of %s: %w", module, err)
		}
		fmt.Fprintf(text, "\n%s\n%s: %s\n\n%s\n", strings.Repeat("=", 80), module, f.Name(), bytes.TrimSpace(b))
		found = true
	}
	if !found {
		return fmt.Errorf("no licence of %s in %s", module, dir)
	}
	return nil
}
