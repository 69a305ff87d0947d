// SPDX-License-Identifier: Apache-2.0

// Signals: other numbers, and another layout of what a handler is given. A handler of the program is called by ours with a
// context in macOS's layout, and what it changes there is carried back: Go preempts goroutines and makes panics of faults so.
// Vector and floating point registers are Linux's to keep, as no program of ours looks at them. The rules are those of xnu's
// bsd/kern/kern_sig.c.
#include "darwin.h"
#include "shims.h"

#include <sys/syscall.h>
#include <ucontext.h>

enum { D_SIG_DFL = 0, D_SIG_IGN = 1, D_SIGKILL = 9, D_SIGSTOP = 17 };
enum { D_SA_ONSTACK = 1, D_SA_RESTART = 2, D_SA_RESETHAND = 4, D_SA_NOCLDSTOP = 8, D_SA_NODEFER = 16, D_SA_NOCLDWAIT = 32 };
enum { D_SI_USER = 0x10001 };

static struct d_sigaction actions[D_NSIG];

static int code_to_darwin(int sig, int code)
{
	if (code <= 0)
		return D_SI_USER;
	if (code == SI_KERNEL)
		return 0;
	if (sig == SIGFPE) { // INTDIV and INTOVF come last in Apple's sys/signal.h
		static const int8_t fpe[] = {0, 7, 8, 1, 2, 3, 4, 5, 6};
		return code < (int)sizeof fpe ? fpe[code] : 0;
	}
	return code;
}

static struct d_siginfo info_to_darwin(int sig, const siginfo_t *l)
{
	struct d_siginfo d = {.signo = signal_to_darwin(sig), .code = code_to_darwin(sig, l->si_code)};
	if (l->si_code <= 0 || sig == SIGCHLD) {
		d.pid = l->si_pid;
		d.uid = l->si_uid;
	}
	if (l->si_code > 0 && sig == SIGCHLD)
		d.status = l->si_code == CLD_EXITED ? l->si_status : signal_to_darwin(l->si_status);
	if (sig == SIGSEGV || sig == SIGBUS || sig == SIGFPE || sig == SIGILL || sig == SIGTRAP)
		d.addr = l->si_addr;
	return d;
}

#define REGS(X) \
	X(rax, RAX) X(rbx, RBX) X(rcx, RCX) X(rdx, RDX) X(rdi, RDI) X(rsi, RSI) X(rbp, RBP) X(rsp, RSP) X(r8, R8) X(r9, R9) X(r10, R10) \
	X(r11, R11) X(r12, R12) X(r13, R13) X(r14, R14) X(r15, R15) X(rip, RIP) X(rflags, EFL)

static void handle(int sig, siginfo_t *info, void *context)
{
	int kept = errno;
	ucontext_t *u = context;
	greg_t *g = u->uc_mcontext.gregs;
	struct d_siginfo di = info_to_darwin(sig, info);
	struct d_mcontext mc = {.trapno = (uint16_t)g[REG_TRAPNO], .err = (uint32_t)g[REG_ERR], .faultvaddr = (uint64_t)g[REG_CR2]};
#define OUT(name, NAME) mc.name = (uint64_t)g[REG_##NAME];
	REGS(OUT)
	uint32_t mask = sigset_to_darwin(&u->uc_sigmask);
	struct d_ucontext uc = {
		.onstack = u->uc_stack.ss_flags & SS_ONSTACK,
		.sigmask = mask,
		.stack = {u->uc_stack.ss_sp, u->uc_stack.ss_size, 0, 0},
		.mcsize = sizeof mc,
		.mcontext = &mc,
	};
	struct d_sigaction *a = &actions[di.signo];
	void *f = __atomic_load_n(&a->handler, __ATOMIC_ACQUIRE);
	if (a->flags & D_SA_RESETHAND)
		__atomic_store_n(&a->handler, (void *)D_SIG_DFL, __ATOMIC_RELEASE);
	if ((uintptr_t)f > D_SIG_IGN) // else another thread has just changed it
		((void (*)(int, struct d_siginfo *, void *))f)(di.signo, &di, &uc);
#define IN(name, NAME) g[REG_##NAME] = (greg_t)mc.name;
	REGS(IN)
	if (uc.sigmask != mask)
		u->uc_sigmask = sigset_to_linux(uc.sigmask);
	errno = kept;
}

