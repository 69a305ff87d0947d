// SPDX-License-Identifier: Apache-2.0

package inherit

// abstractNames: sockets may have names outside the file system.
const abstractNames = true
