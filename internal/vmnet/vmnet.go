// SPDX-License-Identifier: Apache-2.0

// Package vmnet is the network of macOS's vmnet.framework, in portable Go over the calls in api.
package vmnet
