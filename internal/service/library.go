// SPDX-License-Identifier: Apache-2.0

package service

import (
	"errors"
	"fmt"

	kardianos "github.com/kardianos/service"
)

// kardianosSystems are the library's names for the managers that this package knows.
var kardianosSystems = map[string]string{"darwin": "darwin-launchd", "linux": "linux-systemd"}

// kardianosLibrary writes jobs with github.com/kardianos/service.
type kardianosLibrary struct{ goos string }

// of is the library's service for j, whose file has this text. It has no "{{", so it is a template without keys.
func (k kardianosLibrary) of(j *Job, text string) (kardianos.Service, error) {
	for _, system := range kardianos.AvailableSystems() {
		if system.String() == kardianosSystems[k.goos] {
			return system.New(nobody{}, &kardianos.Config{
				Name:       j.Name,
				Executable: j.Program,
				Arguments:  j.Args,
				Option: kardianos.KeyValue{
					"UserService": j.User, "LaunchdConfig": text, "SystemdScript": text,
				},
			})
		}
	}
	return nil, fmt.Errorf("%w on %s", errNoManager, k.goos)
}

var errNoManager = errors.New("no service manager is known")

// nobody stands for a program that the library would run: it runs none.
type nobody struct{}

func (nobody) Start(kardianos.Service) error { return nil }
func (nobody) Stop(kardianos.Service) error  { return nil }

// Install writes the file. For systemd it enables the unit and has systemd read it.
func (k kardianosLibrary) Install(j *Job, text string) error {
	s, err := k.of(j, text)
	if err != nil {
		return err
	}
	return s.Install()
}

// Uninstall disables the unit, removes its file and has systemd forget it.
func (k kardianosLibrary) Uninstall(j *Job) error {
	return k.with(j, kardianos.Service.Uninstall)
}

// Start starts the unit.
func (k kardianosLibrary) Start(j *Job) error { return k.with(j, kardianos.Service.Start) }

// Stop stops the unit.
func (k kardianosLibrary) Stop(j *Job) error { return k.with(j, kardianos.Service.Stop) }

// Restart starts the unit again.
func (k kardianosLibrary) Restart(j *Job) error { return k.with(j, kardianos.Service.Restart) }

func (k kardianosLibrary) with(j *Job, do func(kardianos.Service) error) error {
	s, err := k.of(j, "")
	if err != nil {
		return err
	}
	return do(s)
}

// detected is what the library finds to be managing services here.
func detected() string {
	if s := kardianos.ChosenSystem(); s != nil {
		return s.String()
	}
	return ""
}
