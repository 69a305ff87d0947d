// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/socket-vmnet2/socket_vmnet2/test/cbuild"
)

// Names of directories in the cache that setup.sh fills; the number follows the one in the script.
const (
	guestDir = "guest-1"
	qemuDir  = "qemu-1"
	umlDir   = "uml-2"
)

// distroIPXE is where Debian's package ipxe puts the image that QEMU boots as a kernel.
const distroIPXE = "/usr/lib/ipxe/ipxe.lkrn"

// ErrMissing reports that something setup.sh provides is not there. Its message names the command to run.
var ErrMissing = errors.New("not set up, run test/e2e/setup.sh first")

// Tools are paths of what a Lab works with.
type Tools struct {
	// QEMU is the distribution's qemu-system-x86_64, 7.2 or newer: the first with -netdev stream.
	QEMU string
	// NewQEMU is 9.2 or newer, the first with reconnect-ms. Empty unless all was set up.
	NewQEMU string
	// Kernel is the guests' kernel, Modules the directory of the modules it needs, in loading order by name.
	Kernel, Modules string
	// Busybox is statically linked.
	Busybox string
	// IPXE is an iPXE image that boots as a kernel. Empty unless all was set up.
	IPXE string
	// UML is the directory of User Mode Linux and of the DHCP clients that run in it, as their packages have them. Empty unless all
	// was set up.
	UML string
	// Helper is the guests' helper program, which BuildHelper makes. FindTools leaves it empty.
	Helper string
}

// CacheDir is where setup.sh keeps its files: $E2E_CACHE or a directory of the user's cache.
func CacheDir() (string, error) {
	if d := os.Getenv("E2E_CACHE"); d != "" {
		return filepath.Abs(d)
	}
	base, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find the cache directory: %w; name one with E2E_CACHE", err)
	}
	return filepath.Join(base, "socket_vmnet2", "e2e"), nil
}

// FindTools looks for everything setup.sh provides, all of it or only what guests need. An error wraps ErrMissing and
// names what is missing.
func FindTools(all bool) (Tools, error) {
	cache, err := CacheDir()
	if err != nil {
		return Tools{}, err
	}
	guest := filepath.Join(cache, guestDir)
	t := Tools{
		Kernel:  filepath.Join(guest, "vmlinuz"),
		Modules: filepath.Join(guest, "modules"),
		Busybox: filepath.Join(guest, "busybox"),
	}
	needed := []string{t.Kernel, t.Modules, t.Busybox}
	if all {
		t.IPXE, t.UML = distroIPXE, filepath.Join(cache, umlDir)
		needed = append(needed, t.IPXE, filepath.Join(t.UML, umlProgram))
	}
	for _, f := range needed {
		if _, err := os.Stat(f); err != nil {
			return Tools{}, fmt.Errorf("%w: %w", ErrMissing, err)
		}
	}
	if t.QEMU, err = findQEMU(os.Getenv("E2E_QEMU"), "", version{7, 2}); err != nil {
		return Tools{}, err
	}
	if all {
		own := filepath.Join(cache, qemuDir, "qemu-system-x86_64")
		if t.NewQEMU, err = findQEMU(os.Getenv("E2E_QEMU_NEW"), own, version{9, 2}); err != nil {
			return Tools{}, err
		}
	}
	return t, nil
}

// findQEMU returns named if that is not empty, else the first of own and the one in PATH that is there, if it is least or
// newer.
func findQEMU(named, own string, least version) (string, error) {
	candidates := []string{named}
	if named == "" {
		candidates = []string{own, "qemu-system-x86_64"}
	}
	for _, c := range candidates {
		if v, err := qemuVersion(c); err == nil && slices.Compare(v, least) >= 0 {
			return exec.LookPath(c)
		}
	}
	return "", fmt.Errorf("%w: no QEMU %d.%d or newer", ErrMissing, least[0], least[1])
}

// A version is the major number and the minor one.
type version []int

var versionRE = regexp.MustCompile(`version (\d+)\.(\d+)`)

func qemuVersion(path string) (version, error) {
	out, err := exec.Command(path, "--version").Output()
	if err != nil {
		return nil, fmt.Errorf("ask for the version of %s: %w", path, err)
	}
	m := versionRE.FindSubmatch(out)
	if m == nil {
		return nil, fmt.Errorf("ask for the version of %s: it says %q", path, strings.TrimSpace(string(out)))
	}
	major, _ := strconv.Atoi(string(m[1])) // digits, the expression says
	minor, _ := strconv.Atoi(string(m[2]))
	return version{major, minor}, nil
}

// BuildGo builds the command in package pkg (a path such as ./cmd/x, looked up from the module's root) for this Linux
// machine to the file out, statically linked unless -race is among the extra arguments, with the go command that $GO names. These
// arguments go to go build.
func BuildGo(ctx context.Context, pkg, out string, extra ...string) error {
	cgo := "CGO_ENABLED=0"
	if slices.Contains(extra, "-race") {
		cgo = "CGO_ENABLED=1"
	}
	return buildGo(ctx, pkg, out, []string{cgo}, extra)
}

func buildGo(ctx context.Context, pkg, out string, env, extra []string) error {
	root, err := ModuleRoot()
	if err != nil {
		return err
	}
	args := append([]string{"build", "-trimpath", "-ldflags=-s -w", "-o", out}, extra...)
	cmd := exec.CommandContext(ctx, cmp.Or(os.Getenv("GO"), "go"), append(args, pkg)...)
	cmd.Dir = root
	cmd.Env = append(os.Environ(), env...)
	if msg, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w\n%s", pkg, err, msg)
	}
	return nil
}

// BuildHelper builds the guests' helper program to the file out. Guests are x86-64 machines with Linux wherever this runs.
func BuildHelper(ctx context.Context, out string) error {
	return buildGo(ctx, "./test/lab/guest", out, []string{"GOOS=linux", "GOARCH=amd64", "CGO_ENABLED=0"}, nil)
}

// Install puts a copy of program at path, as a package manager does: by a rename.
func Install(program, path string) error {
	b, err := os.ReadFile(program)
	if err != nil {
		return err
	}
	if err := os.WriteFile(path+".new", b, 0o755); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

// ModuleRoot is the directory with go.mod, above the working directory.
func ModuleRoot() (string, error) { return cbuild.ModuleRoot() }
