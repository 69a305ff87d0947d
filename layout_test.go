// SPDX-License-Identifier: Apache-2.0

// Package layout_test keeps the rules of the repository: who imports whom, where a third-party module may appear, sizes,
// comments, licences, and that the Linux binaries are static. Each rule is shown to catch what it is for in
// layout_rules_test.go.
package layout_test

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// module is the path in go.mod.
const module = "github.com/socket-vmnet2/socket_vmnet2"

// imports is the import table of our own packages: what the code of each one, tests apart, may import. Imports go one
// way: contracts (frame, vnet) know only each other; bridge and usernet know no clients; link and perclient know no back
// end; watch, state and compat are leaves that know contracts at most; daemon wires, and cmd
// has the commands.
//
// Tests may import any internal package, vnettest above all.
var imports = map[string][]string{
	"internal/frame":  {},
	"internal/vnet":   {"internal/frame"},
	"internal/gate":   {},
	"internal/faults": {},
	"internal/ifid":   {},
	"internal/status": {},
	"internal/render": {"internal/printable", "internal/status"},

	"internal/metrics": {"internal/printable", "internal/status"},

	"internal/antispoof":    {"internal/frame", "internal/vnet"},
	"internal/bridge":       {"internal/frame", "internal/gate", "internal/vnet"},
	"internal/usernet":      {"internal/frame", "internal/gateway", "internal/gateway/dhcp", "internal/ifid", "internal/printable", "internal/state", "internal/status", "internal/vnet", "internal/bridge"},
	"internal/gateway":      {"internal/faults", "internal/frame", "internal/gateway/dhcp", "internal/gateway/dns", "internal/ifid", "internal/vnet"},
	"internal/gateway/dhcp": {"internal/state"},
	"internal/gateway/dns":  {},

	"internal/vmnet":     {"internal/faults", "internal/frame", "internal/gate", "internal/ifid", "internal/printable", "internal/vnet", "internal/bridge", "internal/vmnet/api", "internal/vmnet/pkt"},
	"internal/vmnet/api": {"internal/frame", "internal/vnet", "internal/vmnet/pkt"},
	"internal/vmnet/pkt": {"internal/frame"},
	"internal/vmnet/ffi": {"internal/vmnet/api", "internal/vmnet/pkt", "internal/vnet"},
	"internal/darwinapi": {},

	"internal/link":     {"internal/faults", "internal/frame", "internal/mmsg"},
	"internal/mmsg":     {"internal/darwinapi", "internal/frame"},
	"internal/peercred": {},
	"internal/perclient": {
		"internal/faults", "internal/frame", "internal/vnet", "internal/link", "internal/passing/proto", "internal/peercred", "internal/status", "internal/watch",
	},
	"internal/unixgram": {"internal/faults", "internal/frame", "internal/link", "internal/mmsg"},
	"internal/passing": {
		"internal/faults", "internal/frame", "internal/link", "internal/mmsg", "internal/passing/proto", "internal/peercred", "internal/perclient", "internal/unixgram",
		"internal/status", "internal/vnet",
	},
	"internal/passing/proto":  {},
	"internal/passing/client": {"internal/passing/proto"},

	"internal/watch":          {},
	"internal/health":         {"internal/freenet", "internal/printable", "internal/status", "internal/watch"},
	"internal/hostfs":         {"internal/printable"},
	"internal/state":          {"internal/hostfs"},
	"internal/handoff":        {},
	"internal/upgrade":        {"internal/handoff", "internal/hostfs", "internal/printable"},
	"internal/printable":      {},
	"internal/control":        {"internal/handoff", "internal/peercred", "internal/status"},
	"internal/capture":        {"internal/frame", "internal/printable"},
	"internal/capture/read":   {},
	"internal/cmdline":        {"internal/printable"},
	"internal/compat":         {"internal/cmdline", "internal/vnet", "internal/compat/errtext", "internal/handoff"},
	"internal/compat/errtext": {},
	"internal/lowfd":          {},
	"internal/inherit":        {"internal/darwinapi"},
	"internal/rundir":         {"internal/compat", "internal/handoff"},

	"internal/fakeguest": {"internal/frame", "internal/vnet"},
	"internal/selftest":  {"internal/codesign", "internal/fakeguest", "internal/frame", "internal/vnet"},
	"internal/vnettest":  {"internal/fakeguest", "internal/frame", "internal/passing/client", "internal/passing/proto", "internal/vnet"},

	"internal/freenet": {},
	"internal/find":    {"internal/compat", "internal/inherit", "internal/hostfs", "internal/printable"},
	"internal/doctor": {
		"internal/codesign", "internal/control", "internal/find", "internal/freenet", "internal/hostfs", "internal/printable", "internal/status",
	},
	"internal/codesign": {},
	"internal/install":  {"internal/hostfs"},
	"internal/manual":   {"internal/cmdline"},

	"tools/release": {"internal/codesign"},

	"internal/service": {"internal/compat", "internal/hostfs", "internal/printable", "internal/vnet"},

	"internal/daemon": {
		"internal/antispoof", "internal/capture", "internal/compat", "internal/control", "internal/darwinapi", "internal/frame", "internal/freenet",
		"internal/gateway", "internal/handoff", "internal/health", "internal/inherit", "internal/link", "internal/metrics",
		"internal/passing", "internal/peercred", "internal/perclient", "internal/printable", "internal/rundir", "internal/state", "internal/status",
		"internal/unixgram", "internal/upgrade", "internal/usernet", "internal/vmnet", "internal/vmnet/api", "internal/vmnet/ffi", "internal/vnet",
	},

	"cmd/socket_vmnet2": {
		"internal/capture", "internal/capture/read", "internal/cmdline", "internal/compat", "internal/control",
		"internal/daemon", "internal/doctor", "internal/find", "internal/freenet", "internal/gateway", "internal/install", "internal/lowfd",
		"internal/passing/client", "internal/passing/proto", "internal/printable", "internal/render", "internal/selftest", "internal/service",
		"internal/status", "internal/upgrade", "internal/vnet",
	},
	"cmd/socket_vmnet_client": {"internal/compat/errtext", "internal/lowfd"},
	"cmd/vmnet-helper":        {"internal/cmdline", "internal/compat", "internal/passing/client", "internal/passing/proto"},

	"test/asmac":        {"test/machrun", "test/vmnetsim"},
	"test/bench":        {"test/bench/rig", "test/lab"},
	"test/bench/rig":    {"internal/fakeguest", "test/lab", "test/vmnetsim"},
	"test/cbuild":       {},
	"test/e2e":          {},
	"test/e2e/demo":     {"test/lab"},
	"test/lab/guest":    {"test/lab/sequence"},
	"test/lab":          {"internal/frame", "internal/state", "test/lab/sequence"},
	"test/lab/labtest":  {"test/lab", "test/vmnetsim"},
	"test/lab/sequence": {},
	"test/formula":      {},
	"test/soak": {
		"internal/fakeguest", "internal/frame", "internal/vnettest", "test/lab", "test/soak/ledger", "test/vmnetsim",
	},
	"test/soak/ledger": {},
	"test/machrun":     {"internal/frame", "test/cbuild", "test/vmnetsim"},
	"test/machrun/cmd": {"test/machrun", "test/vmnetsim"},
	"test/perf":        {"internal/peercred", "test/lab"},
	"test/vzguest":     {},
	"test/reconnect":   {"test/lab/sequence"},
	"test/vmnetsim":    {"test/cbuild"},
}

