// SPDX-License-Identifier: Apache-2.0

package ffi

import (
	"fmt"

	"github.com/ebitengine/purego"
)

// libraries are opened in this order, by path. The frameworks are in dyld's shared cache and have no file.
var libraries = []string{
	"/System/Library/Frameworks/vmnet.framework/vmnet",
	"/System/Library/Frameworks/CoreFoundation.framework/CoreFoundation",
	"/usr/lib/libSystem.B.dylib",
}

// Open opens vmnet.framework. A symbol that every supported macOS has and this one lacks is an error that names it.
func Open() (*API, error) {
	var handles []uintptr
	for _, lib := range libraries {
		h, err := purego.Dlopen(lib, purego.RTLD_NOW|purego.RTLD_LOCAL)
		if err != nil {
			return nil, fmt.Errorf("open vmnet.framework: %w", err)
		}
		handles = append(handles, h)
	}
	return newAPI(handles...)
}
