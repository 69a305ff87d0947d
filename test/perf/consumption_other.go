// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package main

import "errors"

// procConsumption is for Linux.
func procConsumption(int) (consumption, error) {
	return consumption{}, errors.New("there is no /proc here")
}
