// SPDX-License-Identifier: Apache-2.0

#include "harness.h"

#include <pthread.h>
#include <signal.h>
#include <time.h>

typedef long any(long, long, long, long, long, long);

CASE(no_control_file_costs_nothing)
{
	CHECK(shim("read") == (void *)s_read);
	EQUAL(0, switch_value("isconn"));
}

CASE(calls_fail_by_name)
{
	flip(FAIL_read, 5, 1, 1);
	any *call = (any *)shim("read");
	char b;
	FAILS(9, call(-1, (long)&b, 1, 0, 0, 0)); // let pass: EBADF
	FAILS(5, call(-1, (long)&b, 1, 0, 0, 0));
	FAILS(9, call(-1, (long)&b, 1, 0, 0, 0)); // used up
}

CASE(functions_of_threads_return_their_errno)
{
	SET(FAIL_pthread_kill, 3);
	EQUAL(3, ((any *)shim("pthread_kill"))((long)s_pthread_self(), 0, 0, 0, 0, 0));
}

CASE(slow_calls)
{
	flip(SLOW_read, 50, 1, 0);
	uint64_t before = s_mach_absolute_time();
	((any *)shim("read"))(-1, 0, 0, 0, 0, 0);
	CHECK(s_mach_absolute_time() - before >= 50000000);
}

static _Atomic uint64_t signalled_at;
static void signalled(int unused) { (void)unused, signalled_at = s_mach_absolute_time(); }
static void *signals(void *to)
{
	usleep(10000);
	pthread_kill(*(pthread_t *)to, SIGUSR1);
	return NULL;
}

CASE(a_stopped_thread_takes_no_signals)
{
	SET(STOP_read, 100);
	signal(SIGUSR1, signalled);
	pthread_t t, self = pthread_self();
	CHECK(pthread_create(&t, NULL, signals, &self) == 0);
	uint64_t before = s_mach_absolute_time();
	((any *)shim("read"))(-1, 0, 0, 0, 0, 0);
	pthread_join(t, NULL);
	CHECK(signalled_at - before >= 100000000);
}

static void *forks(void *unused)
{
	usleep(10000);
	if (s_fork() == 0)
		_exit(0);
	return unused;
}

CASE(fork_gap_ends_with_a_fork)
{
	SET(SWITCH_fork_gap, 60000);
	pthread_t t;
	CHECK(pthread_create(&t, NULL, forks, NULL) == 0);
	uint64_t before = s_mach_absolute_time();
	control_received(0);
	CHECK(s_mach_absolute_time() - before < 30000000000);
	pthread_join(t, NULL);
	EQUAL(1, the_control->record[GAUGE_forks].value);
}
