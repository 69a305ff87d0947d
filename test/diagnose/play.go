// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"

	"github.com/socket-vmnet2/socket_vmnet2/test/e2e/lab"
)

// A scene is one failure from its beginning to its end, or the tour.
type scene struct {
	name string
	play func(*stage)
	sim  bool // on the simulated vmnet
	// apart: in a network namespace of its own, so that nothing of this host's is changed.
	apart bool
	tools bool // it needs what lookForTools looks for
}

// lookForTools looks for what scenes with real virtual machines need.
func lookForTools() error {
	_, err := lab.FindTools(true)
	for _, name := range []string{"tshark", "curl"} {
		if _, look := exec.LookPath(name); look != nil {
			err = errors.Join(err, fmt.Errorf("%w: %w", lab.ErrMissing, look))
		}
	}
	return err
}

func sceneOf(name string) (scene, bool) {
	for _, s := range scenes {
		if s.name == name {
			return s, true
		}
	}
	return scene{}, false
}

// A result is what a scene printed, and what was wrong with it.
type result struct {
	Scene string `json:"scene"`
	transcript
	Faults []string `json:"faults"`
}

func (r *result) err() error {
	if len(r.Faults) == 0 {
		return nil
	}
	return fmt.Errorf("scene %s:\n%s", r.Scene, strings.Join(r.Faults, "\n"))
}

// atOnce is how many scenes are played at the same time: most of one is waiting.
const atOnce = 4

// playAll plays scenes, and returns their results in the same order.
func playAll(ctx context.Context, w *world, list []scene) []*result {
	results := make([]*result, len(list))
	places := make(chan struct{}, atOnce)
	var wg sync.WaitGroup
	for i, s := range list {
		wg.Go(func() {
			places <- struct{}{}
			results[i] = play(ctx, w, s)
			<-places
		})
	}
	wg.Wait()
	return results
}

// play plays one scene, which has an end whatever happens in it.
func play(ctx context.Context, w *world, s scene) *result {
	if s.apart {
		return playApart(ctx, w, s)
	}
	return playHere(ctx, w, s)
}

func playHere(ctx context.Context, w *world, s scene) *result {
	r := &result{Scene: s.name}
	st, err := newStage(ctx, w, &r.transcript)
	if err != nil {
		r.Faults = []string{err.Error()}
		return r
	}
	st.sim = s.sim
	s.play(st)
	st.fault(st.close())
	r.Faults = st.faults
	return r
}

// What a scene in a namespace of its own is told by.
const (
	sceneEnv = "DIAGNOSE_SCENE"
	worldEnv = "DIAGNOSE_WORLD"
)

// playApart plays a scene in a process with a network of its own, where this user may have one, and here otherwise.
func playApart(ctx context.Context, w *world, s scene) *result {
	failed := func(err error) *result { return &result{Scene: s.name, Faults: []string{err.Error()}} }
	cmd, out, err := startApart(ctx, w.self(), sceneEnv+"="+s.name, worldEnv+"="+w.dir)
	if errors.Is(err, errors.ErrUnsupported) {
		return playHere(ctx, w, s)
	}
	if err != nil {
		return failed(err)
	}
	err = cmd.Wait()
	r := &result{}
	if err := errors.Join(err, json.Unmarshal(out.Bytes(), r)); err != nil {
		return failed(fmt.Errorf("%w: %s", err, out))
	}
	return r
}

// playInside is what that process does.
func playInside(name string, out io.Writer) error {
	s, ok := sceneOf(name)
	if !ok {
		return fmt.Errorf("no scene %q", name)
	}
	return json.NewEncoder(out).Encode(playHere(context.Background(), &world{dir: os.Getenv(worldEnv)}, s))
}
