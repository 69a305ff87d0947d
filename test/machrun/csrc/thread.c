// SPDX-License-Identifier: Apache-2.0

// Threads: macOS's thread-specific data behind GS, errno, pthread_*.
//
// Go for darwin/amd64 keeps its g at GS:0x30, slot 6 of the thread-specific data. Linux leaves GS to the program, so every
// thread gets an array of its own there: threads that the program makes, the first one, and those of libraries such as the
// simulator, whose pthread_create is ours too, as a symbol of the executable comes before one of a library.
#include "control.h"
#include "darwin.h"
#include "shims.h"

#include <asm/prctl.h>
#include <dlfcn.h>
#include <pthread.h>
#include <sys/syscall.h>

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

enum { MAIN_STACK = 8 << 20, DEFAULT_STACK = 512 << 10, SHIMS_STACK = 256 << 10, SMALLEST_STACK = 16384 };

static __thread struct thread *me;

// Every thread that there was. What ended is used again once Linux has no such thread any more: GS points there until then.
static struct thread *threads;
static pthread_mutex_t threads_lock = PTHREAD_MUTEX_INITIALIZER;

// Signals wait meanwhile, as a handler may ask for threads too.
static void lock_threads(sigset_t *before)
{
	sigset_t all;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, before);
	pthread_mutex_lock(&threads_lock);
}

static void unlock_threads(const sigset_t *before)
{
	pthread_mutex_unlock(&threads_lock);
	pthread_sigmask(SIG_SETMASK, before, NULL);
}

static struct thread *new_thread(void)
{
	sigset_t before;
	lock_threads(&before);
	struct thread *t = threads;
	while (t != NULL && (t->lives || (t->tid != 0 && syscall(SYS_tgkill, getpid(), t->tid, 0) == 0)))
		t = t->next;
	if (t == NULL) {
		t = calloc(1, sizeof *t);
		if (t == NULL)
			abort();
		t->next = threads;
		threads = t;
	} else {
		*t = (struct thread){.next = t->next};
	}
	t->lives = true;
	unlock_threads(&before);
	return t;
}

static void ended(struct thread *t)
{
	sigset_t before;
	lock_threads(&before);
	t->lives = false;
	unlock_threads(&before);
}

static struct thread *attach(struct thread *t)
{
	t->tsd[0] = t;
	t->tsd[1] = &t->err;
	__atomic_store_n(&t->tid, (pid_t)syscall(SYS_gettid), __ATOMIC_RELEASE);
	if (syscall(SYS_arch_prctl, ARCH_SET_GS, t->tsd) != 0)
		abort();
	return me = t;
}

struct thread *thread_self(void) { return me != NULL ? me : attach(new_thread()); }

int *darwin_error(void) { return &thread_self()->err; }

int fail(int e)
{
	*darwin_error() = e;
	return -1;
}

long ret(long r)
{
	if (r == -1)
		*darwin_error() = errno_to_darwin(errno);
	return r;
}

void thread_attach_main(void) { thread_self()->stacksize = MAIN_STACK; }

// In a new process there is only the thread that made it, with another number.
static void before_fork(void) { pthread_mutex_lock(&threads_lock); }
static void after_fork(void) { pthread_mutex_unlock(&threads_lock); }

static void in_child(void)
{
	for (struct thread *t = threads; t != NULL; t = t->next)
		t->lives = t == me;
	if (me != NULL)
		me->tid = (pid_t)syscall(SYS_gettid);
	pthread_mutex_unlock(&threads_lock);
}

__attribute__((constructor)) static void init(void) { pthread_atfork(before_fork, after_fork, in_child); }

struct d_attr {
	int64_t sig;
	uint64_t stacksize;
	int32_t detach;
	char rest[44];
};
static_assert(sizeof(struct d_attr) == 64, "pthread_attr_t");

int s_pthread_attr_init(struct d_attr *a)
{
	*a = (struct d_attr){.sig = 0x54485241 /* as libpthread has it */, .stacksize = DEFAULT_STACK};
	return 0;
}

