// SPDX-License-Identifier: Apache-2.0

//go:build vmnetsim

package darwinapi

// UseSimulator takes the functions from the library lib of test/vmnetsim from now on, for tests.
func UseSimulator(lib string) error {
	l, err := open(lib)
	if err == nil {
		current.Store(l)
	}
	return err
}
