// SPDX-License-Identifier: Apache-2.0

package migrate_test

import "syscall"

func changeTime(st *syscall.Stat_t) int64 { return st.Ctimespec.Nano() }