// A use says where a third-party module may be imported: by code, and beyond that by tests.
type use struct {
	licence string
	code    []string // packages; "*" for all
	tests   []string
}

// direct are the modules that go.mod and tools/release/go.mod require directly.
var direct = map[string]use{
	"github.com/urfave/cli/v2": {"MIT", []string{"internal/cmdline", "internal/compat", "internal/manual", "cmd/socket_vmnet2"}, nil},
	"golang.org/x/sys": {"BSD-3-Clause", []string{
		"internal/doctor", "internal/install", "internal/link", "internal/mmsg", "internal/peercred", "internal/unixgram", "internal/compat", "internal/handoff", "internal/upgrade", "internal/inherit", "internal/rundir", "internal/service", "internal/state", "internal/vmnet/ffi", "internal/darwinapi", "internal/daemon",
		"cmd/socket_vmnet2", "cmd/socket_vmnet_client", "cmd/vmnet-helper", "internal/passing", "internal/passing/proto", "internal/passing/client", "internal/gateway", "internal/usernet",
		"test/lab/guest", "test/lab", "test/soak", "test/vzguest",
	}, []string{"*"}},
	"gvisor.dev/gvisor":            {"Apache-2.0", []string{"internal/gateway"}, []string{"internal/fakeguest"}},
	"github.com/Code-Hex/vz/v3":    {"MIT", []string{"test/vzguest"}, nil},
	"github.com/ebitengine/purego": {"Apache-2.0", []string{"internal/vmnet/ffi", "internal/darwinapi"}, nil},
	"github.com/blacktop/go-macho": {"MIT", []string{"tools/release"}, nil},
	"github.com/insomniacslk/dhcp": {
		"BSD-3-Clause",
		[]string{"internal/gateway/dhcp", "internal/fakeguest", "test/soak"},
		[]string{"internal/gateway", "internal/selftest", "cmd/socket_vmnet2"},
	},
	"github.com/prometheus/client_golang": {
		"Apache-2.0", []string{"internal/metrics"}, nil,
	},
	"github.com/kardianos/service": {"Zlib", []string{"internal/service"}, nil},
	"github.com/prometheus/procfs": {"Apache-2.0", []string{"internal/find"}, nil},
	"github.com/goccy/go-yaml":     {"MIT", []string{"internal/find"}, []string{"*"}},
	"howett.net/plist":             {"BSD-3-Clause", []string{"internal/find", "internal/service", "tools/release"}, []string{"*"}},
	"golang.org/x/term":            {"BSD-3-Clause", []string{"cmd/socket_vmnet2"}, nil},
	"golang.org/x/net":             {"BSD-3-Clause", []string{"internal/capture", "internal/freenet"}, nil},
	"golang.org/x/time":            {"BSD-3-Clause", []string{"internal/control"}, nil},
	"github.com/gopacket/gopacket": {"BSD-3-Clause", []string{"internal/capture", "internal/capture/read"}, []string{"cmd/socket_vmnet2"}},
	"github.com/miekg/dns":         {"BSD-3-Clause", []string{"internal/gateway/dns"}, []string{"internal/gateway", "cmd/socket_vmnet2"}},
	"github.com/stretchr/testify":  {"MIT", []string{"internal/vnettest"}, []string{"*"}},
	"go.uber.org/goleak":           {"MIT", []string{"internal/vnettest"}, []string{"*"}},
}

