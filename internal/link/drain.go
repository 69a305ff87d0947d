// SPDX-License-Identifier: Apache-2.0

//go:build !nodrain

package link

// drainOnClose is false only in a build for the test that shows what happens without the drain.
const drainOnClose = true
