// SPDX-License-Identifier: Apache-2.0

// Numbers that differ.
#include "darwin.h"
#include <fcntl.h>

int errno_to_darwin(int e)
{
	switch (e) {
	case EAGAIN: return 35;
	case EINPROGRESS: return 36;
	case EALREADY: return 37;
	case ENOTSOCK: return 38;
	case EDESTADDRREQ: return 39;
	case EMSGSIZE: return 40;
	case EPROTOTYPE: return 41;
	case ENOPROTOOPT: return 42;
	case EPROTONOSUPPORT: return 43;
	case ESOCKTNOSUPPORT: return 44;
	case EOPNOTSUPP: return 102;
	case EPFNOSUPPORT: return 46;
	case EAFNOSUPPORT: return 47;
	case EADDRINUSE: return 48;
	case EADDRNOTAVAIL: return 49;
	case ENETDOWN: return 50;
	case ENETUNREACH: return 51;
	case ENETRESET: return 52;
	case ECONNABORTED: return 53;
	case ECONNRESET: return 54;
	case ENOBUFS: return 55;
	case EISCONN: return 56;
	case ENOTCONN: return 57;
	case ESHUTDOWN: return 58;
	case ETOOMANYREFS: return 59;
	case ETIMEDOUT: return 60;
	case ECONNREFUSED: return 61;
	case ELOOP: return 62;
	case ENAMETOOLONG: return 63;
	case EHOSTDOWN: return 64;
	case EHOSTUNREACH: return 65;
	case ENOTEMPTY: return 66;
	case EUSERS: return 68;
	case EDQUOT: return 69;
	case ESTALE: return 70;
	case EDEADLK: return 11;
	case ENOLCK: return 77;
	case ENOSYS: return 78;
	case EOVERFLOW: return 84;
	case ECANCELED: return 89;
	case EIDRM: return 90;
	case ENOMSG: return 91;
	case EILSEQ: return 92;
	case EBADMSG: return 94;
	case ENODATA: return 96;
	case EPROTO: return 100;
	case ETIME: return 101;
	}
	return e >= 0 && e < 35 ? e : D_EINVAL;
}

// By number of macOS; 0: Linux has no such signal.
static const uint8_t linux_signal[D_NSIG] = {
	0, SIGHUP, SIGINT, SIGQUIT, SIGILL, SIGTRAP, SIGABRT, 0 /* EMT */, SIGFPE, SIGKILL, SIGBUS, SIGSEGV, SIGSYS, SIGPIPE, SIGALRM,
	SIGTERM, SIGURG, SIGSTOP, SIGTSTP, SIGCONT, SIGCHLD, SIGTTIN, SIGTTOU, SIGIO, SIGXCPU, SIGXFSZ, SIGVTALRM, SIGPROF, SIGWINCH,
	0 /* INFO */, SIGUSR1, SIGUSR2,
};

int signal_to_linux(int s) { return s > 0 && s < D_NSIG ? linux_signal[s] : 0; }

int signal_to_darwin(int s)
{
	for (int d = 1; d < D_NSIG; d++)
		if (linux_signal[d] == s)
			return d;
	return 0;
}

sigset_t sigset_to_linux(uint32_t m)
{
	sigset_t s;
	sigemptyset(&s);
	for (int d = 1; d < D_NSIG; d++)
		if (m & 1u << (d - 1) && linux_signal[d])
			sigaddset(&s, linux_signal[d]);
	return s;
}

uint32_t sigset_to_darwin(const sigset_t *s)
{
	uint32_t m = 0;
	for (int d = 1; d < D_NSIG; d++)
		if (linux_signal[d] && sigismember(s, linux_signal[d]) == 1)
			m |= 1u << (d - 1);
	return m;
}

static const struct { int darwin, linux_; } open_flags[] = {
	{0x4, O_NONBLOCK}, {0x8, O_APPEND}, {0x40, O_ASYNC}, {0x80, O_SYNC}, {0x100, O_NOFOLLOW}, {0x200, O_CREAT}, {0x400, O_TRUNC},
	{0x800, O_EXCL}, {0x20000, O_NOCTTY}, {0x100000, O_DIRECTORY}, {0x400000, O_DSYNC}, {0x1000000, O_CLOEXEC},
	{0x200000, O_PATH | O_NOFOLLOW}, // O_SYMLINK: the link itself
};

// Those that are not in the table: O_SHLOCK and O_EXLOCK, which are for openat, and O_EVTONLY, which Linux need not be told.
enum { D_ACCMODE = 3, D_LOCKS = 0x30, D_EVTONLY = 0x8000 };

int open_flags_to_linux(int f)
{
	int l = f & D_ACCMODE, known = D_ACCMODE | D_LOCKS | D_EVTONLY;
	for (size_t i = 0; i < sizeof open_flags / sizeof *open_flags; i++) {
		known |= open_flags[i].darwin;
		if ((f & open_flags[i].darwin) == open_flags[i].darwin)
			l |= open_flags[i].linux_;
	}
	if (f & ~known)
		TRACE("open flags %#x are not known", f & ~known);
	return f & ~known ? -1 : l;
}

int open_flags_to_darwin(int l)
{
	int f = l & 3;
	for (size_t i = 0; i < sizeof open_flags / sizeof *open_flags - 1; i++)
		if ((l & open_flags[i].linux_) == open_flags[i].linux_)
			f |= open_flags[i].darwin;
	return f;
}
