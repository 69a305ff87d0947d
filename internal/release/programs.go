// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"debug/macho"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/socket-vmnet2/socket_vmnet2/internal/codesign"
)

// prefix is where the archives are unpacked to, below the root.
const prefix = "opt/socket_vmnet/"

// An architecture has one archive.
type architecture struct {
	name   string // as Apple calls it
	goarch string
	cpu    macho.Cpu
}

var architectures = []architecture{
	{"arm64", "arm64", macho.CpuArm64},
	{"x86_64", "amd64", macho.CpuAmd64},
}

// A program is built from cmd/NAME and installed under each of its names: as real files, since Lima takes no links.
type program struct {
	name      string
	names     []string
	dir       string   // below prefix; empty: bin
	entitled  bool     // signed with etc/entitlements.plist
	libraries []string // all that it may be linked with; vmnet.framework is opened at run time
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

// programs builds, signs and checks the programs for one architecture.
func (r *release) programs(ctx context.Context, arch architecture) (entries []entry, err error) {
	dir, err := os.MkdirTemp("", "release")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	args := []string{"build", "-trimpath", "-buildvcs=false", "-ldflags", r.ldflags, "-o", dir + string(filepath.Separator)}
	for _, p := range programs {
		args = append(args, "./cmd/"+p.name)
	}
	if _, err := output(r.command(ctx, arch, args...)); err != nil {
		return nil, err
	}
	for _, p := range programs {
		signed, err := p.sign(filepath.Join(dir, p.name))
		if err == nil {
			err = p.check(signed, arch, r.version)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", p.name, err)
		}
		for _, name := range p.names {
			entries = append(entries, entry{prefix + cmp.Or(p.dir, "bin") + "/" + name, 0o755, signed})
		}
	}
	return entries, nil
}

// sign returns the program in file with a signature.
func (p program) sign(file string) ([]byte, error) {
	o, err := p.signing()
	if err != nil {
		return nil, err
	}
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	return codesign.Sign(b, o)
}

// command is a go command for an architecture, free of settings that would change what it makes.
func (r *release) command(ctx context.Context, arch architecture, args ...string) *exec.Cmd {
	c := exec.CommandContext(ctx, r.goTool, args...)
	c.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=darwin", "GOARCH="+arch.goarch, "GOARM64=v8.0", "GOAMD64=v1",
		"GOFLAGS=-mod=readonly", "GOWORK=off", "GOFIPS140=off", "LC_ALL=C")
	return c
}

// documents are the files below share/doc.
func (r *release) documents(ctx context.Context) (entries []entry, err error) {
	const doc = prefix + "share/doc/socket_vmnet/"
	for _, file := range []string{"README.md", "LICENSE", "CHANGELOG.md", "etc/entitlements.plist"} {
		b, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		entries = append(entries, entry{doc + strings.TrimPrefix(file, "etc/"), 0o644, b})
	}
	licences, err := r.licences(ctx)
	return append(entries, entry{doc + "LICENSE.third-party", 0o644, licences}), err
}
