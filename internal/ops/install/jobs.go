// SPDX-License-Identifier: Apache-2.0

package install

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// A job is what a service manager runs from the prefix.
type job struct {
	Name    string
	File    string // without the staged root
	Restart string // the command
}

// Jobs finds the jobs of launchd and units of systemd that name a program below the prefix, whatever made them. What runs goes on
// as the program that it was until it is started again.
func Jobs(o Options) (jobs []job) {
	p, err := o.place()
	if err != nil {
		return nil
	}
	label := regexp.MustCompile(`<key>Label</key>\s*<string>([^<]+)</string>`) // launchd's name for a job
	for _, kind := range []struct{ dir, suffix, restart string }{
		{"/Library/LaunchDaemons", ".plist", "sudo launchctl kickstart -k system/"},
		{"/etc/systemd/system", ".service", "sudo systemctl restart "},
	} {
		entries, err := os.ReadDir(filepath.Join(p.root, kind.dir))
		if err != nil {
			continue // a machine without launchd, or without systemd
		}
		for _, e := range entries {
			file := filepath.Join(kind.dir, e.Name())
			b, err := os.ReadFile(filepath.Join(p.root, file))
			if err != nil || !strings.HasSuffix(file, kind.suffix) || !strings.Contains(string(b), filepath.Join(p.prefix, "bin/socket_vmnet")) {
				continue
			}
			name := strings.TrimSuffix(e.Name(), ".plist")
			if found := label.FindSubmatch(b); found != nil {
				name = string(found[1])
			}
			jobs = append(jobs, job{name, file, kind.restart + name})
		}
	}
	return jobs
}