// skips are the only places where a test may skip, by file and function, with what it needs. CI has all of it.
var skips = map[string]string{
	"cmd/socket_vmnet_client/main_test.go: TestPermissionDenied":        "root, to become a user without access",
	"cmd/socket_vmnet2/exec_test.go: TestExecPermission":                "root, to become a user without access",
	"cmd/socket_vmnet2/given_test.go: needRoot":                         "root, to become another user",
	"cmd/vmnet-helper/fake_test.go: TestSudo":                           "root, to become another user",
	"internal/capture/compile_test.go: tcpdump":                         "tcpdump, which test/e2e/setup.sh gets",
	"internal/compat/differential_test.go: reference":                   "gcc, for the C library's getopt_long",
	"internal/compat/errtext/errtext_test.go: TestAgainstC":             "gcc, for the C library's strerror; darwin: libSystem",
	"internal/compat/pidfile_test.go: needRoot":                         "root, to become another user",
	"internal/rundir/rundir_test.go: needRoot":                          "root, to become another user",
	"internal/inherit/inherit_test.go: TestRefused":                     "darwin: no SOCK_SEQPACKET for unix sockets",
	"internal/passing/adopt_test.go: openFor":                           "darwin: no SOCK_SEQPACKET for unix sockets",
	"internal/unixgram/trust_test.go: TestUntrusted":                    "darwin: no abstract names",
	"internal/service/lint_test.go: tool":                               "systemd-analyze and visudo, which test/e2e/setup.sh gets",
	"internal/service/rig_linux_test.go: needRig":                       "root, for namespaces, and systemd, which test/e2e/setup.sh gets",
	"internal/state/file_test.go: TestForeign":                          "root, to give a file to another user",
	"internal/state/file_test.go: TestUntrustedDirectory":               "root, for whom the rules are stricter",
	"internal/manual/page_test.go: missing":                             "linters and shells, which test/e2e/setup.sh gets",
	"internal/unixgram/forged_linux_test.go: needRoot":                  "root, to become other users in other root directories",
	"internal/hostfs/rules_test.go: needRoot":                           "root, to give files to others",
	"internal/mmsg/mmsg_linux_test.go: TestSendAs":                      "root, to name other users",
	"internal/passing/giver_linux_test.go: TestGiverConnectsToAService": "root, to name other users",
	"test/bench/rig/fortest.go: ForTest":                                "gcc, for the load generator and the C relays",
	"test/formula/formula_test.go: newBrew":                             "ruby, which test/e2e/setup.sh gets",
	"test/cbuild/cbuild.go: Must":                                       "gcc, for the vmnet simulator and the loader",
	"test/e2e/capture_test.go: tshark":                                  "tshark, which test/e2e/setup.sh gets",
	"test/lab/labtest/labtest.go: NewLab":                               "QEMU, a guest kernel and iPXE, which test/e2e/setup.sh gets",
}

