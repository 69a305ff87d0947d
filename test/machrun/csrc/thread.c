// SPDX-License-Identifier: Apache-2.0

// Threads: macOS's thread-specific data behind GS, errno, pthread_*.
//
// Go for darwin/amd64 keeps its g at GS:0x30, slot 6 of the thread-specific data. Linux leaves GS to the program, so every
// thread gets an array of its own there: threads that the program makes, the first one, and those of libraries such as the
// simulator, whose pthread_create is ours too, as a symbol of the executable comes before one of a library.
#include "control.h"
#include "darwin.h"
#include <asm/prctl.h>
#include <dlfcn.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>

struct thread {
	void *tsd[512]; // GS points here; slot 0 is the thread itself
	int err;        // errno, as macOS numbers it
	pid_t tid;
	size_t stacksize;
	void *(*start)(void *);
	void *arg;
	sigset_t mask;
	bool foreign; // made by a library
	bool lives;
	struct thread *next;
};

// Every thread that there was. What ended is used again once Linux has no such thread any more: GS points there until then.
static struct thread *threads;
static pthread_mutex_t threads_lock = PTHREAD_MUTEX_INITIALIZER;

static __thread struct thread *me;

static struct thread *attach(struct thread *t) {
	t->tsd[0] = t;
	t->tsd[1] = &t->err;
	t->tid = (pid_t)syscall(SYS_gettid);
	if (syscall(SYS_arch_prctl, ARCH_SET_GS, t->tsd) != 0)
		abort();
	return me = t;
}

static struct thread *new_thread(void)
{
	pthread_mutex_lock(&threads_lock);
	struct thread *t = threads;
	while (t != NULL && (t->lives || syscall(SYS_tgkill, getpid(), t->tid, 0) == 0))
		t = t->next;
	if (t == NULL) {
		t = calloc(1, sizeof *t);
		if (t == NULL)
			abort();
		t->next = threads;
		threads = t;
	} else
		*t = (struct thread){.next = t->next};
	t->lives = true;
	pthread_mutex_unlock(&threads_lock);
	return t;
}

static void ended(struct thread *t)
{
	pthread_mutex_lock(&threads_lock);
	t->lives = false;
	pthread_mutex_unlock(&threads_lock);
}

struct thread *thread_self(void) { return me != NULL ? me : attach(new_thread()); }

int *darwin_error(void) { return &thread_self()->err; }

int fail(int e) {
	*darwin_error() = e;
	return -1;
}

long ret(long r) {
	if (r == -1)
		*darwin_error() = errno_to_darwin(errno);
	return r;
}

void thread_attach_main(void) { thread_self()->stacksize = 8 << 20; }

// after_fork: the number is another one in the child.
static void after_fork(void) {
	if (me != NULL)
		me->tid = (pid_t)syscall(SYS_gettid);
}

__attribute__((constructor)) static void init(void) { pthread_atfork(NULL, NULL, after_fork); }

// ---- creation ----

struct d_attr { int64_t sig; uint64_t stacksize; int32_t detach; };

int s_pthread_attr_init(struct d_attr *a) {
	memset(a, 0, 64);
	a->sig = 0x54485241; // 'THRA'
	a->stacksize = 512 << 10;
	return 0;
}

int s_pthread_attr_getstacksize(struct d_attr *a, size_t *size) { return *size = a->stacksize, 0; }

int s_pthread_attr_setstacksize(struct d_attr *a, size_t size) {
	if (size < 16384 || size % 4096 != 0)
		return D_EINVAL;
	return a->stacksize = size, 0;
}

int s_pthread_attr_setdetachstate(struct d_attr *a, int state) { return a->detach = state, 0; }

static void *begin(void *arg) {
	struct thread *t = attach(arg);
	pthread_sigmask(SIG_SETMASK, &t->mask, NULL);
	void *result = t->start(t->arg);
	sigset_t all;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, NULL); // a handler would find no thread any more
	ended(t);
	return result;
}

static int create(struct thread *t, pthread_t *id, const pthread_attr_t *attr) {
	static int (*real)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
	if (real == NULL)
		real = dlsym(RTLD_NEXT, "pthread_create");
	sigset_t all;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &t->mask); // until it is attached
	int e = real(id, attr, begin, t);
	pthread_sigmask(SIG_SETMASK, &t->mask, NULL);
	return e;
}

// pthread_create is that of libraries on Linux.
__attribute__((visibility("default"))) int pthread_create(pthread_t *id, const pthread_attr_t *attr, void *(*start)(void *), void *arg) {
	struct thread *t = new_thread();
	t->start = start, t->arg = arg, t->stacksize = 8 << 20, t->foreign = true;
	return create(t, id, attr);
}

