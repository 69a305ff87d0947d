// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"context"
	"fmt"
	"time"
)

// A task finds out one thing. What it found is taken over by the function that it returns, so not when it is late.
type task struct {
	check, what string
	run         func(context.Context) (take func(), err error)
}

// limited carries tasks out side by side.
func (f *facts) limited(ctx context.Context, limit time.Duration, tasks []task) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	late, end := context.WithTimeout(context.WithoutCancel(ctx), limit+grace) // a task that heeds its context gets the chance to say so
	defer end()
	type result struct {
		take func()
		err  error
	}
	results := make([]chan result, len(tasks))
	for i, t := range tasks {
		results[i] = make(chan result, 1)
		go func() {
			take, err := t.run(ctx)
			results[i] <- result{take, err}
		}()
	}
	for i, t := range tasks {
		var r result
		select {
		case r = <-results[i]:
		case <-late.Done():
			select {
			case r = <-results[i]:
			default:
				r = result{err: fmt.Errorf("looking for it took more than %v", limit)}
			}
		}
		if r.err != nil {
			f.findings = append(f.findings, broken(t.check, t.what+" is not known: "+r.err.Error()))
		} else if r.take != nil {
			r.take()
		}
	}
}
