// SPDX-License-Identifier: Apache-2.0

package compat

import (
	"strconv"
	"strings"
)

// escape replaces what does not belong into one line of a log: control characters, bytes that are not UTF-8 and everything
// else that strconv calls unprintable. Values may come from guests.
func escape(s string) string {
	if clean(s) {
		return s
	}
	q := strconv.Quote(s)
	return unquoter.Replace(q[1 : len(q)-1])
}

// unquoter undoes what strconv.Quote does to quotation marks and backslashes alone.
var unquoter = strings.NewReplacer(`\"`, `"`, `\\`, `\`)

// clean tells whether escape has nothing to do, which is nearly always.
func clean(s string) bool {
	for _, c := range []byte(s) {
		if c < ' ' || c > '~' {
			return false
		}
	}
	return true
}

// quoted is s between the quotation marks of socket_vmnet's messages. The line is escaped when it is printed.
func quoted(s string) string { return `"` + s + `"` }
