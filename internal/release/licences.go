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
	"time"
)

// licenceFile is how modules name the texts that must go with their code.
var licenceFile = regexp.MustCompile(`(?i)^(licen[cs]e|copying|notice|patents)([.-].*)?$`)

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
	found := map[module]bool{{path: "std", version: strings.TrimPrefix(version, "go"), dir: root}: true}
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
	type component struct {
		Type    string `json:"type"`
		Name    string `json:"name"`
		Version string `json:"version"`
		PURL    string `json:"purl,omitempty"`
	}
	var components []component
	for _, m := range modules {
		components = append(components, component{"library", m.path, m.version, "pkg:golang/" + m.path + "@" + m.version})
	}
	type metadata struct {
		Timestamp time.Time `json:"timestamp"`
		Component component `json:"component"`
	}
	return json.MarshalIndent(struct {
		Format     string      `json:"bomFormat"`
		Spec       string      `json:"specVersion"`
		Version    int         `json:"version"`
		Metadata   metadata    `json:"metadata"`
		Components []component `json:"components"`
	}{"CycloneDX", "1.6", 1, metadata{r.time, component{Type: "application", Name: "socket_vmnet2", Version: r.version}}, components}, "", "  ")
}

// licences collects the licences of the modules.
func licences(modules []module) ([]byte, error) {
	text := bytes.NewBufferString("The programs contain the following modules.\n")
	for _, m := range modules {
		name := m.path + " " + m.version
		if m.path == "std" {
			name = "Go"
		}
		if err := appendLicences(text, name, m.dir); err != nil {
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
