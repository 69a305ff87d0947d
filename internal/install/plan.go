// SPDX-License-Identifier: Apache-2.0

package install

import (
	"os"
	"path/filepath"
	"slices"
)

// A plan is what an installation will do.
type plan struct {
	manifest *manifest
	first    bool            // there is no backup yet
	fresh    map[string]file // what needs a backup, by path
	put      []string        // the targets to replace
	old      []string        // backups that no entry has any more
}

// plan looks at what is there.
func (p place) plan(s *source, r *Report) (*plan, error) {
	m, err := p.readManifest()
	if err != nil {
		return nil, err
	}
	pl := &plan{manifest: m, fresh: map[string]file{}}
	if m == nil {
		pl.first = true
		pl.manifest = &manifest{Format: format}
	}
	pl.manifest.Prefix, pl.manifest.Version = p.prefix, s.version
	for _, t := range targets {
		if err := p.planOne(pl, s, t, r); err != nil {
			return nil, err
		}
	}
	r.Changed = len(pl.put) > 0 || !pl.first && !pl.manifest.Done
	if r.Changed {
		r.note("What was there before is kept in %s.", filepath.Join(p.prefix, backupDir))
	} else if pl.first {
		r.note("All of it is there already, byte for byte, and nothing was there to keep: there is nothing to roll back.")
	}
	if len(pl.put) > 0 {
		pl.manifest.Done = false
	}
	return pl, nil
}

// planOne looks at one path.
func (p place) planOne(pl *plan, s *source, t string, r *Report) error {
	now, err := look(p.at(t))
	if err != nil {
		return err
	}
	e := pl.manifest.entry(t)
	known := e != nil
	if !known {
		e = &entry{Path: t}
		pl.manifest.Entries = append(pl.manifest.Entries, e)
	}
	foreign := known && e.foreign(now)
	if (!known || foreign) && now.Kind != absent {
		if e.Backup != "" {
			pl.old = append(pl.old, e.Backup)
		}
		e.Before, e.Backup = now, pl.manifest.backupName(t)
		pl.fresh[t] = now
	} else if !known {
		e.Before = now
	}
	e.Ours = append(slices.DeleteFunc(e.Ours, func(sum string) bool { return sum == s.sums[t] }), s.sums[t])
	if now.Kind == regular && now.Sum == s.sums[t] && now.Mode == 0o755 && (os.Geteuid() != 0 || now.UID == 0 && now.GID == 0) {
		r.add(t, "is there already")
		return nil
	}
	pl.put = append(pl.put, t)
	switch {
	case foreign:
		r.add(t, "replaced; somebody has put another one there since, which takes the place of the older one in the backup")
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
	return nil
}
