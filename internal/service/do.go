// SPDX-License-Identifier: Apache-2.0

package service

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Install installs the job and starts it, or changes the one that is there and starts it again.
func (s *Service) Install(ctx context.Context) error {
	if err := s.allowed(ctx, s.installFaults); err != nil {
		return err
	}
	before, err := s.ask(ctx)
	if err != nil {
		return err
	}
	p := &plan{sys: s.sys}
	if err := s.manager.install(before, p); err != nil {
		return err
	}
	if len(p.steps) == 0 {
		s.say("is installed like this and runs: there is nothing to do")
		return nil
	}
	if err := s.serving(ctx, p); err != nil || s.dry {
		return err
	}
	if before.installed() {
		s.say("was installed before: it is changed and has been started again, on %s", s.job.Socket)
	} else {
		s.say("is installed and started, on %s", s.job.Socket)
	}
	return nil
}

// Uninstall stops the job and removes it.
func (s *Service) Uninstall(ctx context.Context) error {
	before, p, err := s.plan(ctx)
	if err != nil {
		return err
	}
	if !before.installed() && !before.loaded {
		s.say("is not installed: there is nothing to do")
		return nil
	}
	s.findSocket(before)
	s.manager.uninstall(before, p)
	if err := p.carryOut(ctx, s.out, s.dry); err != nil {
		return err
	}
	rest := &plan{sys: s.sys}
	s.leftovers(rest)
	if err := rest.carryOut(ctx, s.out, s.dry); err != nil || s.dry {
		return err
	}
	s.say("is uninstalled. Kept are %s", s.kept())
	return nil
}

// Start starts the job.
func (s *Service) Start(ctx context.Context) error {
	before, p, err := s.plan(ctx)
	if err != nil {
		return err
	}
	switch {
	case !before.installed():
		return s.notInstalled()
	case before.active:
		s.say("runs already: there is nothing to do")
		return nil
	}
	s.findSocket(before)
	s.manager.start(before, p)
	if err := s.serving(ctx, p); err != nil || s.dry {
		return err
	}
	s.say("is started, on %s", s.job.Socket)
	return nil
}

// Stop stops the job. It stays installed.
func (s *Service) Stop(ctx context.Context) error {
	before, p, err := s.plan(ctx)
	if err != nil {
		return err
	}
	s.manager.stop(before, p)
	if len(p.steps) == 0 {
		if !before.installed() {
			s.say("is not installed: there is nothing to do")
			return nil
		}
		s.say("does not run: there is nothing to do")
		return nil
	}
	if err := p.carryOut(ctx, s.out, s.dry); err != nil || s.dry {
		return err
	}
	s.say("is stopped until the next boot or login, or \"service start\"; \"service uninstall\" removes it")
	return nil
}

// Restart starts the job again, or starts it if it does not run.
func (s *Service) Restart(ctx context.Context) error {
	before, p, err := s.plan(ctx)
	if err != nil {
		return err
	}
	if !before.installed() {
		return s.notInstalled()
	}
	s.findSocket(before)
	s.manager.restart(before, p)
	if err := s.serving(ctx, p); err != nil || s.dry {
		return err
	}
	s.say("is started again, on %s; \"socket_vmnet2 upgrade\" does that without disconnecting anybody", s.job.Socket)
	return nil
}

func (s *Service) notInstalled() error {
	return fmt.Errorf("%s is not installed: \"socket_vmnet2 service install\" with the same options does that", s.job.Name)
}

// plan is what each change of an installed job begins with.
func (s *Service) plan(ctx context.Context) (state, *plan, error) {
	if err := s.allowed(ctx, s.commonFaults); err != nil {
		return state{}, nil, err
	}
	before, err := s.ask(ctx)
	return before, &plan{sys: s.sys}, err
}

// ask asks for the state. A dry run goes on without a manager: there nothing is installed.
func (s *Service) ask(ctx context.Context) (state, error) {
	before, err := s.manager.state(ctx)
	if err != nil && s.dry {
		if s.managerFault() == nil { // that has been said
			s.warn(err.Error())
		}
		return before, nil
	}
	return before, err
}

// allowed refuses what cannot be done on this system. A dry run only says so.
func (s *Service) allowed(ctx context.Context, faults func(context.Context) []error) error {
	found := faults(ctx)
	if !s.dry {
		return errors.Join(found...)
	}
	for _, err := range found {
		s.warn(err.Error())
	}
	return nil
}

// serving carries p out and waits until the socket of the job is served. systemctl does that by itself.
func (s *Service) serving(ctx context.Context, p *plan) error {
	if s.job.Socket != "" && s.sys.GOOS == "darwin" {
		p.wait(fmt.Sprintf("it is started, but nothing serves %s yet; see %s", s.job.Socket, s.manager.logs()), func(context.Context) bool {
			return s.sys.Reach(s.job.Socket) == nil
		})
	}
	return p.carryOut(ctx, s.out, s.dry)
}

// until waits until done says so, as long as the system's patience lasts.
func (s *System) until(ctx context.Context, what string, done func(ctx context.Context) bool) error {
	tick := time.NewTicker(s.Tick)
	defer tick.Stop()
	for end := time.Now().Add(s.Patience); ; {
		if done(ctx) {
			return nil
		}
		if time.Now().After(end) {
			return fmt.Errorf("%s (waited %v)", what, s.Patience)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: %w", what, context.Cause(ctx))
		case <-tick.C:
		}
	}
}