// Sizes in lines. The habit is what one aims at; the test reports how often it is missed.
const (
	maxFile, habitFile         = 500, 300
	maxFunction, habitFunction = 80, 40
)

func TestLayout(t *testing.T) {
	files := repository(t)
	for name, rule := range map[string]func([]*source) []string{
		"own imports":         checkOwnImports,
		"third-party imports": checkThirdParty,
		"cgo":                 checkCgo,
		"exported names":      checkExported,
		"package docs":        checkPackageDocs,
		"licence lines":       checkSPDX,
		"sizes":               checkSizes,
		"skips":               checkSkips,
	} {
		t.Run(name, func(t *testing.T) {
			for _, complaint := range rule(files) {
				t.Error(complaint)
			}
		})
	}
	t.Log(habits(files))
}

// budgets are the most lines that there may be. They only fall: who adds some takes others away.
var budgets = map[string]int{"product": 57_200, "Go below test/": 11_000, "tests": 60_600, "C": 13_000}

func TestBudgets(t *testing.T) {
	lines := map[string]int{}
	for _, path := range tracked(t) {
		kind := ""
		switch {
		case strings.HasSuffix(path, "_test.go"):
			kind = "tests"
		case strings.HasSuffix(path, ".go") && strings.HasPrefix(path, "test/"):
			kind = "Go below test/"
		case strings.HasSuffix(path, ".go"):
			kind = "product"
		case slices.Contains([]string{".c", ".h", ".S"}, filepath.Ext(path)):
			kind = "C"
		default:
			continue
		}
		b, err := os.ReadFile(path)
		require.NoError(t, err)
		lines[kind] += bytes.Count(b, []byte("\n"))
	}
	for kind, most := range budgets {
		assert.LessOrEqual(t, lines[kind], most, "lines: %s", kind)
		assert.Positive(t, lines[kind], kind)
	}
	t.Log(lines)
}

// TestOtherFilesHaveLicence looks at scripts and C files, whose comments differ.
func TestOtherFilesHaveLicence(t *testing.T) {
	for _, path := range tracked(t) {
		if !needsSPDX(path) {
			continue
		}
		b, err := os.ReadFile(path)
		require.NoError(t, err)
		head := strings.SplitN(string(b), "\n", 4)
		assert.True(t, slices.ContainsFunc(head[:min(3, len(head))], isSPDX),
			"%s: no %q in its first three lines", path, spdx)
	}
}

// TestDirectDependencies compares the go.mod files with the list above and the licences with what the modules ship.
func TestDirectDependencies(t *testing.T) {
	required := map[string]string{} // the directory of a go.mod, by what it requires
	for _, dir := range []string{"tools/release", "."} {
		_, err := os.ReadFile(dir + "/go.mod") // so that go test does not reuse a result from before it changed
		require.NoError(t, err)
		var mod struct {
			Require []struct {
				Path     string
				Indirect bool
			}
			Tool []struct{ Path string }
		}
		require.NoError(t, json.Unmarshal(run(t, nil, "go", "-C", dir, "mod", "edit", "-json"), &mod))
		for _, r := range mod.Require {
			if !r.Indirect && r.Path != module {
				required[r.Path] = dir
			}
		}
		assert.Empty(t, mod.Tool, "tools have a module of their own, in tools")
	}
	assert.ElementsMatch(t, keys(direct), keys(required), "direct dependencies in go.mod")
	for path, u := range direct {
		in := required[path]
		run(t, nil, "go", "-C", in, "mod", "download", path) // what only macOS needs is not here yet on a machine that has built nothing else
		dir := strings.TrimSpace(string(run(t, nil, "go", "-C", in, "list", "-m", "-f", "{{.Dir}}", path)))
		assert.Equal(t, u.licence, licenceOf(t, dir), path)
	}
}