int s_pthread_create(struct thread **out, struct d_attr *a, void *(*start)(void *), void *arg) {
	struct thread *t = new_thread();
	t->start = start, t->arg = arg, t->stacksize = a != NULL ? a->stacksize : 512 << 10;
	pthread_attr_t attr;
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, t->stacksize + (256 << 10)); // the shims need more than libSystem, and Go all that it was told
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	pthread_t id;
	int e = create(t, &id, &attr);
	pthread_attr_destroy(&attr);
	*out = t;
	return e == 0 ? 0 : errno_to_darwin(e);
}

int s_pthread_detach(struct thread *t) { return (void)t, 0; }

// Go's runtime asks for it when a thread enters Go that it has not made, as by a callback, and at the start of its own.
struct thread *s_pthread_self(void) {
	struct thread *t = thread_self();
	if (t->foreign)
		gauge_add(GAUGE_foreign_entries, 1);
	return t;
}

size_t s_pthread_get_stacksize_np(struct thread *t) { return t->stacksize; }

int s_pthread_kill(struct thread *t, int sig) {
	if (t == NULL && machrun_trace)
		dprintf(2, "machrun: pthread_kill(NULL, %d): ESRCH\n", sig);
	if (t == NULL) { // Go asks for it: an m that was just dropped
		gauge_add(GAUGE_killed_nobody, 1);
		return D_ESRCH;
	}
	int l = signal_to_linux(sig);
	if (l == 0)
		return sig == 0 ? 0 : D_EINVAL;
	return syscall(SYS_tgkill, getpid(), t->tid, l) == 0 ? 0 : errno_to_darwin(errno);
}

int s_pthread_setspecific(unsigned long key, void *value) {
	if (key < 256 || key >= 512) // no key that pthread_key_create gives
		return D_EINVAL;
	return thread_self()->tsd[key] = value, 0;
}

// ---- locks: in the memory of the program, 64 and 48 bytes; the first word of the opaque part is ours ----

struct d_lock { int64_t sig; uint32_t word; };

static long futex(uint32_t *w, int op, uint32_t value, const struct timespec *timeout) {
	return syscall(SYS_futex, w, op | FUTEX_PRIVATE_FLAG, value, timeout, NULL, 0);
}

int s_pthread_mutex_init(struct d_lock *m, void *attr) {
	(void)attr;
	m->sig = 0x4d555458; // 'MUTX'
	m->word = 0;
	return 0;
}

int s_pthread_mutex_lock(struct d_lock *m) { // 0 free, 1 held, 2 held and waited for
	uint32_t c = 0;
	if (__atomic_compare_exchange_n(&m->word, &c, 1, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
		return 0;
	while (__atomic_exchange_n(&m->word, 2, __ATOMIC_ACQUIRE) != 0)
		futex(&m->word, FUTEX_WAIT, 2, NULL);
	return 0;
}

int s_pthread_mutex_unlock(struct d_lock *m) {
	if (__atomic_exchange_n(&m->word, 0, __ATOMIC_RELEASE) == 2)
		futex(&m->word, FUTEX_WAKE, 1, NULL);
	return 0;
}

int s_pthread_cond_init(struct d_lock *c, void *attr) {
	(void)attr;
	c->sig = 0x434f4e44; // 'COND'
	c->word = 0;
	return 0;
}

static int wait_for(struct d_lock *c, struct d_lock *m, const struct timespec *timeout) {
	uint32_t seen = __atomic_load_n(&c->word, __ATOMIC_ACQUIRE);
	s_pthread_mutex_unlock(m);
	long r = futex(&c->word, FUTEX_WAIT, seen, timeout);
	int e = r == -1 ? errno : 0;
	s_pthread_mutex_lock(m);
	return e == ETIMEDOUT ? D_ETIMEDOUT : 0;
}

int s_pthread_cond_wait(struct d_lock *c, struct d_lock *m) { return wait_for(c, m, NULL); }

int s_pthread_cond_timedwait_relative_np(struct d_lock *c, struct d_lock *m, const struct d_timespec *t) {
	struct timespec ts = {t->sec, t->nsec};
	return wait_for(c, m, &ts);
}

static int wake(struct d_lock *c, uint32_t n) {
	__atomic_add_fetch(&c->word, 1, __ATOMIC_RELEASE);
	futex(&c->word, FUTEX_WAKE, n, NULL);
	return 0;
}

int s_pthread_cond_signal(struct d_lock *c) { return wake(c, 1); }
int s_pthread_cond_broadcast(struct d_lock *c) { return wake(c, INT32_MAX); }
