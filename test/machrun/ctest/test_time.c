// SPDX-License-Identifier: Apache-2.0

#include "harness.h"

static int64_t clock_ms(int id)
{
	struct d_timespec t;
	EQUAL(0, s_clock_gettime(id, &t));
	CHECK(t.nsec >= 0 && t.nsec < 1000000000);
	return t.sec * 1000 + t.nsec / 1000000;
}

CASE(clocks_while_the_machine_sleeps)
{
	enum { ASLEEP = 3600500, LONG = 1800000 };
	static const struct {
		int id;
		bool jumps;
	} clocks[] = {{0, true}, {4, true}, {5, true}, {6, true}, {8, false}, {9, false}, {12, false}, {16, false}};
	int64_t before[8];
	for (int i = 0; i < 8; i++)
		before[i] = clock_ms(clocks[i].id);
	uint64_t absolute = s_mach_absolute_time(), continuous = s_mach_continuous_time();
	SET(SWITCH_asleep_ms, ASLEEP);
	for (int i = 0; i < 8; i++) {
		int64_t went = clock_ms(clocks[i].id) - before[i];
		CHECK(went >= (clocks[i].jumps ? ASLEEP : 0));
		CHECK(went < (clocks[i].jumps ? ASLEEP : 0) + LONG);
	}
	CHECK(s_mach_absolute_time() - absolute < LONG * 1000000ull);
	CHECK(s_mach_continuous_time() - continuous >= ASLEEP * 1000000ull);
}

CASE(unknown_clocks)
{
	struct d_timespec t;
	FAILS(D_EINVAL, s_clock_gettime(1, &t));
	FAILS(D_EINVAL, s_clock_gettime(-1, &t));
	FAILS(D_EINVAL, s_clock_gettime(17, &t));
}