static int install(int sig, const struct d_sigaction *d)
{
	static const struct {
		int darwin, linux_;
	} flags[] = {
		{D_SA_ONSTACK, SA_ONSTACK}, {D_SA_RESTART, SA_RESTART}, {D_SA_RESETHAND, (int)SA_RESETHAND},
		{D_SA_NOCLDSTOP, SA_NOCLDSTOP}, {D_SA_NODEFER, SA_NODEFER}, {D_SA_NOCLDWAIT, SA_NOCLDWAIT},
	};
	struct sigaction sa = {.sa_mask = sigset_to_linux(d->mask)};
	if ((uintptr_t)d->handler <= D_SIG_IGN) {
		sa.sa_handler = d->handler == NULL ? SIG_DFL : SIG_IGN;
	} else {
		sa.sa_sigaction = handle;
		sa.sa_flags = SA_SIGINFO;
	}
	for (size_t i = 0; i < sizeof flags / sizeof *flags; i++)
		if (d->flags & flags[i].darwin)
			sa.sa_flags |= flags[i].linux_;
	return sigaction(sig, &sa, NULL);
}

int s_sigaction(int d, const struct d_sigaction *new, struct d_sigaction *old)
{
	if (d <= 0 || d >= D_NSIG || (new != NULL && (d == D_SIGKILL || d == D_SIGSTOP)))
		return fail(D_EINVAL);
	struct d_sigaction before = actions[d];
	int l = signal_to_linux(d);
	if (new != NULL) {
		actions[d].mask = new->mask;
		actions[d].flags = new->flags;
		__atomic_store_n(&actions[d].handler, new->handler, __ATOMIC_RELEASE);
		if (l != 0 && install(l, new) != 0) {
			actions[d] = before;
			return (int)ret(-1);
		}
	}
	if (old != NULL)
		*old = before;
	return 0;
}

// signal_init finds out which signals are ignored from the start.
void signal_init(void)
{
	for (int d = 1; d < D_NSIG; d++) {
		struct sigaction sa;
		if (signal_to_linux(d) != 0 && sigaction(signal_to_linux(d), NULL, &sa) == 0 && sa.sa_handler == SIG_IGN)
			actions[d].handler = (void *)D_SIG_IGN;
	}
}

int s_pthread_sigmask(int how, const uint32_t *new, uint32_t *old)
{
	static const int hows[] = {-1, SIG_BLOCK, SIG_UNBLOCK, SIG_SETMASK};
	sigset_t n, o;
	if (new != NULL && (how < 1 || how > 3))
		return D_EINVAL;
	if (new != NULL)
		n = sigset_to_linux(*new);
	int e = pthread_sigmask(new != NULL ? hows[how] : SIG_SETMASK, new != NULL ? &n : NULL, &o);
	if (e == 0 && old != NULL)
		*old = sigset_to_darwin(&o);
	return errno_to_darwin(e);
}

int s_sigaltstack(const struct d_stack *new, struct d_stack *old)
{
	enum { D_ONSTACK = 1, D_DISABLE = 4, D_MINSIGSTKSZ = 32768 };
	stack_t n = {0}, o;
	if (new != NULL) {
		if (new->flags & ~D_DISABLE)
			return fail(D_EINVAL);
		if (!(new->flags & D_DISABLE) && new->size < D_MINSIGSTKSZ)
			return fail(D_ENOMEM);
		n = (stack_t){.ss_sp = new->sp, .ss_size = new->size, .ss_flags = new->flags & D_DISABLE ? SS_DISABLE : 0};
	}
	if (sigaltstack(new != NULL ? &n : NULL, &o) != 0)
		return (int)ret(-1);
	int flags = (o.ss_flags & SS_DISABLE ? D_DISABLE : 0) | (o.ss_flags & SS_ONSTACK ? D_ONSTACK : 0);
	if (old != NULL)
		*old = (struct d_stack){o.ss_sp, o.ss_size, flags, 0};
	return 0;
}

int s_sigfillset(uint32_t *s) { return *s = ~0u, 0; }

int s_kill(int pid, int sig)
{
	if (sig < 0 || sig >= D_NSIG)
		return fail(D_EINVAL);
	int l = signal_to_linux(sig);
	return (int)ret(kill(pid, l)); // 0 for the two that Linux lacks: ignored by default there, too
}

int s_raise(int sig) { return s_pthread_kill(s_pthread_self(), sig) == 0 ? 0 : fail(D_EINVAL); }