// TestLinuxBinaries checks what is linked into the programs for Linux: nothing of tests, nothing for cgo, every module
// under a licence that allows it; and that they are static.
func TestLinuxBinaries(t *testing.T) {
	env := []string{"CGO_ENABLED=0", "GOOS=linux", "GOARCH=" + runtime.GOARCH}
	for _, program := range []string{"socket_vmnet2", "socket_vmnet_client", "vmnet-helper"} {
		t.Run(program, func(t *testing.T) {
			deps := strings.Fields(string(run(t, env, "go", "list", "-deps", "./cmd/"+program)))
			for _, c := range checkLinked(deps) {
				t.Error(c)
			}
			dirs := strings.Fields(string(run(t, env, "go", "list", "-deps", "-f", "{{with .Module}}{{.Dir}}{{end}}", "./cmd/"+program)))
			slices.Sort(dirs)
			for _, dir := range slices.Compact(dirs) {
				assert.NotEmpty(t, licenceOf(t, dir), "no known licence in %s", dir)
			}

			binary := filepath.Join(t.TempDir(), program)
			run(t, env, "go", "build", "-o", binary, "./cmd/"+program)
			b, err := os.ReadFile(binary)
			require.NoError(t, err)
			for _, c := range checkStatic(b) {
				t.Errorf("%s: %s", program, c)
			}
		})
	}
}

// onlyDarwin is what the programs for macOS have and those for Linux do not.
var onlyDarwin = []string{"github.com/ebitengine/purego", module + "/internal/vmnet/ffi", module + "/internal/darwinapi"}

// TestDarwinBinary checks what is linked into the daemon for macOS as it is released: the binding, and nothing of tests,
// nor of the simulator's side.
func TestDarwinBinary(t *testing.T) {
	for _, arch := range []string{"arm64", "amd64"} {
		t.Run(arch, func(t *testing.T) {
			env := []string{"CGO_ENABLED=0", "GOOS=darwin", "GOARCH=" + arch}
			deps := strings.Fields(string(run(t, env, "go", "list", "-deps", "./cmd/socket_vmnet2")))
			for _, d := range onlyDarwin {
				assert.Contains(t, deps, d)
			}
			deps = slices.DeleteFunc(deps, func(d string) bool {
				return slices.ContainsFunc(onlyDarwin, func(o string) bool { return d == o || strings.HasPrefix(d, o+"/") })
			})
			for _, c := range checkLinked(deps) {
				t.Error(c)
			}
			ignored := run(t, env, "go", "list", "-f", "{{.IgnoredGoFiles}}", "./internal/daemon")
			assert.Contains(t, string(ignored), "vmnet_sim.go")
		})
	}
}

// run executes a command in the root of the repository and returns what it prints.
func run(t *testing.T, env []string, name string, args ...string) []byte {
	t.Helper()
	c := exec.CommandContext(t.Context(), name, args...)
	c.Env = append(os.Environ(), env...)
	var stderr strings.Builder
	c.Stderr = &stderr
	out, err := c.Output()
	require.NoError(t, err, "%s %s: %s", name, strings.Join(args, " "), stderr.String())
	return out
}

// tracked are the files of the repository, by slash-separated path, without what git ignores and the module attach.
func tracked(t *testing.T) (paths []string) {
	t.Helper()
	ignored := []string{".git", "bin", "build", "artifacts", "attach"} // whole paths
	require.NoError(t, filepath.WalkDir(".", func(path string, d os.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (slices.Contains(ignored, filepath.ToSlash(path)) || d.Name() == "testdata"):
			return filepath.SkipDir
		case d.Type().IsRegular():
			paths = append(paths, filepath.ToSlash(path))
		}
		return nil
	}))
	return paths
}
