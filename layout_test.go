// SPDX-License-Identifier: Apache-2.0

// Package layout_test keeps the rules of the repository: what imports what, where a third-party module may appear, sizes,
// comments, licences, and that the Linux binaries are static. Each rule is shown to catch what it is for in
// layout_rules_test.go.
package layout_test

import (
	"bytes"
	"debug/elf"
	"encoding/json"
	"maps"
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

// imports is the import table of our own packages: what the code of each one, tests apart, may import. Imports go one way, from
// wing to wing in this order. Tests may import any internal package, vnettest above all.
var imports = map[string][]string{
	// Contracts, and leaves that know nothing of the rest.
	"internal/frame":     {},
	"internal/network":   {"internal/frame"},
	"internal/status":    {"internal/printable"},
	"internal/state":     {"internal/hostfs"},
	"internal/hostfs":    {"internal/printable"},
	"internal/printable": {},
	"internal/darwinapi": {},
	"internal/faults":    {},
	// Networks know no clients.
	"internal/gateway":        {"internal/faults", "internal/frame", "internal/gateway/dhcp", "internal/gateway/dns", "internal/network"},
	"internal/gateway/dhcp":   {"internal/state"},
	"internal/gateway/dns":    {},
	"internal/network/bridge": {"internal/frame", "internal/network"},
	"internal/network/usernet": {
		"internal/frame", "internal/gateway", "internal/gateway/dhcp", "internal/network", "internal/network/bridge", "internal/printable",
		"internal/state", "internal/status",
	},
	"internal/network/vmnet": {
		"internal/faults", "internal/frame", "internal/network", "internal/network/bridge", "internal/network/vmnet/api",
		"internal/printable",
	},
	"internal/network/vmnet/api": {"internal/frame", "internal/network"},
	"internal/network/vmnet/ffi": {"internal/network", "internal/network/vmnet/api"},
	// What serves clients knows no back end.
	"internal/perclient": {
		"internal/faults", "internal/frame", "internal/hostfs", "internal/network", "internal/perclient/link",
		"internal/perclient/passfd/proto", "internal/perclient/watch", "internal/status",
	},
	"internal/perclient/antispoof": {"internal/frame", "internal/network", "internal/perclient/watch"},
	"internal/perclient/capture":   {"internal/frame", "internal/printable"},
	"internal/perclient/dgram": {
		"internal/faults", "internal/frame", "internal/perclient/link", "internal/perclient/mmsg", "internal/perclient/passfd/proto",
		"internal/status",
	},
	"internal/perclient/link": {"internal/darwinapi", "internal/faults", "internal/frame", "internal/perclient/mmsg", "internal/perclient/passfd/proto"},
	"internal/perclient/mmsg": {"internal/darwinapi", "internal/frame"},
	"internal/perclient/passfd": {
		"internal/faults", "internal/frame", "internal/hostfs", "internal/network", "internal/perclient", "internal/perclient/dgram",
		"internal/perclient/link", "internal/perclient/passfd/proto", "internal/status",
	},
	"internal/perclient/passfd/proto": {},
	"internal/perclient/watch":        {},
	// What exists because socket_vmnet did it.
	"internal/compat": {
		"internal/daemon/handover", "internal/hostfs", "internal/network", "internal/printable", "internal/state",
	},
	// The daemon puts them together.
	"internal/daemon": {
		"internal/compat", "internal/daemon/control", "internal/daemon/handover", "internal/daemon/inherit", "internal/daemon/rundir",
		"internal/darwinapi", "internal/frame", "internal/gateway", "internal/hostfs", "internal/network", "internal/network/usernet", "internal/network/vmnet",
		"internal/network/vmnet/api", "internal/network/vmnet/ffi", "internal/ops/freenet", "internal/ops/health", "internal/ops/web",
		"internal/perclient", "internal/perclient/antispoof", "internal/perclient/capture", "internal/perclient/dgram",
		"internal/perclient/link", "internal/perclient/passfd", "internal/perclient/passfd/proto", "internal/printable", "internal/state", "internal/status",
	},
	"internal/daemon/control":  {"internal/hostfs", "internal/printable", "internal/status"},
	"internal/daemon/handover": {"internal/darwinapi", "internal/hostfs", "internal/printable"},
	"internal/daemon/inherit":  {"internal/darwinapi", "internal/hostfs"},
	"internal/daemon/lowfd":    {},
	"internal/daemon/rundir":   {"internal/compat", "internal/daemon/handover", "internal/hostfs"},
	// Ops looks at a daemon from outside.
	"internal/ops/doctor": {
		"internal/daemon/control", "internal/hostfs", "internal/ops/find", "internal/ops/freenet", "internal/printable",
		"internal/status",
	},
	"internal/ops/find":     {"internal/compat", "internal/daemon/inherit", "internal/darwinapi", "internal/hostfs", "internal/printable"},
	"internal/ops/freenet":  {},
	"internal/ops/health":   {"internal/ops/freenet", "internal/perclient/watch", "internal/printable", "internal/status"},
	"internal/ops/selftest": {"internal/frame", "internal/network", "internal/testing/fakeguest"},
	"internal/ops/setup":    {"internal/compat", "internal/hostfs", "internal/ops/find", "internal/printable"},
	"internal/ops/web":      {},
	// Testing.
	"internal/testing/fakeguest": {"internal/frame", "internal/network"},
	"internal/testing/vnettest":  {"internal/frame", "internal/network", "internal/perclient/passfd/proto", "internal/testing/fakeguest"},
	// Commands.
	"cmd/socket_vmnet2": {
		"internal/compat", "internal/daemon", "internal/daemon/control", "internal/daemon/lowfd", "internal/gateway",
		"internal/hostfs", "internal/network", "internal/ops/doctor", "internal/ops/find", "internal/ops/freenet", "internal/ops/selftest",
		"internal/ops/setup", "internal/ops/web", "internal/perclient/capture", "internal/perclient/passfd/proto", "internal/printable", "internal/status",
	},
	"cmd/socket_vmnet_client": {"internal/daemon/lowfd", "internal/hostfs", "internal/perclient/passfd/proto"},
	"cmd/vmnet-helper":        {"internal/compat", "internal/hostfs", "internal/perclient/passfd/proto"},
	"tools/release":           {},
	// Tests.
	"test/asmac":        {"test/machrun", "test/vmnetsim"},
	"test/bench":        {"test/bench/rig", "test/lab"},
	"test/bench/rig":    {"internal/testing/fakeguest", "test/cbuild", "test/lab", "test/machrun", "test/vmnetsim"},
	"test/cbuild":       {},
	"test/e2e":          {},
	"test/e2e/demo":     {"test/lab"},
	"test/lab":          {"internal/frame", "internal/state", "test/cbuild", "test/lab/sequence"},
	"test/lab/guest":    {"test/lab/sequence"},
	"test/lab/labtest":  {"test/lab", "test/vmnetsim"},
	"test/lab/sequence": {},
	"test/machrun":      {"test/cbuild"},
	"test/machrun/cmd":  {"test/machrun", "test/vmnetsim"},
	"test/perf":         {"internal/hostfs", "test/lab"},
	"test/reconnect":    {"test/lab/sequence"},
	"test/soak":         {"internal/frame", "internal/testing/fakeguest", "internal/testing/vnettest", "test/lab", "test/soak/ledger", "test/vmnetsim"},
	"test/soak/ledger":  {},
	"test/vmnetsim":     {"test/cbuild"},
	"test/vzguest":      {},
}

// TestWings: the table keeps the wings apart: networks know no clients, what serves clients no back end, and ops of these no more
// than what a description and a command line are made of.
func TestWings(t *testing.T) {
	never := map[string]string{
		"internal/network": "internal/(perclient|daemon|compat|ops)", "internal/gateway": "internal/(perclient|daemon|compat|ops)",
		"internal/perclient": "internal/(network/|gateway|daemon|compat|ops)", "internal/compat": "internal/(network/|gateway|perclient|ops)",
		"internal/ops":    "internal/(network/|gateway|perclient$|perclient/[^w]|daemon$|daemon/[^ci])",
		"internal/daemon": "internal/ops/(doctor|find|selftest|setup)",
	}
	for from, to := range imports {
		wing := strings.Join(strings.SplitN(from, "/", 3)[:2], "/")
		for _, name := range to {
			if pattern := never[wing]; pattern != "" {
				assert.NotRegexp(t, "^"+pattern, name, "imported by %s", from)
			}
		}
	}
}

// A use says where a third-party module may be imported: by code, and beyond that by tests.
type use struct {
	licence string
	code    []string // packages; "*" for all
	tests   []string
}

// direct are the modules that go.mod and tools/release/go.mod require directly.
var direct = map[string]use{
	"github.com/urfave/cli/v2":  {"MIT", []string{"cmd/socket_vmnet2", "cmd/vmnet-helper", "internal/compat"}, nil},
	"github.com/xrash/smetrics": {"MIT", []string{"internal/compat"}, nil},
	"golang.org/x/sys": {"BSD-3-Clause", []string{
		"cmd/socket_vmnet2", "cmd/socket_vmnet_client", "cmd/vmnet-helper", "internal/compat", "internal/daemon", "internal/daemon/handover",
		"internal/daemon/inherit", "internal/daemon/rundir", "internal/darwinapi", "internal/gateway", "internal/hostfs",
		"internal/network/usernet", "internal/network/vmnet/ffi", "internal/ops/doctor", "internal/ops/setup",
		"internal/perclient/dgram", "internal/perclient/link", "internal/perclient/mmsg", "internal/perclient/passfd",
		"internal/perclient/passfd/proto", "internal/state", "test/lab", "test/lab/guest", "test/soak", "test/vzguest",
	}, []string{"*"}},
	"gvisor.dev/gvisor":            {"Apache-2.0", []string{"internal/gateway", "internal/testing/fakeguest"}, nil},
	"github.com/Code-Hex/vz/v3":    {"MIT", []string{"test/vzguest"}, nil},
	"github.com/ebitengine/purego": {"Apache-2.0", []string{"internal/darwinapi", "internal/network/vmnet/ffi"}, nil},
	"github.com/blacktop/go-macho": {"MIT", []string{"tools/release"}, nil},
	"github.com/insomniacslk/dhcp": {"BSD-3-Clause", []string{
		"internal/gateway/dhcp", "internal/testing/fakeguest", "test/soak",
	}, []string{"cmd/socket_vmnet2", "internal/gateway", "internal/ops/selftest"}},
	"github.com/prometheus/client_golang": {"Apache-2.0", []string{"internal/ops/health"}, nil},
	"github.com/kardianos/service":        {"Zlib", []string{"internal/ops/setup"}, nil},
	"github.com/prometheus/procfs":        {"Apache-2.0", []string{"internal/daemon", "internal/ops/find", "test/bench/rig", "test/lab", "test/perf"}, nil},
	"github.com/cavaliergopher/cpio":      {"BSD-3-Clause", []string{"test/lab"}, nil},
	"github.com/goccy/go-yaml":            {"MIT", []string{"internal/ops/find"}, []string{"*"}},
	"howett.net/plist":                    {"BSD-3-Clause", []string{"internal/ops/find", "tools/release"}, []string{"*"}},
	"golang.org/x/term":                   {"BSD-3-Clause", []string{"cmd/socket_vmnet2"}, nil},
	"golang.org/x/net":                    {"BSD-3-Clause", []string{"internal/gateway", "internal/ops/freenet", "internal/perclient/capture"}, nil},
	"github.com/elastic/go-seccomp-bpf":   {"Apache-2.0", []string{"internal/gateway"}, nil},
	"github.com/landlock-lsm/go-landlock": {"MIT", []string{"internal/gateway"}, nil},
	"golang.org/x/time":                   {"BSD-3-Clause", []string{"internal/compat", "internal/daemon/control", "internal/gateway", "internal/network/bridge"}, nil},
	"github.com/gopacket/gopacket":        {"BSD-3-Clause", []string{"internal/perclient/capture"}, []string{"cmd/socket_vmnet2"}},
	"github.com/miekg/dns":                {"BSD-3-Clause", []string{"internal/gateway/dns"}, []string{"internal/gateway"}},
	"github.com/stretchr/testify":         {"MIT", []string{"internal/testing/vnettest"}, []string{"*"}},
	"go.uber.org/goleak":                  {"MIT", []string{"internal/testing/vnettest"}, []string{"*"}},
}

// skips are the only places where a test may skip, by file and function, with what it needs. CI has all of it.
var skips = map[string]string{
	"internal/perclient/capture/compile_test.go: tcpdump":   "tcpdump, which test/e2e/setup.sh gets",
	"internal/frame/fuzz_test.go: reader":                   "gcc",
	"internal/compat/differential_test.go: reference":       "gcc, for the C library's getopt_long",
	"internal/daemon/inherit/inherit_test.go: TestRefused":  "darwin: no SOCK_SEQPACKET for unix sockets",
	"internal/perclient/passfd/adopt_test.go: openFor":      "darwin: no SOCK_SEQPACKET for unix sockets",
	"internal/perclient/dgram/trust_test.go: TestUntrusted": "darwin: no abstract names",
	"internal/ops/setup/shipped_test.go: tool":              "systemd-analyze and visudo, which test/e2e/setup.sh gets",
	"internal/ops/setup/rig_linux_test.go: needRig":         "root, for namespaces, and systemd, which test/e2e/setup.sh gets",
	"internal/state/file_test.go: TestForeign":              "root, to give a file to another user",
	"test/docs/manual_test.go: missing":                     "mandoc, shells and chromium, which test/e2e/setup.sh gets",
	"test/formula/formula_test.go: newBrew":                 "ruby, which test/e2e/setup.sh gets",
	"tools/release/packages_test.go: needDpkg":              "dpkg, and root to install packages into a root of their own",
	"test/cbuild/cbuild.go: Must":                           "gcc, for the simulator, the loader and what measures",
	"test/e2e/capture_test.go: tshark":                      "tshark, which test/e2e/setup.sh gets",
	"test/lab/labtest/labtest.go: NewLab":                   "QEMU, a guest kernel and iPXE, which test/e2e/setup.sh gets",
	"internal/testing/vnettest/suite.go: NeedRoot":          "root, to become another user",
}

func TestLayout(t *testing.T) {
	files := repository(t)
	for name, rule := range map[string]func([]*source) []string{
		"own imports":         checkOwnImports,
		"third-party imports": checkThirdParty,
		"cgo":                 checkCgo,
		"exported names":      checkExported,
		"licence lines":       checkSPDX,
		"skips":               checkSkips,
	} {
		t.Run(name, func(t *testing.T) {
			for _, complaint := range rule(files) {
				t.Error(complaint)
			}
		})
	}
}

// budgets are the most lines that there may be. They only fall: who adds some takes others away.
var budgets = map[string]int{"product": 48_550, "Go below test/": 10_970, "tests": 49_930, "C": 12_940}

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
	assert.ElementsMatch(t, slices.Collect(maps.Keys(direct)), slices.Collect(maps.Keys(required)), "direct dependencies in go.mod")
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
			f, err := elf.Open(binary)
			require.NoError(t, err)
			defer f.Close()
			for _, p := range f.Progs {
				assert.NotContains(t, []elf.ProgType{elf.PT_INTERP, elf.PT_DYNAMIC}, p.Type, "it is not static")
			}
			symbols, err := f.Symbols()
			require.NoError(t, err)
			assert.False(t, slices.ContainsFunc(symbols, func(s elf.Symbol) bool { return strings.HasPrefix(s.Name, "text/template.(*state)") }),
				"text/template calls methods by name, so the linker keeps all that there are: 4 MB")
		})
	}
}

// onlyDarwin is what the programs for macOS have and those for Linux do not.
var onlyDarwin = []string{"github.com/ebitengine/purego", module + "/internal/network/vmnet/ffi", module + "/internal/darwinapi"}

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
	require.NoError(t, filepath.WalkDir(".", func(path string, d os.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (slices.Contains([]string{".git", "bin", "build", "artifacts", "attach"}, path) || d.Name() == "testdata"):
			return filepath.SkipDir
		case d.Type().IsRegular():
			paths = append(paths, filepath.ToSlash(path))
		}
		return nil
	}))
	return paths
}
