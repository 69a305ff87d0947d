// SPDX-License-Identifier: Apache-2.0

package watch

import "time"

// SetClock has w ask now for the time. It is called before any other method.
func (w *Watch) SetClock(now func() time.Time) { w.now = now }
