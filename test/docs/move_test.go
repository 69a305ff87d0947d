// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// oldVersion is what the program calls itself that is there before a move: ours, since the real one does not run here.
const oldVersion = "v1.2.2"

// A move is a section of MIGRATION.md, followed to the letter.
type move struct {
	heading  string
	before   []string // programs of the old one, below the root
	start    string   // what the reader has running before
	do, back int      // blocks of the section, by number
	checks   []int
	daemon   string // whose version tells
	prefix   string // where install puts what rollback takes away
}

var moves = map[string]move{
	"Lima, lima:": {
		heading: "## Lima: networks that Lima manages", before: []string{"opt/socket_vmnet"}, start: "limactl start default",
		do: 0, checks: []int{1}, back: 2, daemon: "lima", prefix: "opt/socket_vmnet",
	},
	"Lima, socket:, job of make install": {
		heading: "## Lima: a daemon of your own", before: []string{"opt/socket_vmnet"},
		start: "launchctl kickstart -k system/io.github.lima-vm.socket_vmnet; limactl start default", do: 0, checks: nil, back: -1, daemon: "std", prefix: "opt/socket_vmnet",
	},
	"Lima, socket:, job of Homebrew": {
		heading: "## Lima: a daemon of your own", before: []string{"opt/homebrew/opt/socket_vmnet"}, start: "brew services start socket_vmnet; limactl start default",
		do: 1, checks: []int{2}, back: 3, daemon: "brew", prefix: "opt/socket_vmnet",
	},
	"minikube": {
		heading: "## minikube", before: []string{"opt/homebrew/opt/socket_vmnet"}, start: "brew services start socket_vmnet; minikube start",
		do: 0, checks: nil, back: 2, daemon: "brew", prefix: "opt/socket_vmnet",
	},
	"Colima": {
		heading: "## Colima", before: []string{"opt/colima"}, start: "colima start --network-address",
		do: 0, checks: []int{1}, back: 2, daemon: "colima", prefix: "opt/colima",
	},
}

// TestMoves follows MIGRATION.md for a Lima, a minikube and a Colima set-up: over, with the checks of the page, and back. The tools
// are played, as far as they start daemons and attach machines; what is installed, rolled back and served by is real.
func TestMoves(t *testing.T) {
	old := filepath.Join(box.dir, "old")
	cmd := exec.Command("go", "build", "-ldflags", "-X github.com/socket-vmnet2/socket_vmnet2/internal/compat.Version="+oldVersion, "-o", old, "./cmd/socket_vmnet2")
	cmd.Dir, cmd.Env = root, append(os.Environ(), "CGO_ENABLED=0")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	text := read(t, "MIGRATION.md")
	for name, m := range moves {
		t.Run(name, func(t *testing.T) {
			blocks := section(t, text, m.heading)
			w := newWorld(t, old, m.before)
			w.sh(m.start)
			assert.Equal(t, oldVersion, w.serving(m.daemon))
			before := w.tree(m.prefix)

			w.sh(blocks[m.do].text)
			assert.NotEqual(t, oldVersion, w.serving(m.daemon), "ours serves")
			for _, i := range m.checks {
				assert.NotEmpty(t, w.sh(blocks[i].text), "a check shows something")
			}
			if m.back < 0 { // the page says it in a sentence
				w.sh("sudo make rollback; " + m.start)
			} else {
				w.sh(blocks[m.back].text)
			}
			assert.Equal(t, oldVersion, w.serving(m.daemon), "theirs serves again")
			assert.Equal(t, before, w.tree(m.prefix), "byte for byte")
		})
	}
}

// TestNewCluster is the other way of the section on minikube, and the rest of that on Lima.
func TestNewCluster(t *testing.T) {
	text := read(t, "MIGRATION.md")
	w := newWorld(t, "", nil)
	w.sh("sudo make install.compat")
	w.sh(section(t, text, "## minikube")[1].text)
	assert.NotEmpty(t, w.serving("std"))
	w.sh("socket_vmnet2 service uninstall; limactl start default")
	w.sh(section(t, text, "## Lima: networks that Lima manages")[4].text)
}

