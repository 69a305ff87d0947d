// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"fmt"
	"path/filepath"
)

// Rollback puts everything below the prefix back as it was before the first Install. It leaves alone what somebody else has
// put there since. The report is of use even with an error.
func Rollback(_ context.Context, o Options) (*Report, error) {
	p, err := o.place()
	if err != nil {
		return nil, err
	}
	if !o.DryRun {
		unlock, err := p.lock()
		if err != nil {
			return nil, err
		}
		defer unlock()
	}
	r := &Report{Prefix: p.prefix}
	m, err := p.readManifest()
	if err != nil {
		return r, err
	}
	if m == nil {
		r.note("There is no backup in %s: nothing was installed, or it was rolled back.", filepath.Join(p.prefix, stateDir))
		if o.DryRun {
			return r, nil
		}
		return r, p.abandon() // of an installation that had not begun, or of a rollback that has not ended
	}
	r.Version = m.Version
	restore, err := p.planBack(m, r)
	if err != nil || o.DryRun {
		return r, err
	}
	if err := p.rollback(restore); err != nil {
		return r, fmt.Errorf("%w: not everything is rolled back; do the same again once that is put right: "+
			"%s rollback --prefix=%s can do it if bin has no program any more", err, filepath.Join(p.prefix, backupDir, ownCopy), p.prefix)
	}
	return r, nil
}

// planBack looks at what is there, and whether the backup is as it was made.
func (p place) planBack(m *manifest, r *Report) (restore []*entry, err error) {
	r.Changed = true
	for _, t := range targets {
		e := m.entry(t)
		if e == nil {
			continue
		}
		now, err := look(p.at(t))
		if err != nil {
			return nil, err
		}
		switch {
		case now.equal(e.Before):
			r.add(t, "is as it was")
			continue
		case e.foreign(now):
			r.add(t, "left alone: somebody has put another one there since")
			if e.Backup != "" {
				r.note("The older %s in the backup is given up: what is in its place came after it.", t)
			}
			continue
		case e.Before.Kind == absent:
			r.add(t, "removed; there was none")
		case e.Before.Kind == symlink:
			r.add(t, "the link to %s again", e.Before.Target)
		default:
			r.add(t, "the one that was there before")
		}
		if e.Backup != "" {
			kept, err := look(filepath.Join(p.at(backupDir), e.Backup))
			if err != nil {
				return nil, err
			}
			if !kept.same(e.Before) {
				return nil, fmt.Errorf("%s is not what was backed up (%s, sha256 %s): it was changed or removed since; nothing was changed now",
					filepath.Join(p.at(backupDir), e.Backup), e.Before.Kind, e.Before.Sum)
			}
		}
		restore = append(restore, e)
	}
	return restore, nil
}

// rollback does what was planned.
func (p place) rollback(restore []*entry) error {
	if err := p.tidy(); err != nil {
		return err
	}
	if err := p.sweep(); err != nil {
		return err
	}
	for _, e := range restore {
		if err := p.restore(e); err != nil {
			return err
		}
	}
	if err := p.rename(p.at(backupDir), p.at(backupDir)+".old"); err != nil {
		return err
	}
	return p.abandon()
}

// restore puts back what was at one path.
func (p place) restore(e *entry) error {
	path := p.at(e.Path)
	if e.Before.Kind == absent {
		if err := p.remove(path); err != nil {
			return err
		}
		if !exists(filepath.Dir(path)) {
			return nil
		}
		return p.syncDir(filepath.Dir(path))
	}
	if err := p.mkdirAll(filepath.Dir(path)); err != nil { // somebody has removed it
		return err
	}
	return p.duplicate(filepath.Join(p.at(backupDir), e.Backup), path, e.Before)
}
