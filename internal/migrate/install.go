// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"bytes"
	"debug/buildinfo"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/internal/install/pathrules"
)

// DefaultPrefix is where socket_vmnet's make install puts it, and where Lima looks first.
const DefaultPrefix = "/opt/socket_vmnet"

// backupDir is where install keeps what it replaced, below its prefix.
const backupDir = "share/socket_vmnet2/backup"

// programs are the places that an installer or a package manager uses.
var programs = []string{
	DefaultPrefix + "/bin/socket_vmnet",
	"/opt/homebrew/opt/socket_vmnet/bin/socket_vmnet",
	"/usr/local/opt/socket_vmnet/bin/socket_vmnet",
	"/opt/homebrew/opt/socket_vmnet2/bin/socket_vmnet2",
	"/usr/local/opt/socket_vmnet2/bin/socket_vmnet2",
	"/opt/local/bin/socket_vmnet",
	"/opt/colima/bin/socket_vmnet",
	"/opt/rancher-desktop/bin/socket_vmnet",
	"/opt/finch/bin/socket_vmnet",
	"/usr/local/bin/socket_vmnet",
}

// kinds tell by the begin of a path whose it is.
var kinds = []struct{ begin, kind string }{
	{DefaultPrefix + "/", KindUpstream},
	{"/opt/homebrew/", KindHomebrew},
	{"/usr/local/opt/", KindHomebrew},
	{"/usr/local/Cellar/", KindHomebrew},
	{"/opt/local/", KindMacPorts},
	{"/opt/colima/", KindColima},
	{"/opt/rancher-desktop/", KindRancher},
	{"/opt/finch/", KindFinch},
}

func kindOf(program string) string {
	for _, k := range kinds {
		if strings.HasPrefix(program, k.begin) {
			return k.kind
		}
	}
	return KindOther
}

// findInstalls looks where installers put programs, and where a shell finds them.
func (f *finder) findInstalls() {
	for _, p := range programs {
		f.addInstall(p)
	}
	for _, dir := range filepath.SplitList(f.env("PATH")) {
		if filepath.IsAbs(dir) {
			f.addInstall(filepath.Join(dir, "socket_vmnet"))
		}
	}
}

// addInstall adds the program at this path, once, if there is one.
func (f *finder) addInstall(program string) {
	if program == "" || !filepath.IsAbs(program) || f.installOf(program) != nil {
		return
	}
	program = filepath.Clean(program)
	if samePath(program, f.Program) && strings.HasPrefix(filepath.Base(program), "socket_vmnet2") {
		return // this very program
	}
	f.plan.Looked = append(f.plan.Looked, program)
	at, err := f.resolve(program)
	if err != nil {
		f.problem(program, err)
		return
	}
	if i := f.installOf(at); i != nil {
		return // a link to what is known
	}
	in := Install{Kind: kindOf(program), Program: clean(program), Prefix: clean(prefixOf(program))}
	if at != program {
		in.Links = clean(at)
	}
	f.describe(&in, program, at)
	f.plan.Installs = append(f.plan.Installs, in)
}

// addNamed adds the program that a job or a configuration names, also if it is not there: after an update of Homebrew, Lima's
// networks.yaml may name one that has gone.
func (f *finder) addNamed(program, by string) {
	f.addInstall(program)
	program = filepath.Clean(program)
	if !filepath.IsAbs(program) || f.installOf(program) != nil || samePath(program, f.Program) {
		return
	}
	f.conflict(Conflict{
		Kind: "missing-program", Text: by + " names " + clean(program) + ", and no such program is there",
		Fix: "what the plan installs takes its place",
	})
	f.plan.Installs = append(f.plan.Installs, Install{
		Kind: kindOf(program), Program: clean(program), Prefix: clean(prefixOf(program)), Missing: true,
	})
}

// prefixOf is the directory that has program in its bin.
func prefixOf(program string) string {
	if dir := filepath.Dir(program); filepath.Base(dir) == "bin" {
		return filepath.Dir(dir)
	}
	return filepath.Dir(program)
}

