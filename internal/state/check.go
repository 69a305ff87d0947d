// SPDX-License-Identifier: Apache-2.0

package state

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// Check tells whether this program can read content, which is that of a File. Its error says what it cannot read.
func Check(content []byte) error {
	_, err := decode(content)
	return err
}

// Content is what is in the file now, as it was last written; empty if there is none or nothing is kept. It is checked as
// in Open.
func (f *File) Content() ([]byte, error) {
	if f.path == "" {
		return nil, nil
	}
	f.writing.Lock()
	defer f.writing.Unlock()
	b, err := readTrusted(f.path, os.Geteuid())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read state: %w", err)
	}
	return b, nil
}
