// SPDX-License-Identifier: Apache-2.0

package install

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
)

// A Job is what a service manager runs from the prefix.
type Job struct {
	Name    string
	File    string // without the staged root
	Restart string // the command
}

// label finds launchd's name for a job.
var label = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`<key>Label</key>\s*<string>([^<]+)</string>`) })

// Jobs finds the jobs of launchd and units of systemd that name a program below the prefix, whoever made them. What runs
// goes on as the program that it was until it is started again.
func Jobs(o Options) []Job {
	p, err := o.place()
	if err != nil {
		return nil
	}
	var jobs []Job
	for _, path := range p.inDir("Library/LaunchDaemons", ".plist") {
		text := p.mentions(path)
		name := strings.TrimSuffix(filepath.Base(path), ".plist")
		if found := label().FindStringSubmatch(text); found != nil {
			name = found[1]
		}
		if text != "" {
			jobs = append(jobs, Job{name, below(p.root, path), "sudo launchctl kickstart -k system/" + name})
		}
	}
	for _, path := range p.inDir("etc/systemd/system", ".service") {
		if p.mentions(path) != "" {
			name := filepath.Base(path)
			jobs = append(jobs, Job{name, below(p.root, path), "sudo systemctl restart " + name})
		}
	}
	return jobs
}

// mentions returns the text of a file that names a program of ours, "" for any other.
func (p place) mentions(path string) string {
	b, err := os.ReadFile(path)
	if err == nil && strings.Contains(string(b), filepath.Join(p.prefix, "bin/socket_vmnet")) {
		return string(b)
	}
	return ""
}

// inDir are the files in a directory that end in suffix.
func (p place) inDir(dir, suffix string) (paths []string) {
	dir = filepath.Join("/", p.root, dir)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil // a machine without launchd, or without systemd
	}
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), suffix) {
			paths = append(paths, filepath.Join(dir, e.Name()))
		}
	}
	return paths
}
