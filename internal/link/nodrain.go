// SPDX-License-Identifier: Apache-2.0

//go:build nodrain

package link

// drainOnClose is false only in this build, for the test that shows what happens without the drain.
const drainOnClose = false
