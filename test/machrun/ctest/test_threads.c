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
