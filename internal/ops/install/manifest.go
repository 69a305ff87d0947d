// SPDX-License-Identifier: Apache-2.0

package install

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// format is of the manifest; a higher one is from a newer program.
const format = 2

const (
	manifestFile = backupDir + "/manifest.json"
	filesDir     = backupDir + "/files"
)

// A manifest says what was there and what is put there.
type manifest struct {
	Format  int              `json:"format"`
	Version string           `json:"version"` // of what is put there
	Entries []*entry         `json:"entries"`
	Made    []string         `json:"made"`  // directories, from the root, in the order they are made
	Times   map[string]int64 `json:"times"` // of directories that were there, from the prefix on: others above may have changed since
}

// An entry is one path.
type entry struct {
	Path   string   `json:"path"` // below the prefix
	Before file     `json:"before"`
	Backup string   `json:"backup,omitempty"` // below the backup; empty if nothing was there
	Ours   []string `json:"ours"`             // checksums of what has been put there
}

// mine reports whether a file is one that this package has put there, or one that it could have: a newer release that was
// unpacked over it is no reason to lose what was there before.
func (e *entry) mine(f file) bool {
	return f.Kind == regular && (slices.Contains(e.Ours, f.Sum) || f.own && !f.same(e.Before))
}

// foreign reports whether a file is neither ours nor what was there before.
func (e *entry) foreign(f file) bool { return f.Kind != absent && !e.mine(f) && !f.same(e.Before) }

// readManifest returns nil without an error if there is no backup.
func (p place) readManifest() (*manifest, error) {
	path := p.at(manifestFile)
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, p.orphan()
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
			path, p.at(stateDir), p.at("bin"), err)
	}
	if m.Format > format {
		return nil, fmt.Errorf("%s is of a newer socket_vmnet2 (%s); use that one", path, m.Version)
	}
	for _, e := range m.Entries {
		if !slices.Contains(targets, e.Path) || e.Backup != "" && !fs.ValidPath(e.Backup) {
			return nil, fmt.Errorf("%s names %q, which is none of ours; it has been changed by hand", path, e.Path)
		}
	}
	return &m, nil
}

// orphan finds a file in a backup without a manifest that is not in its place. An interruption leaves none.
func (p place) orphan() error {
	for _, t := range targets {
		now, err := look(p.at(t))
		kept, err2 := look(p.at(filepath.Join(filesDir, t)))
		if err == nil && err2 == nil && kept.Kind != absent && !kept.same(now) {
			return fmt.Errorf("%s is the only copy of what was at %s, and the manifest beside it is missing: put it back, or move it away",
				p.at(filepath.Join(filesDir, t)), p.at(t))
		}
	}
	return nil
}

// writeManifest puts it into the backup.
func (p place) writeManifest(m *manifest) error {
	b, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return err
	}
	return replace(p.at(manifestFile), 0o644, func(w io.Writer) error { _, err := w.Write(append(b, '\n')); return err })
}

// survey begins a manifest with the directories on the way to the programs and the backup.
func (p place) survey() (*manifest, error) {
	m := &manifest{Times: map[string]int64{}}
	var dirs []string
	for dir := filepath.Join(p.prefix, backupDir); dir != "/"; dir = filepath.Dir(dir) {
		dirs = append([]string{dir}, dirs...)
	}
	for _, dir := range append(dirs, filepath.Join(p.prefix, "libexec"), filepath.Join(p.prefix, "bin")) {
		fi, err := os.Lstat(filepath.Join(p.root, dir))
		switch {
		case errors.Is(err, fs.ErrNotExist), err == nil && dir == filepath.Join(p.prefix, backupDir): // of a run that was interrupted
			m.Made = append(m.Made, dir)
		case err != nil:
			return nil, err
		case strings.HasPrefix(dir+"/", p.prefix+"/"):
			m.Times[dir] = fi.ModTime().UnixNano()
		}
	}
	return m, nil
}

// A plan is what an installation will do.
type plan struct {
	manifest *manifest
	first    bool     // there is no backup yet
	fresh    []*entry // what needs a backup
	put      []string // the targets to replace
	old      []string // backups that no entry has any more
}

// plan looks at what is there. m is the manifest, nil for none.
func (p place) plan(m *manifest, s *source, r *Report) (*plan, error) {
	pl := &plan{manifest: m, first: m == nil}
	if pl.first {
		var err error
		if pl.manifest, err = p.survey(); err != nil {
			return nil, err
		}
	}
	pl.manifest.Format, pl.manifest.Version = format, s.version
	for _, t := range targets {
		now, err := look(p.at(t))
		if err != nil {
			return nil, err
		}
		p.target(pl, t, now, s, r)
	}
	r.Changed = len(pl.put) > 0
	if r.Changed {
		r.note("What was there before is kept in %s.", filepath.Join(p.prefix, backupDir))
	} else if pl.first {
		r.note("All of it is there already, byte for byte, and nothing was there to keep: there is nothing to roll back.")
	}
	return pl, nil
}

// target plans for one target, where now is.
func (p place) target(pl *plan, t string, now file, s *source, r *Report) {
	at := slices.IndexFunc(pl.manifest.Entries, func(e *entry) bool { return e.Path == t })
	known := at >= 0
	if !known {
		at = len(pl.manifest.Entries)
		pl.manifest.Entries = append(pl.manifest.Entries, &entry{Path: t, Before: now})
	}
	e := pl.manifest.Entries[at]
	foreign := known && e.foreign(now)
	back := known && now.same(e.Before) && !p.exists(filepath.Join(backupDir, e.Backup)) // by a rollback that was interrupted
	if (!known || foreign || back) && now.Kind != absent {
		name := "files/" + t
		if foreign {
			pl.old, name = append(pl.old, e.Backup), name+"."+now.Sum[:12]
		}
		e.Before, e.Backup = now, name
		pl.fresh = append(pl.fresh, e)
	}
	if !slices.Contains(e.Ours, s.sums[t]) {
		e.Ours = append(e.Ours, s.sums[t])
	}
	if now.Kind == regular && now.Sum == s.sums[t] && now.Mode == 0o755 && (os.Geteuid() != 0 || now.UID == 0 && now.GID == 0) {
		r.add(t, "is there already")
		return
	}
	pl.put = append(pl.put, t)
	switch {
	case foreign:
		r.add(t, "replaced; another one has been put there since, which takes the place of the older one in the backup")
	case now.Kind == absent:
		r.add(t, "new")
	case known && e.mine(now):
		r.add(t, "replaced by %s; the backup stays as it is", s.version)
		r.Update = true
	case now.Kind == symlink:
		r.add(t, "replaced by a real file; the link to %s is in the backup", now.Target)
	default:
		r.add(t, "replaced; the one that was there is in the backup")
	}
}
