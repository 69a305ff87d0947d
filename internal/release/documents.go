// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

const doc = prefix + "share/doc/socket_vmnet/"

// A shelf is where files of the repository that are no programs go, the same place as with make install.doc. Their names stay
// unless it says another.
type shelf struct {
	files string // a pattern for filepath.Glob
	dir   string // in the archive
	name  string // of the only file, if it is another there
	goos  string // empty: everywhere
}

var shelves = []shelf{
	{files: "README.md", dir: doc},
	{files: "MIGRATION.md", dir: doc},
	{files: "LICENSE", dir: doc},
	{files: "CHANGELOG.md", dir: doc},
	{files: "etc/entitlements.plist", dir: doc, goos: "darwin"},
	{files: "etc/launchd/*.plist", dir: doc + "launchd/", goos: "darwin"},
	{files: "etc/sudoers.d/*", dir: doc + "etc_sudoers.d/", goos: "darwin"}, // socket_vmnet's name for it
	{files: "etc/systemd/*.service", dir: doc + "systemd/", goos: "linux"},
	{files: "etc/systemd/*.socket", dir: doc + "systemd/", goos: "linux"},
	{files: "etc/systemd/user/*", dir: doc + "systemd/user/", goos: "linux"},
	{files: "docs/man/*.1", dir: prefix + "share/man/man1/"},
	{files: "docs/man/*.8", dir: prefix + "share/man/man8/"},
	{files: "etc/completions/socket_vmnet2.bash", dir: prefix + "share/bash-completion/completions/", name: "socket_vmnet2"},
	{files: "etc/completions/socket_vmnet2.bash", dir: prefix + "share/bash-completion/completions/", name: "socket_vmnet"},
	{files: "etc/completions/socket_vmnet2.bash", dir: prefix + "share/bash-completion/completions/", name: "socket_vmnet_client"},
	{files: "etc/completions/_socket_vmnet2", dir: prefix + "share/zsh/site-functions/"},
}

// documents are what a system's archives have besides the programs: the same for each architecture.
func documents(goos string) (entries []entry, err error) {
	for _, s := range shelves {
		if s.goos != "" && s.goos != goos {
			continue
		}
		files, err := filepath.Glob(s.files)
		if err != nil {
			return nil, err
		}
		if len(files) == 0 {
			return nil, fmt.Errorf("nothing matches %s, which the archives have", s.files)
		}
		for _, file := range files {
			b, err := os.ReadFile(file)
			if err != nil {
				return nil, err
			}
			name := s.name
			if name == "" {
				name = filepath.Base(file)
			}
			entries = append(entries, entry{s.dir + name, 0o644, b})
		}
	}
	return entries, nil
}

// archive makes one archive: a target's programs, its system's documents and the licences of what is linked in.
func (r *release) archive(ctx context.Context, on target, licences []byte) (name string, packed []byte, err error) {
	entries, err := r.programs(ctx, on)
	if err != nil {
		return "", nil, fmt.Errorf("%s: %w", on.name, err)
	}
	documents, err := documents(on.goos)
	if err != nil {
		return "", nil, err
	}
	entries = append(append(entries, documents...), entry{doc + "LICENSE.third-party", 0o644, licences})
	packed, err = archive(entries, r.time)
	return fmt.Sprintf("socket_vmnet-%s-%s.tar.gz", strings.TrimPrefix(r.version, "v"), on.name), packed, err
}
