// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// A module is something that is linked into a program: Go's own packages have the path std and Go's version.
type module struct {
	path, version string
	dir           string // where its sources are
}

// modules lists what is linked into the programs of any target, in order of the paths.
func (r *release) modules(ctx context.Context) ([]module, error) {
	out, err := output(r.command(ctx, targets[0], "env", "GOVERSION", "GOROOT"))
	if err != nil {
		return nil, err
	}
	version, root, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	found := map[module]bool{{"std", strings.TrimPrefix(version, "go"), root}: true}
	for _, on := range targets {
		args := []string{"list", "-deps", "-f", "{{with .Module}}{{if not .Main}}{{.Path}}\t{{.Version}}\t{{.Dir}}{{end}}{{end}}"}
		for _, p := range programs {
			args = append(args, "./cmd/"+p.name)
		}
		if out, err = output(r.command(ctx, on, args...)); err != nil {
			return nil, err
		}
		for line := range strings.Lines(string(out)) {
			// A package of the standard library or of ours gives an empty line.
			if f := strings.Split(strings.TrimSpace(line), "\t"); len(f) == 3 {
				found[module{f[0], f[1], f[2]}] = true
			}
		}
	}
	return slices.SortedFunc(maps.Keys(found), func(a, b module) int { return strings.Compare(a.path, b.path) }), nil
}

// billOfMaterials is the list of modules in the format CycloneDX 1.6, for scanners of known holes.
func (r *release) billOfMaterials(modules []module) ([]byte, error) {
	type object map[string]any
	var components []object
	for _, m := range modules {
		components = append(components, object{"type": "library", "name": m.path, "version": m.version, "purl": "pkg:golang/" + m.path + "@" + m.version})
	}
	return json.MarshalIndent(object{
		"bomFormat": "CycloneDX", "specVersion": "1.6", "version": 1, "components": components,
		"metadata": object{"timestamp": r.time, "component": object{"type": "application", "name": "socket_vmnet2", "version": r.version}},
	}, "", "  ")
}

// licenceFile is how modules name the texts that must go with their code.
var licenceFile = regexp.MustCompile(`(?i)^(licen[cs]e|copying|notice|patents)([.-].*)?$`)

// licences collects the licences of the modules, each of which must have one.
func licences(modules []module) ([]byte, error) {
	text := bytes.NewBufferString("The programs contain the following modules.\n")
	for _, m := range modules {
		name := m.path + " " + m.version
		if m.path == "std" {
			name = "Go"
		}
		files, err := os.ReadDir(m.dir)
		if err != nil {
			return nil, fmt.Errorf("licence of %s: %w", name, err)
		}
		before := text.Len()
		for _, f := range files {
			if !f.Type().IsRegular() || !licenceFile.MatchString(f.Name()) {
				continue
			}
			b, err := os.ReadFile(filepath.Join(m.dir, f.Name()))
			if err != nil {
				return nil, fmt.Errorf("licence of %s: %w", name, err)
			}
			fmt.Fprintf(text, "\n%s\n%s: %s\n\n%s\n", strings.Repeat("=", 80), name, f.Name(), bytes.TrimSpace(b))
		}
		if text.Len() == before {
			return nil, fmt.Errorf("no licence of %s in %s", name, m.dir)
		}
	}
	return text.Bytes(), nil
}
