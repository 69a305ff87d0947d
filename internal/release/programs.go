// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/socket-vmnet2/socket_vmnet2/internal/codesign"
)

// prefix is where the archives are unpacked to, below the root.
const prefix = "opt/socket_vmnet/"

// A target is a system and an architecture, and has one archive.
type target struct {
	name   string // in the name of the archive; macOS has no more than Apple's name of the architecture, as socket_vmnet's archives
	goos   string
	goarch string
	check  func(p program, binary []byte, goarch string) error // of what is true of this system's programs only
}

var targets = []target{
	{"arm64", "darwin", "arm64", program.checkMachO},
	{"x86_64", "darwin", "amd64", program.checkMachO},
	{"linux-arm64", "linux", "arm64", program.checkELF},
	{"linux-x86_64", "linux", "amd64", program.checkELF},
}

// A program is built from cmd/NAME and installed under each of its names: as real files, since Lima takes no links.
type program struct {
	name      string
	names     []string
	dir       string   // below prefix; empty: bin
	entitled  bool     // signed with etc/entitlements.plist, on macOS
	libraries []string // all that it may be linked with on macOS; vmnet.framework is opened at run time
}

var programs = []program{
	{
		name:     "socket_vmnet2",
		names:    []string{"socket_vmnet", "socket_vmnet2"},
		entitled: true,
		libraries: []string{
			"/System/Library/Frameworks/CoreFoundation.framework/Versions/A/CoreFoundation", // crypto/x509
			"/System/Library/Frameworks/Security.framework/Versions/A/Security",             // crypto/x509
			"/usr/lib/libSystem.B.dylib",
			"/usr/lib/libresolv.9.dylib",
		},
	},
	{
		name:      "socket_vmnet_client",
		names:     []string{"socket_vmnet_client"},
		libraries: []string{"/usr/lib/libSystem.B.dylib", "/usr/lib/libresolv.9.dylib"},
	},
	{
		name:      "vmnet-helper",
		names:     []string{"vmnet-helper"},
		dir:       "libexec",
		libraries: []string{"/usr/lib/libSystem.B.dylib", "/usr/lib/libresolv.9.dylib"},
	},
}

// signing is how a program is signed.
func (p program) signing() (codesign.Options, error) {
	o := codesign.Options{Identifier: "io.github.socket-vmnet2." + p.name}
	var err error
	if p.entitled {
		o.Entitlements, err = os.ReadFile("etc/entitlements.plist")
	}
	return o, err
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
	o, err := p.signing()
	if err != nil {
		return nil, err
	}
	return codesign.Sign(binary, o)
}

// command is a go command for a target, free of settings that would change what it makes.
func (r *release) command(ctx context.Context, on target, args ...string) *exec.Cmd {
	c := exec.CommandContext(ctx, r.goTool, args...)
	c.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+on.goos, "GOARCH="+on.goarch, "GOARM64=v8.0", "GOAMD64=v1",
		"GOFLAGS=-mod=readonly", "GOWORK=off", "GOFIPS140=off", "LC_ALL=C")
	return c
}
