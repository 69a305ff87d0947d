// SPDX-License-Identifier: Apache-2.0

//go:build !darwin

package inherit

// activateSocket says that there is no launchd here.
func activateSocket(string) ([]int, error) { return nil, errNotLaunchd }
