// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/socket-vmnet2/socket_vmnet2/internal/find"
)

// FuzzFiles puts anything into the files that are read: a plan comes of it, and nothing in it moves the cursor.
func FuzzFiles(f *testing.F) {
	f.Add([]byte(limaYAML), []byte("networks: [{lima: shared}, {socket: /x}]"), []byte(list("l", "/opt/socket_vmnet/bin/socket_vmnet", "/s")), []byte(`{"Driver":"qemu2"}`))
	f.Add([]byte("paths: &a {socketVMNet: *a}"), []byte("networks: [{socket: \"\x1b[2J\"}]"), []byte("bplist00\xd1\x01\x02"), []byte("[]"))
	f.Add([]byte("group: [[[["), []byte("? "), []byte("{Label=socket_vmnet;}"), []byte("{"))
	root := f.TempDir()
	paths := []string{
		"/Users/a/.lima/_config/networks.yaml", "/Users/a/.lima/i/lima.yaml", "/Library/LaunchDaemons/socket_vmnet.plist",
		"/Users/a/.minikube/profiles/p/config.json", "/opt/socket_vmnet/bin/socket_vmnet",
	}
	for _, p := range paths {
		require.NoError(f, os.MkdirAll(filepath.Join(root, filepath.Dir(p)), 0o755))
	}
	f.Fuzz(func(t *testing.T, networks, instance, plist, profile []byte) {
		for i, b := range [][]byte{networks, instance, plist, profile, append([]byte("#!"), instance...)} {
			require.NoError(t, os.WriteFile(filepath.Join(root, paths[i]), b[:min(len(b), 4<<10)], 0o755)) //nolint:gosec // one is a program
		}
		p := Find(t.Context(), System{Root: root, Homes: []string{"/Users/a"}, GOOS: "darwin", Program: "/p"})
		var text bytes.Buffer
		require.NoError(t, p.WriteText(&text))
		for _, r := range text.String() {
			if r < ' ' && r != '\n' || r == 0x7f {
				t.Fatalf("%q is in the text", r)
			}
		}
		b, err := json.Marshal(p)
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(b, &Plan{}))
	})
}

// FuzzPrograms has ps and lsof say anything.
func FuzzPrograms(f *testing.F) {
	f.Add("1 0 0 socket_vmnet /s\n2 1 1 qemu-system-x -name", "p1\nf1\nd1\nn->2\np2\nf1\nd2\nn->1\n")
	f.Add("-1 0 0 \x00\n 1 1 1", "f\nd\nn\np\n\n")
	f.Fuzz(func(t *testing.T, ps, lsof string) {
		for _, p := range find.ParsePS(ps) {
			require.NotEmpty(t, p.Args)
			parseArgs(p.Args)
			vmName(p)
			qemuAttach(p.Args, "/s")
		}
		connected(lsof, []Daemon{{PID: 1}, {PID: 2}})
	})
}
