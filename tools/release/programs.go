// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"cmp"
	"context"
	"debug/macho"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
)

// prefix is where the archives are unpacked to, below the root.
const prefix = "opt/socket_vmnet/"

// A target is a system and an architecture, and has one archive.
type target struct {
	name   string // in the name of the archive; macOS has no more than Apple's name of the architecture, as socket_vmnet's archives
	goos   string
	goarch string
}

var targets = []target{
	{"arm64", "darwin", "arm64"}, {"x86_64", "darwin", "amd64"}, {"linux-arm64", "linux", "arm64"}, {"linux-x86_64", "linux", "amd64"},
}

// A program is built from cmd/NAME and installed under each of its names: as real files, since Lima takes no links.
type program struct {
	name      string
	names     []string
	dir       string   // below prefix; empty: bin
	entitled  bool     // signed with etc/entitlements.plist, on macOS
	libraries []string // all that it may be linked with on macOS; vmnet.framework is opened at run time
}

// small is what a program without TLS is linked with.
var small = []string{"/usr/lib/libSystem.B.dylib", "/usr/lib/libresolv.9.dylib"}

var programs = []program{
	{
		name: "socket_vmnet2", names: []string{"socket_vmnet", "socket_vmnet2"}, entitled: true,
		libraries: append([]string{
			"/System/Library/Frameworks/CoreFoundation.framework/Versions/A/CoreFoundation", // crypto/x509
			"/System/Library/Frameworks/Security.framework/Versions/A/Security",             // crypto/x509
		}, small...),
	},
	{name: "socket_vmnet_client", names: []string{"socket_vmnet_client"}, libraries: small},
	{name: "vmnet-helper", names: []string{"vmnet-helper"}, dir: "libexec", libraries: small},
}

// programs builds, signs and checks the programs for one target.
func (r *release) programs(ctx context.Context, on target) (entries []entry, err error) {
	dir, err := os.MkdirTemp("", "release")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	args := []string{"build", "-trimpath", "-buildvcs=false", "-ldflags", r.ldflags, "-o", dir + string(filepath.Separator)}
	for _, p := range programs {
		args = append(args, "./cmd/"+p.name)
	}
	if _, err := output(r.command(ctx, on, args...)); err != nil {
		return nil, err
	}
	for _, p := range programs {
		binary, err := os.ReadFile(filepath.Join(dir, p.name))
		if err == nil && on.goos == "darwin" {
			binary, err = p.sign(binary)
		}
		if err == nil {
			err = p.check(binary, on, r.version)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", p.name, err)
		}
		for _, name := range p.names {
			entries = append(entries, entry{prefix + cmp.Or(p.dir, "bin") + "/" + name, 0o755, binary})
		}
	}
	return entries, nil
}

// sign gives a program for macOS its signature.
func (p program) sign(binary []byte) ([]byte, error) {
	list, err := readEntitlements(map[bool]string{true: "etc/entitlements.plist"}[p.entitled])
	if err != nil {
		return nil, err
	}
	return sign(binary, "io.github.socket-vmnet2."+p.name, list)
}

// command is a go command for a target, free of settings that would change what it makes.
func (r *release) command(ctx context.Context, on target, args ...string) *exec.Cmd {
	c := exec.CommandContext(ctx, r.goTool, args...)
	c.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+on.goos, "GOARCH="+on.goarch, "GOARM64=v8.0", "GOAMD64=v1",
		"GOFLAGS=-mod=readonly", "GOWORK=off", "GOFIPS140=off", "LC_ALL=C")
	return c
}

const doc = prefix + "share/doc/socket_vmnet/"

// A shelf is where files of the repository that are no programs go, the same place as with make install.doc. A directory ends in
// a slash; the names of the files in it stay.
type shelf struct {
	files string // a pattern for filepath.Glob
	to    string // in the archive
	goos  string // empty: everywhere
}

