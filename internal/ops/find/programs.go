// SPDX-License-Identifier: Apache-2.0

package find

import (
	"debug/buildinfo"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/socket-vmnet2/socket_vmnet2/internal/hostfs"
)

// DefaultPrefix is where socket_vmnet's make install puts it, and where Lima looks first.
const DefaultPrefix = "/opt/socket_vmnet"

// Kinds of programs, by what put them there.
const (
	KindUpstream = "make install"
	kindHomebrew = "Homebrew"
	KindMacPorts = "MacPorts"
	KindColima   = "Colima"
	kindRancher  = "Rancher Desktop"
	kindFinch    = "Finch"
	kindOther    = "other"
)

// A program is a socket_vmnet or socket_vmnet2 on the disk.
type program struct {
	Path    string `json:"path"`
	Links   string `json:"links_to,omitempty"` // the file that Path leads to by links
	Kind    string `json:"kind"`
	Prefix  string `json:"prefix"`
	Version string `json:"version,omitempty"`
	Ours    bool   `json:"socket_vmnet2"`
	Missing string `json:"missing_for,omitempty"` // it is not there, and this names it
	Fault   string `json:"fault,omitempty"`       // why it is no program
	Unsafe  string `json:"unsafe,omitempty"`      // why others than root could change it
}

// Bundled tells whether a tool has it for itself, and takes no other.
func (p program) Bundled() bool {
	return p.Kind == KindColima || p.Kind == kindRancher || p.Kind == kindFinch
}

// installers are what puts programs below a prefix, and the one that each may put there. Those of no kind are others'.
var installers = []struct{ prefix, kind, program string }{
	{DefaultPrefix, KindUpstream, "bin/socket_vmnet"},
	{"/opt/homebrew", kindHomebrew, "opt/socket_vmnet/bin/socket_vmnet"},
	{"/usr/local/opt", kindHomebrew, "socket_vmnet/bin/socket_vmnet"},
	{"/opt/homebrew", kindHomebrew, "opt/socket_vmnet2/bin/socket_vmnet2"},
	{"/usr/local/opt", kindHomebrew, "socket_vmnet2/bin/socket_vmnet2"},
	{"/opt/local", KindMacPorts, "bin/socket_vmnet"},
	{"/opt/colima", KindColima, "bin/socket_vmnet"},
	{"/opt/rancher-desktop", kindRancher, "bin/socket_vmnet"},
	{"/opt/finch", kindFinch, "bin/socket_vmnet"},
	{"/usr/local/bin", kindOther, "socket_vmnet"},
	{"/usr/local/Cellar", kindHomebrew, ""},
}

// findPrograms looks where installers put programs, and where a shell finds them.
func (f *search) findPrograms() {
	for _, i := range installers {
		if i.program != "" {
			f.addProgram(filepath.Join(i.prefix, i.program))
		}
	}
	for _, dir := range filepath.SplitList(f.Getenv("PATH")) {
		f.addProgram(filepath.Join(dir, "socket_vmnet"))
	}
}

// addProgram adds the program at this path, once, if there is one.
func (f *search) addProgram(path string) {
	path = filepath.Clean(path)
	if !filepath.IsAbs(path) || f.programAt(path) != nil {
		return
	}
	if SamePath(path, f.Program) && strings.HasPrefix(filepath.Base(path), "socket_vmnet2") {
		return // this very program
	}
	at, err := f.Resolve(path)
	if err != nil {
		f.problem(path, err)
		return
	}
	if f.programAt(at) != nil {
		return // a link to what is known
	}
	p := newProgram(path)
	if at != path {
		p.Links = Clean(at)
	}
	if err := hostfs.Check(path, hostfs.Options{Root: f.Root}); err != nil {
		p.Unsafe = Clean(err.Error())
	}
	f.describe(&p, at)
	f.Programs = append(f.Programs, p)
}

// addNamed adds the program that a job or a configuration names, also if it is not there: after an update of Homebrew, Lima's
// networks.yaml may name one that has gone.
func (f *search) addNamed(path, by string) {
	f.addProgram(path)
	path = filepath.Clean(path)
	if !filepath.IsAbs(path) || f.programAt(path) != nil || SamePath(path, f.Program) {
		return
	}
	p := newProgram(path)
	p.Missing = Clean(by)
	f.Programs = append(f.Programs, p)
}

func newProgram(path string) program {
	p := program{Kind: kindOther, Path: Clean(path), Prefix: Clean(strings.TrimSuffix(filepath.Dir(path), "/bin"))}
	for _, i := range installers {
		if strings.HasPrefix(path, i.prefix+"/") {
			p.Kind = i.kind
		}
	}
	return p
}

// describe fills in what the file at tells.
func (f *search) describe(p *program, at string) {
	if fi, err := f.Stat(at); err == nil && !fi.Mode().IsRegular() {
		p.Fault = "is not a program but " + fi.Mode().String()
		return
	}
	file, fi, err := f.open(at)
	if err != nil {
		f.problem(p.Path, err)
		return
	}
	defer file.Close()
	if fi.Mode()&0o111 == 0 || fi.Size() == 0 {
		p.Fault = "is not a program: it is empty or cannot be executed"
		return
	}
	p.Ours, p.Version = inFile(file)
	// Only a program that root may trust is run.
	if f.Run == nil || f.Staged() || hostfs.Check(at, hostfs.Options{}) != nil {
		return
	}
	out, err := f.Output(f.ctx, at, "--version")
	f.problem(p.Path, err)
	if line := Clean(FirstLine(strings.TrimSpace(out))); err == nil && line != "" {
		p.Version = line
	}
}

// modulePath is how a program of ours says what it is.
const modulePath = "github.com/socket-vmnet2/socket_vmnet2"

// versionText is how the C compiler leaves a version in a program.
var versionText = regexp.MustCompile(`\x00(v?[0-9]+\.[0-9]+\.[0-9]+(?:-[0-9A-Za-z.-]+)?)\x00`)

// maxProgram is how much of a program is searched for a version, in bytes. The C program has some 60 KB.
const maxProgram = 4 << 20

// inFile tells by a program's content whether it is ours, and its version as far as the file tells it.
func inFile(file *os.File) (ours bool, version string) {
	var info *buildinfo.BuildInfo
	err := parse(func() (err error) {
		info, err = buildinfo.Read(file)
		return err
	})
	if err == nil {
		return strings.HasPrefix(info.Path, modulePath+"/"), ""
	}
	b, _ := io.ReadAll(io.NewSectionReader(file, 0, maxProgram))
	if m := versionText.FindSubmatch(b); m != nil {
		version = string(m[1])
	}
	return false, version
}
