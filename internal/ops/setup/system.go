// SPDX-License-Identifier: Apache-2.0

package setup

import (
	"context"
	"embed"
	"encoding/xml"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	kardianos "github.com/kardianos/service"
	"golang.org/x/sys/unix"

	"github.com/socket-vmnet2/socket_vmnet2/internal/ops/find"
)

// A system is where jobs are installed. Tests make their own.
type system struct {
	find.System
	Home       string // of the user
	RuntimeDir string // of the user, XDG_RUNTIME_DIR
	UID        int
	Darwin     int // major version of the kernel, 25 in macOS 26; 0: not known

	// Control has the manager start, stop or restart a job.
	Control func(j *job, verb string) error
	// Reach tells whether something accepts connections at a socket.
	Reach func(path string) error
	// Patience is how long a job may take to start or to end, Tick how often it is looked at.
	Patience, Tick time.Duration
}

// This is the system that the program runs on.
func This() *system {
	s := &system{
		System: find.Machine(), RuntimeDir: os.Getenv("XDG_RUNTIME_DIR"), UID: os.Geteuid(),
		Control: control, Reach: reach, Patience: 20 * time.Second, Tick: 100 * time.Millisecond,
	}
	// The library writes to the home directory that HOME says, but for macOS.
	s.Home, _ = os.UserHomeDir()
	if s.GOOS == "darwin" {
		if u, err := user.Current(); err == nil {
			s.Home = u.HomeDir
		}
		var name unix.Utsname
		if unix.Uname(&name) == nil {
			major, _, _ := strings.Cut(unix.ByteSliceToString(name.Release[:]), ".")
			s.Darwin, _ = strconv.Atoi(major)
		}
	}
	return s
}

// reach connects and closes again: such a client costs the daemon nothing.
func reach(path string) error {
	c, err := net.DialTimeout("unix", path, 5*time.Second)
	if err != nil {
		return err
	}
	return c.Close()
}

// control does it with github.com/kardianos/service.
func control(j *job, verb string) error {
	s, err := kardianos.New(noProgram{}, &kardianos.Config{Name: j.Name, Option: kardianos.KeyValue{"UserService": j.User}})
	if err != nil {
		return err
	}
	return kardianos.Control(s, verb)
}

// noProgram stands for a program that the library would run: it runs none.
type noProgram struct{}

func (noProgram) Start(kardianos.Service) error { return nil }
func (noProgram) Stop(kardianos.Service) error  { return nil }

// step makes one change, which is what in errors, or shows it in a dry run. After one that has failed none is made. A wait shows nothing.
func (j *job) step(what, shows string, do func() error) {
	j.changed = true
	switch {
	case j.err != nil:
	case j.Dry && shows != "":
		_, _ = fmt.Fprintln(j.Out, shows)
	case !j.Dry:
		if err := do(); err != nil {
			j.err = fmt.Errorf("%s: %w", what, err)
		}
	}
}

// wait waits until done says so.
func (j *job) wait(what string, done func() bool) {
	j.step(what, "", func() error { return j.until(done) })
}

// until waits until done says so, as long as the system's patience lasts.
func (j *job) until(done func() bool) error {
	for end := time.Now().Add(j.Patience); !done(); {
		if time.Now().After(end) {
			return fmt.Errorf("waited %v", j.Patience)
		}
		select {
		case <-j.ctx.Done():
			return context.Cause(j.ctx)
		case <-time.After(j.Tick):
		}
	}
	return nil
}

// write puts a file in its place all at once, with a mode that launchd takes: it loads no job that a group can write to.
func (j *job) write(path, text string) {
	shows := "write " + path + ", mode 0644:\n| " + strings.ReplaceAll(strings.TrimSuffix(text, "\n"), "\n", "\n| ")
	j.step("write "+path, shows, func() error { return replace(j.at(path), 0o644, []byte(text)) })
}

