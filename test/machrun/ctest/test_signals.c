// SPDX-License-Identifier: Apache-2.0

#include "harness.h"

// Numbers of macOS.
enum { D_SIGUSR1 = 30, D_SIGUSR2 = 31, D_SIGKILL = 9, D_RESTART = 2, D_SIGINFO = 64, D_BLOCK = 1 };

static _Atomic int count;
static struct d_siginfo seen;

static void install(int sig, void *handler)
{
	struct d_sigaction a = {.handler = handler, .flags = D_SIGINFO};
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
	install(D_SIGUSR1, counts);
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

static void blocks(int sig, struct d_siginfo *info, struct d_ucontext *u)
{
	(void)sig, (void)info;
	u->sigmask |= 1u << (D_SIGUSR2 - 1);
}

CASE(the_mask_goes_back)
{
	uint32_t mask = 0;
	install(D_SIGUSR1, blocks);
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
	install(D_SIGUSR1, clobbers);
	__asm__ volatile("movdqu %2, %%xmm7\n\tfldpi\n\tmov %3, %%edi\n\tmov %4, %%esi\n\tmov %5, %%eax\n\tsyscall\n\tmovdqu %%xmm7, %0\n\tfstpl %1"
					 : "=m"(out), "=m"(pi)
					 : "m"(in), "r"(getpid()), "i"(LINUX_SIGUSR1), "i"(SYS_KILL)
					 : "rax", "rcx", "rdi", "rsi", "r11", "xmm7", "memory");
	EQUAL(0, memcmp(in, out, sizeof in));
	CHECK(pi > 3.14159 && pi < 3.1416);
}

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
