// SPDX-License-Identifier: Apache-2.0

// Signals: other numbers, and another layout of what a handler is given. A handler of the program is called by ours with a
// context in macOS's layout, and what it changes there is carried back: Go preempts goroutines and makes panics of faults so.
#include "darwin.h"
#include <sys/syscall.h>
#include <ucontext.h>

enum { D_SA_ONSTACK = 1, D_SA_RESTART = 2, D_SA_RESETHAND = 4, D_SA_NOCLDSTOP = 8, D_SA_NODEFER = 16, D_SA_NOCLDWAIT = 32, D_SA_SIGINFO = 64 };

static struct d_sigaction actions[D_NSIG];

static int code_to_darwin(int sig, int code) {
	if (code <= 0)
		return 0x10001; // SI_USER
	if (sig == SIGFPE) {
		static const int8_t fpe[] = {0, 7 /* INTDIV */, 8, 1, 2, 3, 4, 5, 6};
		return code < (int)sizeof fpe ? fpe[code] : 0;
	}
	return code;
}

#define REGS(X) \
	X(rax, RAX) X(rbx, RBX) X(rcx, RCX) X(rdx, RDX) X(rdi, RDI) X(rsi, RSI) X(rbp, RBP) X(rsp, RSP) X(r8, R8) X(r9, R9) X(r10, R10) \
	X(r11, R11) X(r12, R12) X(r13, R13) X(r14, R14) X(r15, R15) X(rip, RIP) X(rflags, EFL)

static void handle(int sig, siginfo_t *info, void *context) {
	int kept = errno;
	ucontext_t *u = context;
	greg_t *g = u->uc_mcontext.gregs;
	int d = signal_to_darwin(sig);
	struct d_siginfo di = {.signo = d, .code = code_to_darwin(sig, info->si_code)};
	if (info->si_code <= 0 || sig == SIGCHLD)
		di.pid = info->si_pid, di.uid = info->si_uid;
	if (sig == SIGSEGV || sig == SIGBUS || sig == SIGFPE || sig == SIGILL || sig == SIGTRAP)
		di.addr = info->si_addr;
	struct d_mcontext mc = {.trapno = (uint16_t)g[REG_TRAPNO], .err = (uint32_t)g[REG_ERR], .faultvaddr = (uint64_t)g[REG_CR2]};
#define OUT(name, NAME) mc.name = (uint64_t)g[REG_##NAME];
	REGS(OUT)
	struct d_ucontext uc = {
		.sigmask = sigset_to_darwin(&u->uc_sigmask), .stack = {u->uc_stack.ss_sp, u->uc_stack.ss_size, 0, 0}, .mcsize = sizeof mc, .mcontext = &mc,
	};
	void (*f)(int, struct d_siginfo *, void *) = (void (*)(int, struct d_siginfo *, void *))actions[d].handler;
	f(d, &di, &uc);
#define IN(name, NAME) g[REG_##NAME] = (greg_t)mc.name;
	REGS(IN)
	errno = kept;
}

int s_sigaction(int d, const struct d_sigaction *new, struct d_sigaction *old) {
	if (d <= 0 || d >= D_NSIG)
		return fail(D_EINVAL);
	struct d_sigaction before = actions[d];
	int l = signal_to_linux(d);
	if (new != NULL) {
		if (d == 9 || d == 17) // KILL, STOP
			return fail(D_EINVAL);
		actions[d] = *new;
		if (l != 0) {
			struct sigaction sa = {.sa_mask = sigset_to_linux(new->mask)};
			if ((uintptr_t)new->handler <= 1)
				sa.sa_handler = new->handler == NULL ? SIG_DFL : SIG_IGN;
			else
				sa.sa_sigaction = handle, sa.sa_flags = SA_SIGINFO;
			if (new->flags & D_SA_ONSTACK) sa.sa_flags |= SA_ONSTACK;
			if (new->flags & D_SA_RESTART) sa.sa_flags |= SA_RESTART;
			if (new->flags & D_SA_RESETHAND) sa.sa_flags |= (int)SA_RESETHAND;
			if (new->flags & D_SA_NOCLDSTOP) sa.sa_flags |= SA_NOCLDSTOP;
			if (new->flags & D_SA_NODEFER) sa.sa_flags |= SA_NODEFER;
			if (new->flags & D_SA_NOCLDWAIT) sa.sa_flags |= SA_NOCLDWAIT;
			if (sigaction(l, &sa, NULL) != 0) {
				actions[d] = before;
				return (int)ret(-1);
			}
		}
	}
	if (old != NULL)
		*old = before;
	return 0;
}

// signal_init finds out which signals are ignored from the start.
void signal_init(void) {
	for (int d = 1; d < D_NSIG; d++) {
		struct sigaction sa;
		if (signal_to_linux(d) != 0 && sigaction(signal_to_linux(d), NULL, &sa) == 0 && sa.sa_handler == SIG_IGN)
			actions[d].handler = (void *)1;
	}
}

int s_pthread_sigmask(int how, const uint32_t *new, uint32_t *old) {
	sigset_t n, o;
	if (new != NULL)
		n = sigset_to_linux(*new);
	int e = pthread_sigmask(how == 1 ? SIG_BLOCK : how == 2 ? SIG_UNBLOCK : SIG_SETMASK, new != NULL ? &n : NULL, &o);
	if (e == 0 && old != NULL)
		*old = sigset_to_darwin(&o);
	return e == 0 ? 0 : errno_to_darwin(e);
}

int s_sigaltstack(const struct d_stack *new, struct d_stack *old) {
	enum { D_DISABLE = 4 };
	stack_t n = {0}, o;
	if (new != NULL)
		n = (stack_t){.ss_sp = new->sp, .ss_size = new->size, .ss_flags = new->flags & D_DISABLE ? SS_DISABLE : 0};
	if (sigaltstack(new != NULL ? &n : NULL, &o) != 0)
		return (int)ret(-1);
	if (old != NULL)
		*old = (struct d_stack){o.ss_sp, o.ss_size, (o.ss_flags & SS_DISABLE ? D_DISABLE : 0) | (o.ss_flags & SS_ONSTACK ? 1 : 0), 0};
	return 0;
}

int s_sigfillset(uint32_t *s) { return *s = ~0u, 0; }

int s_kill(int pid, int sig) {
	int l = signal_to_linux(sig);
	if (sig != 0 && l == 0)
		return sig < 0 || sig >= D_NSIG ? fail(D_EINVAL) : 0;
	return (int)ret(kill(pid, l));
}

int s_raise(int sig) {
	int l = signal_to_linux(sig);
	return l == 0 ? fail(D_EINVAL) : (int)ret(syscall(SYS_tgkill, getpid(), (int)syscall(SYS_gettid), l));
}
