// SPDX-License-Identifier: Apache-2.0

package install

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
)

// format is of the manifest; a higher one is from a newer program.
const format = 1

// A manifest says what was there and what is put there. It is on record before the first file is replaced.
type manifest struct {
	Format  int      `json:"format"`
	Prefix  string   `json:"prefix"`
	Version string   `json:"version"` // of what is put there
	Done    bool     `json:"done"`    // all of it is in place
	Entries []*entry `json:"entries"`
}

// An entry is one path.
type entry struct {
	Path   string   `json:"path"` // below the prefix
	Before file     `json:"before"`
	Backup string   `json:"backup,omitempty"` // below the backup; empty if nothing was there
	Ours   []string `json:"ours"`             // checksums of what has been put there, and of what is to be: the last
}

// mine reports whether a file is one that this package has put there, or one that it could have: a newer release that was
// unpacked over it is no reason to keep the older one of somebody else less well.
func (e *entry) mine(f file) bool {
	return f.Kind == regular && (slices.Contains(e.Ours, f.Sum) || f.own && !f.same(e.Before))
}

// foreign reports whether a file is neither ours nor what was there before.
func (e *entry) foreign(f file) bool { return f.Kind != absent && !e.mine(f) && !f.same(e.Before) }

// entry returns the one of a path, nil if there is none.
func (m *manifest) entry(path string) *entry {
	for _, e := range m.Entries {
		if e.Path == path {
			return e
		}
	}
	return nil
}

// backupName is a name for the backup of a path that no entry has.
func (m *manifest) backupName(rel string) string {
	name := path.Join(filesDir, rel)
	for n := 2; slices.ContainsFunc(m.Entries, func(e *entry) bool { return e.Backup == name }); n++ {
		name = path.Join(filesDir, rel) + "." + strconv.Itoa(n)
	}
	return name
}

// readManifest returns nil without an error if there is no backup.
func (p place) readManifest() (*manifest, error) {
	file := p.at(backupDir + "/" + manifestFile)
	b, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil //nolint:nilnil // no backup is no error
	}
	if err != nil {
		return nil, err
	}
	var m manifest
	err = json.Unmarshal(b, &m)
	if err == nil && slices.Contains(m.Entries, nil) {
		err = errors.New("an entry is empty")
	}
	if err != nil {
		return nil, fmt.Errorf("%s is damaged, so it does not tell what was there before; put it right, or remove %s and what is not wanted in %s: %w",
			file, p.at(stateDir), p.at("bin"), err)
	}
	if m.Format > format {
		return nil, fmt.Errorf("%s is of a newer socket_vmnet2 (%s); use that one", file, m.Version)
	}
	for _, e := range m.Entries {
		if !fs.ValidPath(e.Path) || e.Backup != "" && !fs.ValidPath(e.Backup) || !slices.Contains(targets, e.Path) {
			return nil, fmt.Errorf("%s names %q, which is none of ours; it has been changed by hand", file, e.Path)
		}
	}
	return &m, nil
}

// writeManifest puts it into a directory.
func (p place) writeManifest(dir string, m *manifest) error {
	b, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return err
	}
	return p.write(path.Join(dir, manifestFile), append(b, '\n'), 0o644)
}
