// SPDX-License-Identifier: Apache-2.0

#include "harness.h"

static int64_t clock_ms(int id)
{
	struct d_timespec t;
	EQUAL(0, s_clock_gettime(id, &t));
	CHECK(t.nsec >= 0 && t.nsec < 1000000000);
	return t.sec * 1000 + t.nsec / 1000000;
}

CASE(all_clocks_of_macos)
{
	static const int ids[] = {0, 4, 5, 6, 8, 9, 12, 16};
	for (size_t i = 0; i < sizeof ids / sizeof *ids; i++) {
		int64_t before = clock_ms(ids[i]);
		CHECK(clock_ms(ids[i]) >= before);
	}
	CHECK(s_mach_continuous_time() >= s_mach_absolute_time() - 1000000000);
}

CASE(unknown_clocks)
{
	struct d_timespec t;
	FAILS(D_EINVAL, s_clock_gettime(1, &t));
	FAILS(D_EINVAL, s_clock_gettime(-1, &t));
	FAILS(D_EINVAL, s_clock_gettime(17, &t));
}