// installOf is the known install of a program, by either of its names.
func (f *finder) installOf(program string) *Install {
	for i := range f.plan.Installs {
		if in := &f.plan.Installs[i]; samePath(in.Program, program) || samePath(in.Links, program) {
			return in
		}
	}
	return nil
}

// describe fills in what the file at tells.
func (f *finder) describe(in *Install, program, at string) {
	if err := pathrules.Check(program, pathrules.Options{Root: f.Root}); err != nil {
		in.Unsafe = clean(err.Error())
	}
	if _, err := f.resolve(filepath.Join(in.Prefix, backupDir)); err == nil {
		in.Backup = true
	}
	file, err := os.OpenFile(filepath.Join(f.Root, at), os.O_RDONLY|nonBlocking, 0)
	if err != nil {
		f.problem(program, withoutRoot(err, program))
		return
	}
	defer file.Close()
	fi, err := file.Stat()
	switch {
	case err != nil:
		f.problem(program, withoutRoot(err, program))
		return
	case !fi.Mode().IsRegular():
		f.conflict(Conflict{
			Kind: "half-installed", Text: in.Program + " is not a program: it is " + fi.Mode().String(), Fix: "look at it, and move it away first",
		})
		return
	case fi.Mode()&0o111 == 0 || fi.Size() == 0:
		f.conflict(Conflict{
			Kind: "half-installed", Text: in.Program + " is not a program: it is empty or cannot be executed",
			Fix: "an install of socket_vmnet2 to " + in.Prefix + " makes it whole",
		})
		return
	}
	in.Ours, in.Version = inFile(file, fi.Size())
	if v := cellarVersion(at); v != "" && !in.Ours {
		in.Version = v
	}
	if v := f.ask(in, at); v != "" {
		in.Version = v
	}
}

// modulePath is how a program of ours says what it is.
const modulePath = "github.com/socket-vmnet2/socket_vmnet2"

// versionText is how the C compiler leaves a version in a program.
var versionText = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`\x00(v?[0-9]+\.[0-9]+\.[0-9]+(?:-[0-9A-Za-z.-]+)?)\x00`)
})

// maxProgram is the largest program that is searched for a version, in bytes. The C program has some 60 KB.
const maxProgram = 4 << 20

// inFile tells by a program's content whether it is ours, and its version as far as the file tells it.
func inFile(file *os.File, size int64) (ours bool, version string) {
	defer func() {
		if recover() != nil { // the parsers are not made for files that lie
			ours, version = false, ""
		}
	}()
	if info, err := buildinfo.Read(file); err == nil {
		if strings.HasPrefix(info.Path, modulePath+"/") {
			return true, ""
		}
		return false, ""
	}
	if size > maxProgram {
		return false, ""
	}
	b, err := io.ReadAll(io.NewSectionReader(file, 0, size))
	if err != nil {
		return false, ""
	}
	if m := versionText().FindSubmatch(b); m != nil {
		return false, string(bytes.Clone(m[1]))
	}
	return false, ""
}

// cellarVersion is the version in the path of a Homebrew keg.
func cellarVersion(path string) string {
	parts := strings.Split(path, "/")
	if i := slices.Index(parts, "Cellar"); i >= 0 && i+2 < len(parts) {
		return clean(parts[i+2])
	}
	return ""
}

// askTime is how long one program may take to tell its version.
const askTime = 5 * time.Second

// ask runs a program for its version, if it is one that root may trust.
func (f *finder) ask(in *Install, at string) string {
	if f.Run == nil || f.staged() || pathrules.Check(at, pathrules.Options{}) != nil {
		return ""
	}
	out, err := f.run(askTime, at, "--version")
	if err != nil {
		f.problem(in.Program, err)
		return ""
	}
	return clean(firstLine(strings.TrimSpace(string(out))))
}
