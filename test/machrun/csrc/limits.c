// SPDX-License-Identifier: Apache-2.0

// Limits, what was used, sysconf, random numbers.
#include "darwin.h"

#include <sys/random.h>
#include <sys/resource.h>

#define D_INFINITY ((uint64_t)INT64_MAX)

static int limit(int r)
{
	static const int8_t map[] = {
		RLIMIT_CPU, RLIMIT_FSIZE, RLIMIT_DATA, RLIMIT_STACK, RLIMIT_CORE, RLIMIT_AS, RLIMIT_MEMLOCK, RLIMIT_NPROC, RLIMIT_NOFILE,
	};
	return r >= 0 && r < (int)sizeof map ? map[r] : -1;
}

static uint64_t limit_out(rlim_t l) { return l == RLIM_INFINITY ? D_INFINITY : l; }
static rlim_t limit_in(uint64_t d) { return d >= D_INFINITY ? RLIM_INFINITY : d; }

long s_getrlimit(int r, uint64_t *d)
{
	struct rlimit l;
	if (limit(r) < 0)
		return fail(D_EINVAL);
	if (getrlimit(limit(r), &l) != 0)
		return ret(-1);
	d[0] = limit_out(l.rlim_cur);
	d[1] = limit_out(l.rlim_max);
	return 0;
}

long s_setrlimit(int r, const uint64_t *d)
{
	if (limit(r) < 0)
		return fail(D_EINVAL);
	struct rlimit l = {limit_in(d[0]), limit_in(d[1])};
	return ret(setrlimit(limit(r), &l));
}

void rusage_out(struct d_rusage *d, const struct rusage *l)
{
	d->utime = (struct d_timeval){l->ru_utime.tv_sec, (int32_t)l->ru_utime.tv_usec, 0};
	d->stime = (struct d_timeval){l->ru_stime.tv_sec, (int32_t)l->ru_stime.tv_usec, 0};
	const int64_t rest[14] = {
		l->ru_maxrss * 1024, // in bytes there: getrusage(2)
		l->ru_ixrss, l->ru_idrss, l->ru_isrss, l->ru_minflt, l->ru_majflt, l->ru_nswap, l->ru_inblock, l->ru_oublock,
		l->ru_msgsnd, l->ru_msgrcv, l->ru_nsignals, l->ru_nvcsw, l->ru_nivcsw,
	};
	memcpy(d->rest, rest, sizeof rest);
}

long s_getrusage(int who, struct d_rusage *d)
{
	struct rusage l;
	if (getrusage(who, &l) != 0)
		return ret(-1);
	rusage_out(d, &l);
	return 0;
}

// The numbers are those of Apple's unistd.h.
long s_sysconf(int name)
{
	switch (name) {
	case 5:
		return sysconf(_SC_OPEN_MAX);
	case 29: // PAGESIZE
	case 70: // GETGR_R_SIZE_MAX
	case 71: // GETPW_R_SIZE_MAX
		return 4096;
	case 57:
	case 58:
		return sysconf(_SC_NPROCESSORS_ONLN);
	}
	TRACE("sysconf(%d) is not known", name);
	return fail(D_EINVAL);
}

void s_arc4random_buf(void *b, size_t n)
{
	for (size_t done = 0; done < n;) {
		ssize_t r = getrandom((char *)b + done, n - done, 0);
		if (r > 0)
			done += (size_t)r;
	}
}
