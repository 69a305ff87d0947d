// SPDX-License-Identifier: Apache-2.0

#include "harness.h"

#include <pthread.h>
#include <sys/mman.h>

// Numbers of macOS.
enum { D_SIGSEGV = 11, D_SIGCHLD = 20, D_SIGUSR1 = 30, D_SIGUSR2 = 31, D_SIGKILL = 9, D_EINTR = 4 };
enum { D_RESTART = 2, D_RESETHAND = 4, D_SIGINFO = 64, D_BLOCK = 1, D_SETMASK = 3 };

static _Atomic int count;
static struct d_siginfo seen;

static void install(int sig, void *handler, int flags)
{
	struct d_sigaction a = {.handler = handler, .flags = flags | D_SIGINFO};
	EQUAL(0, s_sigaction(sig, &a, NULL));
}

static void counts(int sig, struct d_siginfo *info, struct d_ucontext *u)
{
	CHECK(sig == info->signo && u->mcsize == sizeof(struct d_mcontext));
	seen = *info;
	atomic_fetch_add(&count, 1);
}

CASE(a_handler_gets_numbers_of_macos)
{
	install(D_SIGUSR1, counts, 0);
	EQUAL(0, s_raise(D_SIGUSR1));
	EQUAL(1, count);
	EQUAL(D_SIGUSR1, seen.signo);
	EQUAL(0x10001, seen.code);
	EQUAL(getpid(), seen.pid);
}

CASE(sigaction_refuses)
{
	struct d_sigaction a = {0};
	FAILS(D_EINVAL, s_sigaction(0, &a, NULL));
	FAILS(D_EINVAL, s_sigaction(32, &a, NULL));
	FAILS(D_EINVAL, s_sigaction(D_SIGKILL, &a, NULL));
	FAILS(D_EINVAL, s_kill(getpid(), 32));
	FAILS(D_EINVAL, s_raise(32));
}

CASE(sigaction_tells_what_was)
{
	struct d_sigaction a = {.handler = (void *)counts, .mask = 6, .flags = D_RESTART}, old;
	EQUAL(0, s_sigaction(D_SIGUSR2, &a, NULL));
	EQUAL(0, s_sigaction(D_SIGUSR2, NULL, &old));
	EQUAL(0, memcmp(&a, &old, sizeof a));
}

CASE(resethand_is_once)
{
	struct d_sigaction old;
	install(D_SIGUSR1, counts, D_RESETHAND);
	s_raise(D_SIGUSR1);
	EQUAL(0, s_sigaction(D_SIGUSR1, NULL, &old));
	CHECK(old.handler == NULL);
}

static void *page;

static void opens(int sig, struct d_siginfo *info, struct d_ucontext *u)
{
	CHECK(sig == D_SIGSEGV && info->addr == page && u->mcontext->faultvaddr == (uint64_t)page);
	EQUAL(2, info->code); // SEGV_ACCERR
	mprotect(page, 4096, PROT_READ | PROT_WRITE);
}

CASE(a_fault_tells_its_address)
{
	page = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	install(D_SIGSEGV, opens, 0);
	*(volatile char *)page = 1;
	EQUAL(1, *(char *)page);
}

static void skips(int sig, struct d_siginfo *info, struct d_ucontext *u)
{
	(void)sig, (void)info;
	u->mcontext->rip += 2; // behind ud2
	u->mcontext->rbx = 42;
}

CASE(registers_go_back)
{
	enum { D_SIGILL = 4 };
	uint64_t got = 0;
	install(D_SIGILL, skips, 0);
	__asm__ volatile("ud2\n\tmov %%rbx, %0" : "=r"(got) : : "rbx");
	EQUAL(42, got);
}

static void blocks(int sig, struct d_siginfo *info, struct d_ucontext *u)
{
	(void)sig, (void)info;
	u->sigmask |= 1u << (D_SIGUSR2 - 1);
}

