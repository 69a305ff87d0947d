// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
)

// Rollback puts everything below the prefix back as it was before the first Install. It leaves alone what others have put there
// since. The report is of use even with an error.
func Rollback(_ context.Context, o Options) (*Report, error) {
	p, lock, err := o.begin()
	if err != nil {
		return nil, err
	}
	defer lock.Close()
	r := &Report{Prefix: p.prefix}
	m, err := p.readManifest()
	if err != nil {
		return r, err
	}
	if m == nil {
		r.note("There is no backup in %s: nothing was installed, or it was rolled back.", filepath.Join(p.prefix, stateDir))
		if o.DryRun || !p.exists(backupDir) {
			return r, nil
		}
		// What an interrupted run has left.
		return r, p.forget(&manifest{Made: []string{filepath.Join(p.prefix, stateDir)}})
	}
	r.Version, r.Changed = m.Version, true
	restore, err := p.planBack(m, r)
	if err != nil || o.DryRun {
		return r, err
	}
	for _, e := range restore {
		if err == nil {
			err = p.restore(e)
		}
	}
	if err == nil {
		err = p.forget(m)
	}
	if err != nil {
		return r, fmt.Errorf("%w: not everything is rolled back; do the same again once that is put right: "+
			"%s rollback --prefix=%s can do it if bin has no program any more", err, filepath.Join(p.prefix, ownCopy), p.prefix)
	}
	return r, nil
}

// planBack looks at what is there, and whether the backup is as it was made.
func (p place) planBack(m *manifest, r *Report) (restore []*entry, err error) {
	for _, e := range m.Entries {
		now, err := look(p.at(e.Path))
		if err != nil {
			return nil, err
		}
		switch {
		case now.equal(e.Before):
			r.add(e.Path, "is as it was")
			continue
		case e.foreign(now):
			r.add(e.Path, "left alone: another one has been put there since")
			if e.Backup != "" {
				r.note("The older %s in the backup is given up: what is in its place came after it.", e.Path)
			}
			continue
		case e.Before.Kind == absent:
			r.add(e.Path, "removed; there was none")
		case e.Before.Kind == symlink:
			r.add(e.Path, "the link to %s again", e.Before.Target)
		default:
			r.add(e.Path, "the one that was there before")
		}
		if e.Backup != "" {
			path := p.at(filepath.Join(backupDir, e.Backup))
			if kept, err := look(path); err != nil {
				return nil, err
			} else if !kept.same(e.Before) {
				return nil, fmt.Errorf("%s is not what was backed up (%s, sha256 %s): it was changed or removed since; nothing was changed now",
					path, e.Before.Kind, e.Before.Sum)
			}
		}
		restore = append(restore, e)
	}
	return restore, nil
}

// restore puts back what was at one path: the very file that was there.
func (p place) restore(e *entry) error {
	path := p.at(e.Path)
	if e.Before.Kind == absent {
		return removeFile(path)
	}
	if err := mkdirAll(filepath.Dir(path)); err != nil { // it may have been removed since
		return err
	}
	if err := os.Rename(p.at(filepath.Join(backupDir, e.Backup)), path); err != nil {
		return err
	}
	if now, err := look(path); err != nil || now.equal(e.Before) {
		return err
	}
	return setAttributes(path, e.Before)
}