// section is the shell blocks under a heading.
func section(t *testing.T, text, heading string) (all []block) {
	t.Helper()
	_, rest, ok := strings.Cut(text, "\n"+heading+"\n")
	require.True(t, ok, "no %q", heading)
	rest, _, _ = strings.Cut(rest, "\n## ")
	for _, b := range blocksOf("MIGRATION.md", rest) {
		if b.language == "sh" {
			all = append(all, b)
		}
	}
	require.NotEmpty(t, all)
	return all
}

// A world is a machine as far as a move needs it.
type world struct {
	t    *testing.T
	dir  string
	home string
}

func newWorld(t *testing.T, old string, prefixes []string) *world {
	t.Helper()
	dir, err := os.MkdirTemp(box.dir, "world")
	require.NoError(t, err)
	w := &world{t: t, dir: dir, home: filepath.Join(dir, "home")}
	require.NoError(t, os.Chmod(dir, 0o755))
	for _, d := range []string{"home", "run", "home/.lima/_networks"} {
		require.NoError(t, os.MkdirAll(filepath.Join(dir, d), 0o777))
		require.NoError(t, os.Chmod(filepath.Join(dir, d), 0o777))
	}
	for _, p := range prefixes {
		bin := filepath.Join(dir, "root", p, "bin")
		require.NoError(t, os.MkdirAll(bin, 0o755))
		for _, name := range []string{"socket_vmnet", "socket_vmnet_client"} {
			b, err := os.ReadFile(old)
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(filepath.Join(bin, name), b, 0o755))
		}
	}
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "root"), 0o755))
	t.Cleanup(w.close)
	return w
}

// paths are those of the page, and what stands for them.
func (w *world) paths() *strings.Replacer {
	return strings.NewReplacer(
		"/opt/socket_vmnet/bin/socket_vmnet2", "socket_vmnet2", "/opt/colima/bin/", w.dir+"/root/opt/colima/bin/",
		"/opt/socket_vmnet/bin/socket_vmnet_client", w.dir+"/root/opt/socket_vmnet/bin/socket_vmnet_client",
		"/private/var/run/lima/socket_vmnet.shared", w.dir+"/run/lima", "/opt/homebrew/var/run/socket_vmnet", w.dir+"/run/brew", "/var/run/socket_vmnet", w.dir+"/run/std",
	)
}

// sh runs a block of the page in a shell.
func (w *world) sh(text string) string {
	w.t.Helper()
	cmd := exec.Command("/bin/sh", "-euc", w.paths().Replace(text))
	cmd.Dir = w.home
	cmd.Env = append(os.Environ(), worldEnv+"="+w.dir, "HOME="+w.home, "PATH="+filepath.Join(box.dir, "actors")+":"+os.Getenv("PATH"), "BOX="+box.dir)
	out := &output{}
	cmd.Stdout, cmd.Stderr = out, out
	require.NoError(w.t, cmd.Run(), "%s\n%s", text, out)
	return out.String()
}

// serving is the version of the program that serves a socket.
func (w *world) serving(name string) string {
	b, err := os.ReadFile(filepath.Join(w.dir, "run", name+".version"))
	require.NoError(w.t, err)
	return strings.TrimSpace(string(b))
}

// tree is all that lies below a path of the root.
func (w *world) tree(path string) map[string]string {
	all := map[string]string{}
	_ = filepath.WalkDir(filepath.Join(w.dir, "root", path), func(p string, d os.DirEntry, err error) error {
		if err != nil {
			return nil //nolint:nilerr // nothing there is a tree as well
		}
		info, err := d.Info()
		require.NoError(w.t, err)
		entry := info.Mode().String()
		if info.Mode().IsRegular() {
			b, err := os.ReadFile(p)
			require.NoError(w.t, err)
			entry += " " + info.ModTime().String() + " " + string(b)
		}
		all[p] = entry
		return nil
	})
	return all
}

// close ends what runs.
func (w *world) close() {
	for _, name := range []string{"lima", "std", "brew", "colima"} {
		_ = stopDaemon(w.dir, name)
	}
}