int s_pthread_attr_getstacksize(struct d_attr *a, size_t *size) { return *size = a->stacksize, 0; }

int s_pthread_attr_setstacksize(struct d_attr *a, size_t size)
{
	if (size < SMALLEST_STACK || size % 4096 != 0)
		return D_EINVAL;
	return a->stacksize = size, 0;
}

int s_pthread_attr_setdetachstate(struct d_attr *a, int state) { return a->detach = state, 0; }

static void *begin(void *arg)
{
	struct thread *t = attach(arg);
	pthread_sigmask(SIG_SETMASK, &t->mask, NULL);
	void *result = t->start(t->arg);
	sigset_t all;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, NULL); // a handler would find no thread any more
	ended(t);
	return result;
}

static int create(struct thread *t, pthread_t *id, const pthread_attr_t *attr)
{
	static int (*real)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
	if (real == NULL)
		real = dlsym(RTLD_NEXT, "pthread_create");
	sigset_t all;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &t->mask); // until it is attached
	sigset_t mask = t->mask;                      // as t may have ended when real returns
	int e = real(id, attr, begin, t);
	pthread_sigmask(SIG_SETMASK, &mask, NULL);
	if (e != 0)
		ended(t);
	return e;
}

// pthread_create is that of libraries on Linux.
__attribute__((visibility("default"))) int pthread_create(pthread_t *id, const pthread_attr_t *attr, void *(*start)(void *), void *arg)
{
	struct thread *t = new_thread();
	t->start = start;
	t->arg = arg;
	t->stacksize = MAIN_STACK;
	t->foreign = true;
	return create(t, id, attr);
}

int s_pthread_create(struct thread **out, struct d_attr *a, void *(*start)(void *), void *arg)
{
	struct thread *t = new_thread();
	t->start = start;
	t->arg = arg;
	t->stacksize = a != NULL ? a->stacksize : DEFAULT_STACK;
	pthread_attr_t attr;
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, t->stacksize + SHIMS_STACK); // Go uses all that it was told
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	*out = t;
	pthread_t id;
	int e = create(t, &id, &attr);
	pthread_attr_destroy(&attr);
	return errno_to_darwin(e);
}

int s_pthread_detach(struct thread *t) { return (void)t, 0; }

// Go's runtime asks for it when a thread enters Go that it has not made, as by a callback, and at the start of its own.
struct thread *s_pthread_self(void)
{
	struct thread *t = thread_self();
	if (t->foreign)
		COUNT(foreign_entries);
	return t;
}

size_t s_pthread_get_stacksize_np(struct thread *t) { return t->stacksize; }

// pthread_kill looks whether there is such a thread before it looks at the signal: libpthread-539, src/pthread.c, pthread_kill
// and _pthread_is_valid, which goes through a list; NULL is in none. Go asks for NULL: an M that was just given back.
int s_pthread_kill(struct thread *to, int sig)
{
	sigset_t before;
	lock_threads(&before);
	struct thread *t = threads;
	while (t != NULL && (t != to || !t->lives))
		t = t->next;
	int e = 0;
	if (t == NULL)
		e = ESRCH;
	else if (sig < 0 || sig >= D_NSIG)
		e = EINVAL;
	else if (signal_to_linux(sig) != 0 && syscall(SYS_tgkill, getpid(), t->tid, signal_to_linux(sig)) != 0)
		e = errno;
	unlock_threads(&before);
	if (e == ESRCH) {
		COUNT(killed_nobody);
		TRACE("pthread_kill(%p, %d): there is no such thread", (void *)to, sig);
	}
	return errno_to_darwin(e);
}

int s_pthread_setspecific(unsigned long key, void *value)
{
	if (key < 256 || key >= 512) // no key that pthread_key_create gives: libpthread-539, src/pthread_tsd.c
		return D_EINVAL;
	return thread_self()->tsd[key] = value, 0;
}