CASE(the_mask_goes_back)
{
	uint32_t mask = 0;
	install(D_SIGUSR1, blocks, 0);
	s_raise(D_SIGUSR1);
	EQUAL(0, s_pthread_sigmask(D_BLOCK, NULL, &mask));
	EQUAL(1u << (D_SIGUSR2 - 1), mask);
	EQUAL(D_EINVAL, s_pthread_sigmask(4, &mask, NULL));
}

static void clobbers(int sig, struct d_siginfo *info, struct d_ucontext *u)
{
	(void)sig, (void)info, (void)u;
	__asm__ volatile("pxor %%xmm7, %%xmm7\n\tfninit\n\tfldz" : : : "xmm7");
}

CASE(vectors_and_floating_point_survive)
{
	enum { SYS_GETPID = 39, SYS_KILL = 62, LINUX_SIGUSR1 = 10 };
	uint64_t in[2] = {0x0123456789abcdef, 0xfedcba9876543210}, out[2] = {0};
	double pi = 0;
	install(D_SIGUSR1, clobbers, 0);
	__asm__ volatile("movdqu %2, %%xmm7\n\tfldpi\n\tmov %3, %%edi\n\tmov %4, %%esi\n\tmov %5, %%eax\n\tsyscall\n\tmovdqu %%xmm7, %0\n\tfstpl %1"
					 : "=m"(out), "=m"(pi)
					 : "m"(in), "r"(getpid()), "i"(LINUX_SIGUSR1), "i"(SYS_KILL)
					 : "rax", "rcx", "rdi", "rsi", "r11", "xmm7", "memory");
	EQUAL(0, memcmp(in, out, sizeof in));
	CHECK(pi > 3.14159 && pi < 3.1416);
}

static struct thread *reader;
static int fds[2];

static _Atomic bool over;

// Signals go on, as the reader may not be there yet, and with something to read in the end if it shall go on reading.
static void *disturbs(void *then_write)
{
	for (int n = 0; !atomic_load(&over) && (then_write == NULL || n < 50); n++, usleep(1000))
		s_pthread_kill(reader, D_SIGUSR1);
	if (then_write != NULL)
		CHECK(write(fds[1], "x", 1) == 1);
	return NULL;
}

static long interrupted(int flags, void *then_write)
{
	char b;
	pthread_t t;
	CHECK(pipe(fds) == 0);
	reader = s_pthread_self();
	install(D_SIGUSR1, counts, flags);
	CHECK(pthread_create(&t, NULL, disturbs, then_write) == 0);
	long r = s_read(fds[0], &b, 1);
	int e = *darwin_error();
	atomic_store(&over, true);
	pthread_join(t, NULL);
	CHECK(atomic_load(&count) > 0);
	*darwin_error() = e;
	return r;
}

CASE(restart_goes_on_reading) { EQUAL(1, interrupted(D_RESTART, fds)); }
CASE(without_it_reading_is_interrupted) { FAILS(D_EINTR, interrupted(0, NULL)); }

CASE(small_signal_stacks_are_refused) // xnu: sigaltstack, MINSIGSTKSZ
{
	static char memory[32768];
	struct d_stack s = {memory, sizeof memory - 1, 0, 0}, old;
	FAILS(D_ENOMEM, s_sigaltstack(&s, NULL));
	s.size++;
	EQUAL(0, s_sigaltstack(&s, NULL));
	EQUAL(0, s_sigaltstack(NULL, &old));
	CHECK(old.sp == memory && old.size == sizeof memory && old.flags == 0);
	s.flags = 8;
	FAILS(D_EINVAL, s_sigaltstack(&s, NULL));
	s.flags = 4;
	EQUAL(0, s_sigaltstack(&s, NULL));
}

CASE(the_state_of_children)
{
	int status = 0;
	for (int want = 0; want < 2; want++) {
		long child = fork();
		if (child == 0) {
			if (want == 0)
				s__exit(3);
			s_kill(getpid(), D_SIGUSR1);
			s__exit(0);
		}
		struct d_rusage u;
		EQUAL(child, s_wait4((int)child, &status, 0, &u));
		EQUAL(want == 0 ? 3 << 8 : D_SIGUSR1, status);
	}
}
