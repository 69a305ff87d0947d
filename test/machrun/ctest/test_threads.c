// SPDX-License-Identifier: Apache-2.0

#include "harness.h"

#include <pthread.h>

static _Atomic int stage; // of the other thread

static void *waits(void *self)
{
	*(struct thread **)self = s_pthread_self();
	atomic_store(&stage, 1);
	UNTIL(atomic_load(&stage) == 2);
	return NULL;
}

CASE(pthread_kill_wants_a_thread)
{
	static struct control own;
	the_control = &own;
	EQUAL(D_ESRCH, s_pthread_kill(NULL, 0));
	EQUAL(D_ESRCH, s_pthread_kill(NULL, 99)); // before the signal is looked at
	EQUAL(0, s_pthread_kill(s_pthread_self(), 0));
	EQUAL(D_EINVAL, s_pthread_kill(s_pthread_self(), 32));
	EQUAL(D_EINVAL, s_pthread_kill(s_pthread_self(), -1));
	EQUAL(2, own.killed_nobody);
}

CASE(pthread_kill_of_an_ended_thread)
{
	struct thread *t = NULL, *self = NULL;
	EQUAL(0, s_pthread_create(&t, NULL, waits, &self));
	UNTIL(atomic_load(&stage) == 1);
	CHECK(t == self);
	EQUAL(0, s_pthread_kill(t, 0));
	atomic_store(&stage, 2);
	UNTIL(s_pthread_kill(t, 0) == D_ESRCH);
}

CASE(threads_of_libraries_are_threads_too)
{
	struct thread *self = NULL;
	pthread_t t;
	CHECK(pthread_create(&t, NULL, waits, &self) == 0);
	UNTIL(atomic_load(&stage) == 1);
	EQUAL(0, s_pthread_kill(self, 0));
	CHECK(self != s_pthread_self());
	atomic_store(&stage, 2);
	pthread_join(t, NULL);
	EQUAL(D_ESRCH, s_pthread_kill(self, 0));
}

static void *slot(void *unused)
{
	(void)unused;
	uint64_t before = 1, after = 0;
	s_pthread_setspecific(256, (void *)7);
	__asm__ volatile("mov %%gs:0x30, %0" : "=r"(before));
	__asm__ volatile("mov %%gs:%1, %0" : "=r"(after) : "m"(*(uint64_t *)(256 * 8)));
	EQUAL(0, before); // a new thread has nothing in Go's slot
	EQUAL(7, after);
	__asm__ volatile("mov %0, %%gs:0x30" : : "r"(after)); // which the next thread shall not see
	return NULL;
}

CASE(thread_specific_data_is_behind_gs)
{
	for (int i = 0; i < 3; i++) {
		pthread_t t;
		CHECK(pthread_create(&t, NULL, slot, NULL) == 0);
		pthread_join(t, NULL);
	}
	EQUAL(D_EINVAL, s_pthread_setspecific(6, NULL));
	EQUAL(D_EINVAL, s_pthread_setspecific(512, NULL));
}

static void *nothing(void *p) { return p; }

CASE(memory_of_ended_threads_is_used_again)
{
	struct thread *all[64];
	int different = 0;
	for (int i = 0; i < 64; i++) {
		EQUAL(0, s_pthread_create(&all[i], NULL, nothing, NULL));
		UNTIL(s_pthread_kill(all[i], 0) == D_ESRCH);
		usleep(1000);
		bool seen = false;
		for (int j = 0; j < i; j++)
			seen |= all[j] == all[i];
		different += !seen;
	}
	CHECK(different < 32);
}

CASE(a_child_has_one_thread)
{
	struct thread *t = NULL, *self = NULL;
	EQUAL(0, s_pthread_create(&t, NULL, waits, &self));
	UNTIL(atomic_load(&stage) == 1);
	long child = fork();
	if (child == 0)
		_exit(s_pthread_kill(t, 0) == D_ESRCH && s_pthread_kill(s_pthread_self(), 0) == 0 ? 0 : 1);
	int status = -1;
	EQUAL(child, s_wait4((int)child, &status, 0, NULL));
	EQUAL(0, status);
	atomic_store(&stage, 2);
}

static uint64_t cond[6], mutex[8];

static void *signals(void *unused)
{
	s_pthread_mutex_lock((void *)mutex);
	atomic_store(&stage, 1);
	s_pthread_cond_broadcast((void *)cond);
	s_pthread_mutex_unlock((void *)mutex);
	return unused;
}

CASE(conditions)
{
	struct d_timespec soon = {0, 1000000}, late = {30, 0};
	s_pthread_mutex_init((void *)mutex, NULL);
	s_pthread_cond_init((void *)cond, NULL);
	s_pthread_mutex_lock((void *)mutex);
	EQUAL(D_ETIMEDOUT, s_pthread_cond_timedwait_relative_np((void *)cond, (void *)mutex, &soon));
	struct thread *t;
	EQUAL(0, s_pthread_create(&t, NULL, signals, NULL));
	while (atomic_load(&stage) == 0)
		EQUAL(0, s_pthread_cond_timedwait_relative_np((void *)cond, (void *)mutex, &late));
	s_pthread_mutex_unlock((void *)mutex);
}
