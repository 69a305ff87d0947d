// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"fmt"
	"io"
	"io/fs"
)

// File type bits of the mode field of a cpio entry, those of struct stat.
const (
	cpioDir     = 0o040000
	cpioRegular = 0o100000
	cpioSymlink = 0o120000
)

// A cpioWriter writes the archive form that Linux unpacks as its first root file system: "newc" of cpio(5). An entry is
//
//	"070701" ino mode uid gid nlink mtime filesize devmajor devminor rdevmajor rdevminor namesize check   (8 hex digits each)
//	name NUL, padded to 4 bytes
//	data, padded to 4 bytes
type cpioWriter struct {
	w   io.Writer
	ino int
	err error
}

func newCPIO(w io.Writer) *cpioWriter { return &cpioWriter{w: w} }

func (c *cpioWriter) dir(name string, perm fs.FileMode) { c.entry(name, cpioDir|uint32(perm), nil) }

func (c *cpioWriter) file(name string, perm fs.FileMode, data []byte) {
	c.entry(name, cpioRegular|uint32(perm), data)
}

func (c *cpioWriter) symlink(name, target string) {
	c.entry(name, cpioSymlink|0o777, []byte(target))
}

// close writes the trailer and returns the first error there was.
func (c *cpioWriter) close() error {
	c.entry("TRAILER!!!", 0, nil)
	return c.err
}

func (c *cpioWriter) entry(name string, mode uint32, data []byte) {
	c.ino++
	head := fmt.Sprintf("070701%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%s\x00",
		c.ino, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(name)+1, 0, name)
	c.padded([]byte(head))
	c.padded(data)
}

func (c *cpioWriter) padded(b []byte) {
	if c.err != nil {
		return
	}
	if _, c.err = c.w.Write(b); c.err != nil {
		return
	}
	if rest := len(b) % 4; rest != 0 {
		_, c.err = c.w.Write(make([]byte, 4-rest))
	}
}
