// SPDX-License-Identifier: Apache-2.0

// Mutexes and condition variables: in the memory of the program, 64 and 48 bytes, of which the first word of the opaque part is
// ours, with a futex.
#include "darwin.h"
#include "shims.h"

#include <linux/futex.h>
#include <sys/syscall.h>

enum { SIGNATURE_MUTEX = 0x4d555458, SIGNATURE_COND = 0x434f4e44 }; // as libpthread has them

struct d_lock {
	int64_t sig;
	uint32_t word;
};

static long futex(uint32_t *w, int op, uint32_t value, const struct timespec *timeout)
{
	return syscall(SYS_futex, w, op | FUTEX_PRIVATE_FLAG, value, timeout, NULL, 0);
}

static int made(struct d_lock *l, int64_t signature)
{
	l->sig = signature;
	l->word = 0;
	return 0;
}

int s_pthread_mutex_init(struct d_lock *m, void *attr) { return (void)attr, made(m, SIGNATURE_MUTEX); }
int s_pthread_cond_init(struct d_lock *c, void *attr) { return (void)attr, made(c, SIGNATURE_COND); }

int s_pthread_mutex_lock(struct d_lock *m) // 0 free, 1 held, 2 held and waited for
{
	uint32_t c = 0;
	if (__atomic_compare_exchange_n(&m->word, &c, 1, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
		return 0;
	while (__atomic_exchange_n(&m->word, 2, __ATOMIC_ACQUIRE) != 0)
		futex(&m->word, FUTEX_WAIT, 2, NULL);
	return 0;
}

int s_pthread_mutex_unlock(struct d_lock *m)
{
	if (__atomic_exchange_n(&m->word, 0, __ATOMIC_RELEASE) == 2)
		futex(&m->word, FUTEX_WAKE, 1, NULL);
	return 0;
}

static int wait_for(struct d_lock *c, struct d_lock *m, const struct timespec *timeout)
{
	uint32_t seen = __atomic_load_n(&c->word, __ATOMIC_ACQUIRE);
	s_pthread_mutex_unlock(m);
	long r = futex(&c->word, FUTEX_WAIT, seen, timeout);
	int e = r == -1 ? errno : 0;
	s_pthread_mutex_lock(m);
	return e == ETIMEDOUT ? D_ETIMEDOUT : 0;
}

int s_pthread_cond_wait(struct d_lock *c, struct d_lock *m) { return wait_for(c, m, NULL); }

int s_pthread_cond_timedwait_relative_np(struct d_lock *c, struct d_lock *m, const struct d_timespec *t)
{
	struct timespec ts = {t->sec, t->nsec};
	return wait_for(c, m, &ts);
}

static int wake(struct d_lock *c, uint32_t n)
{
	__atomic_add_fetch(&c->word, 1, __ATOMIC_RELEASE);
	futex(&c->word, FUTEX_WAKE, n, NULL);
	return 0;
}

int s_pthread_cond_signal(struct d_lock *c) { return wake(c, 1); }
int s_pthread_cond_broadcast(struct d_lock *c) { return wake(c, INT32_MAX); }
