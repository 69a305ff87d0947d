// SPDX-License-Identifier: Apache-2.0

package setup

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// format is of the manifest; a higher one is from a newer program.
const format = 2

const (
	manifestFile = backupDir + "/manifest.json"
	filesDir     = backupDir + "/files"
)

// A manifest says what was there and what is put there.
type manifest struct {
	Format  int      `json:"format"`
	Version string   `json:"version"` // of what is put there
	Entries []*entry `json:"entries"`
	Made    []string `json:"made"` // directories, from the root, in the order they are made

	update bool // one of our own programs is replaced by another version
}

// An entry is one path.
type entry struct {
	Path   string   `json:"path"`   // below the prefix
	Before file     `json:"before"` // it is in the backup, unless nothing was there
	Ours   []string `json:"ours"`   // checksums of what has been put there

	save, put bool   // what is there is going to the backup, and ours in its place; rolling back, what was there is put back
	what      string // is going to be done
}

// backup is where what was at a path is kept.
func (p place) backup(e *entry) string { return p.at(filepath.Join(filesDir, e.Path)) }

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
		if !slices.Contains(targets, e.Path) {
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

// missing are the directories on the way to the programs and the backup that are not there yet.
func (p place) missing() (dirs []string) {
	for _, t := range append([]string{ownCopy}, targets...) {
		for dir := filepath.Join(p.prefix, filepath.Dir(t)); dir != "/"; dir = filepath.Dir(dir) {
			// The backup's may be of a run that was interrupted.
			if _, err := os.Lstat(filepath.Join(p.root, dir)); errors.Is(err, fs.ErrNotExist) || dir == filepath.Join(p.prefix, backupDir) {
				dirs = append(dirs, dir)
			}
		}
	}
	slices.Sort(dirs)
	return slices.Compact(dirs)
}

// plan looks at what is there, and notes in the manifest what an installation will do. m is the manifest so far, nil for none.
func (p place) plan(m *manifest, s *source) (*manifest, error) {
	if m == nil {
		m = &manifest{Made: p.missing()}
	}
	m.Format, m.Version = format, s.version
	for _, t := range targets {
		now, err := look(p.at(t))
		if err != nil {
			return nil, err
		}
		at := slices.IndexFunc(m.Entries, func(e *entry) bool { return e.Path == t })
		if at < 0 {
			at = len(m.Entries)
			m.Entries = append(m.Entries, &entry{Path: t, Before: now, save: now.Kind != absent})
		}
		e := m.Entries[at]
		update := e.mine(now)
		p.planEntry(e, now, sum(s.files[t]))
		if update && e.put {
			e.what, m.update = fmt.Sprintf("replaced by %s; the backup stays as it is", s.version), true
		}
	}
	return m, nil
}

// planEntry plans for one path, where now is, and ours shall be.
func (p place) planEntry(e *entry, now file, ours string) {
	foreign := e.foreign(now)
	if _, err := os.Lstat(p.backup(e)); foreign || now.same(e.Before) && err != nil { // else it is in the backup; not after a rollback that was interrupted
		e.Before, e.save = now, now.Kind != absent
	}
	if !slices.Contains(e.Ours, ours) {
		e.Ours = append(e.Ours, ours)
	}
	e.put = now.Kind != regular || now.Sum != ours || now.mode != 0o755 || os.Geteuid() == 0 && (now.uid != 0 || now.gid != 0)
	switch {
	case !e.put:
		e.what = "is there already"
	case foreign:
		e.what = "replaced; another one has been put there since, which takes the place of the older one in the backup"
	case now.Kind == absent:
		e.what = "new"
	case now.Kind == symlink:
		e.what = "replaced by a real file; the link to " + now.Target + " is in the backup"
	default:
		e.what = "replaced; the one that was there is in the backup"
	}
}

// Rollback puts everything below the prefix back as it was before the first Install. It leaves alone what others have put there
// since.
func Rollback(ctx context.Context, o Options) error {
	p, lock, err := o.begin()
	if err != nil {
		return err
	}
	defer lock.Close()
	m, err := p.readManifest()
	switch {
	case err != nil:
		return err
	case m == nil:
		fmt.Fprintf(o.Out, "There is no backup in %s: nothing was installed, or it was rolled back.\n", filepath.Join(p.prefix, stateDir))
		if o.DryRun || !p.exists(backupDir) {
			return nil
		}
		// What an interrupted run has left.
		return p.forget(&manifest{Made: []string{filepath.Join(p.prefix, stateDir)}})
	}
	if err := p.planBack(m); err != nil {
		return err
	}
	o.announce(m, "Roll back below %s", p.prefix)
	for _, e := range m.Entries {
		if e.put && err == nil && !o.DryRun {
			err = p.restore(e)
		}
	}
	if err == nil && !o.DryRun {
		err = p.forget(m)
	}
	if err != nil {
		return fmt.Errorf("%w: not everything is rolled back; do the same again once that is put right: "+
			"%s rollback --prefix=%s can do it if bin has no program any more", err, filepath.Join(p.prefix, ownCopy), p.prefix)
	}
	_, err = fmt.Fprintf(o.Out, "\nNow\n%s", p.restartLines(ctx))
	return err
}

// planBack looks at what is there, and whether the backup is as it was made.
func (p place) planBack(m *manifest) error {
	for _, e := range m.Entries {
		now, err := look(p.at(e.Path))
		if err != nil {
			return err
		}
		kept, err := look(p.backup(e))
		if err != nil {
			return err
		}
		switch {
		case e.foreign(now) && e.Before.Kind != absent:
			e.what = "left alone: another one has been put there since, and the older one in the backup is given up"
			continue
		case e.foreign(now):
			e.what = "left alone: another one has been put there since"
			continue
		case now.same(e.Before) && kept.Kind == absent: // nothing, or by a rollback that was interrupted
			e.what = "is as it was"
			continue
		case !kept.same(e.Before):
			return fmt.Errorf("%s is not what was backed up (%s, sha256 %s): it was changed or removed since; nothing was changed now",
				p.backup(e), e.Before.Kind, e.Before.Sum)
		case e.Before.Kind == absent:
			e.what = "removed; there was none"
		case e.Before.Kind == symlink:
			e.what = "the link to " + e.Before.Target + " again"
		default:
			e.what = "the one that was there before"
		}
		e.put = true
	}
	return nil
}

// restore puts back what was at one path: the very file that was there.
func (p place) restore(e *entry) error {
	path := p.at(e.Path)
	if e.Before.Kind == absent {
		return removeFile(path)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil { // it may have been removed since
		return err
	}
	return os.Rename(p.backup(e), path)
}

// forget removes the backup and, as far as they are empty, the directories that were made.
func (p place) forget(m *manifest) error {
	for _, t := range targets {
		_ = os.Remove(tempName(p.at(t))) // of a run that was interrupted
	}
	// The manifest and the program go last: they are what an interrupted rollback is ended with.
	for _, rel := range []string{filesDir, backupDir} {
		if err := os.RemoveAll(p.at(rel)); err != nil {
			return err
		}
	}
	for _, dir := range slices.Backward(m.Made) {
		_ = os.Remove(filepath.Join(p.root, dir)) // one with other files in it stays
	}
	return nil
}