var shelves = []shelf{
	{files: "README.md", to: doc},
	{files: "MIGRATION.md", to: doc},
	{files: "LICENSE", to: doc},
	{files: "CHANGELOG.md", to: doc},
	{files: "docs/*.*", to: doc + "docs/"},
	{files: "docs/integrations/*", to: doc + "docs/integrations/"},
	{files: "docs/performance/*", to: doc + "docs/performance/"},
	{files: "docs/recordings/*.svg", to: doc + "docs/recordings/"},
	{files: "docs/reliability/*", to: doc + "docs/reliability/"},
	{files: "etc/entitlements.plist", to: doc, goos: "darwin"},
	{files: "etc/launchd/*.plist", to: doc + "launchd/", goos: "darwin"},
	{files: "etc/sudoers.d/*", to: doc + "etc_sudoers.d/", goos: "darwin"}, // socket_vmnet's name for it
	{files: "etc/systemd/*.s*", to: doc + "systemd/", goos: "linux"},
	{files: "etc/systemd/user/*", to: doc + "systemd/user/", goos: "linux"},
	{files: "etc/sysusers.d/*", to: doc + "sysusers.d/", goos: "linux"},
	{files: "docs/man/*.1", to: prefix + "share/man/man1/"},
	{files: "docs/man/*.8", to: prefix + "share/man/man8/"},
	{files: "etc/completions/socket_vmnet2.bash", to: prefix + "share/bash-completion/completions/socket_vmnet2"},
	{files: "etc/completions/socket_vmnet2.bash", to: prefix + "share/bash-completion/completions/socket_vmnet"},
	{files: "etc/completions/socket_vmnet2.bash", to: prefix + "share/bash-completion/completions/socket_vmnet_client"},
	{files: "etc/completions/socket_vmnet2.fish", to: prefix + "share/fish/vendor_completions.d/socket_vmnet2.fish"},
	{files: "etc/completions/socket_vmnet2.fish", to: prefix + "share/fish/vendor_completions.d/socket_vmnet.fish"},
	{files: "etc/completions/socket_vmnet2.fish", to: prefix + "share/fish/vendor_completions.d/socket_vmnet_client.fish"},
	{files: "etc/completions/_socket_vmnet2", to: prefix + "share/zsh/site-functions/"},
}

// documents are what a system's archives have besides the programs: the same for each architecture.
func documents(goos string) (entries []entry, err error) {
	for _, s := range shelves {
		if s.goos != "" && s.goos != goos {
			continue
		}
		files, err := filepath.Glob(s.files)
		if err != nil || len(files) == 0 {
			return nil, fmt.Errorf("nothing matches %s, which the archives have: %w", s.files, err)
		}
		for _, file := range slices.Sorted(slices.Values(files)) {
			b, err := os.ReadFile(file)
			if err != nil {
				return nil, err
			}
			to := s.to
			if to[len(to)-1] == '/' {
				to += filepath.Base(file)
			}
			entries = append(entries, entry{to, 0o644, b})
		}
	}
	return entries, nil
}

// Load commands of <mach-o/loader.h> that debug/macho does not name, with what they must say.
const (
	loadUUID         macho.LoadCmd = 0x1b // macOS 26 starts no program without it
	loadSignature    macho.LoadCmd = 0x1d
	loadBuildVersion macho.LoadCmd = 0x32

	platformMacOS = 1
	minimumOS     = 12 << 16 // Go 1.26's linker asks for macOS 12.0
)

// check looks at a program as it goes into the archive.
func (p program) check(binary []byte, on target, version string) error {
	if p.entitled && !bytes.Contains(binary, []byte(version)) {
		return fmt.Errorf("does not contain the version %q: do the linker flags set it?", version)
	}
	if bytes.Contains(binary, []byte("vmnetsim")) {
		return errors.New(`contains "vmnetsim": the simulator is for tests only`)
	}
	if on.goos == "darwin" {
		return p.checkMachO(binary, on.goarch)
	}
	return nil // layout_test.go sees to it that those for Linux are static
}

// checkMachO looks at a program for macOS: how it is built, and what it is linked with.
func (p program) checkMachO(signed []byte, goarch string) error {
	f, err := macho.NewFile(bytes.NewReader(signed))
	if err != nil {
		return err
	}
	want := map[string]macho.Cpu{"amd64": macho.CpuAmd64, "arm64": macho.CpuArm64}[goarch]
	if f.Cpu != want || f.Type != macho.TypeExec || f.Flags&macho.FlagPIE == 0 {
		return fmt.Errorf("built for %v, type %v, flags %#x; want an executable for %v that can be placed anywhere", f.Cpu, f.Type, f.Flags, want)
	}
	command := map[macho.LoadCmd][]byte{}
	for _, l := range f.Loads {
		command[macho.LoadCmd(f.ByteOrder.Uint32(l.Raw()))] = l.Raw()
	}
	if id := command[loadUUID]; len(id) != 24 || bytes.Equal(id[8:], make([]byte, 16)) {
		return fmt.Errorf("LC_UUID is %x, want 16 bytes that are not all zero behind its header", id)
	}
	if v := command[loadBuildVersion]; len(v) < 16 || f.ByteOrder.Uint32(v[8:]) != platformMacOS || f.ByteOrder.Uint32(v[12:]) != minimumOS {
		return fmt.Errorf("LC_BUILD_VERSION is %x, want macOS (1) from %#x on", v, minimumOS)
	}
	libraries, err := f.ImportedLibraries()
	if slices.Sort(libraries); err != nil || !slices.Equal(libraries, p.libraries) {
		return errors.Join(err, fmt.Errorf("linked with %q, want %q", libraries, p.libraries))
	}
	return nil
}