// directory makes a directory unless it is there.
func (j *job) directory(path string, mode os.FileMode) {
	if fi, err := os.Stat(j.at(path)); err == nil && fi.IsDir() {
		return
	}
	shows := fmt.Sprintf("make directory %s, mode %04o", path, mode)
	j.step("make the directory "+path, shows, func() error { return os.MkdirAll(j.at(path), mode) })
}

// at is where path is in the system.
func (s *system) at(path string) string { return filepath.Join(s.Root, path) }

// state is what there is of a job.
type state struct {
	files   map[string]string // contents by path, of what is there
	loaded  bool              // the manager knows it
	enabled bool              // it is started at boot, or when the user logs in
	active  bool              // a process runs, or is being started
	failed  bool              // systemd has given up
	fixed   bool              // its files are a package's
	pid     int
}

func (s state) installed() bool { return len(s.files) > 0 }

// state looks at the files of the job, and asks its manager. It changes nothing.
func (j *job) state() (state, error) {
	s, paths := state{files: map[string]string{}}, j.manager.paths()
	if d, ok := j.manager.(systemd); ok {
		if _, err := os.Stat(j.at(paths[0])); err != nil {
			paths = []string{"/usr/lib/systemd/" + map[bool]string{true: "user/", false: "system/"}[j.User] + d.service()}
			_, err = os.Stat(j.at(paths[0]))
			s.fixed = err == nil
		}
	}
	for _, path := range paths {
		b, err := os.ReadFile(j.at(path))
		if err == nil {
			s.files[path] = string(b)
		} else if !errors.Is(err, fs.ErrNotExist) {
			return s, fmt.Errorf("read what is installed: %w", err)
		}
	}
	return s, j.manager.ask(&s)
}

//go:embed templates
var templates embed.FS

// text is the file at path: of the template for its kind the lines that are for j, with j's values in their places. A line that begins
// with ?WORD,WORD| is for jobs that all of these words fit. It is not text/template: that calls methods by name, and has the linker keep all
// there are, a sixth of the program.
func (j *job) text(path string) string {
	kind := filepath.Ext(path)[1:]
	text, err := templates.ReadFile("templates/" + kind + ".tmpl")
	if err != nil {
		panic(err)
	}
	socket := j.Socket // which is the last of the arguments
	if rest, ok := strings.CutPrefix(socket, j.Runtime+"/"); ok && j.Runtime != "" {
		socket = "%t/" + rest // so the unit is the same for all users; NewJob has refused what is special in one
	}
	command := strings.Join(append(append([]string{j.Program}, j.Args[:len(j.Args)-1]...), socket), " ")
	put := strings.NewReplacer("{{title}}", j.Title, "{{group}}", j.Group, "{{command}}", command, "{{program}}", j.Program, "{{socket}}", socket, "{{link}}", strings.TrimPrefix(j.link(), "/var"))
	if kind == "plist" || kind == "conf" {
		put = strings.NewReplacer("{{name}}", xmlText(j.Name), "{{socket}}", xmlText(j.Socket), "{{log}}", xmlText(j.LogDir+"/"+j.LogName),
			"{{command}}", xmlText(append([]string{j.Program}, j.Args...)...))
	}
	fits := map[string]bool{"user": j.User, "system": !j.User, "activated": j.Activated}
	var b strings.Builder
	for line := range strings.Lines(string(text)) {
		words, rest, _ := strings.Cut(line, "|")
		if words, conditional := strings.CutPrefix(words, "?"); conditional {
			line = rest
			if slices.ContainsFunc(strings.Split(words, ","), func(word string) bool { return !fits[word] }) {
				continue
			}
		}
		_, _ = put.WriteString(&b, line)
	}
	return b.String()
}

// xmlText is texts as a property list has them, each in a string of its own.
func xmlText(texts ...string) string {
	var b strings.Builder
	for i, text := range texts {
		if i > 0 {
			b.WriteString("</string>\n\t\t<string>")
		}
		_ = xml.EscapeText(&b, []byte(text)) // the builder takes all
	}
	return b.String()
}
