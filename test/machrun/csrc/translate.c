// SPDX-License-Identifier: Apache-2.0

// Numbers that differ.
#include "darwin.h"
#include <fcntl.h>

// Those from EAGAIN (35 there) on; the first ones are the same.
static const uint8_t darwin_errno[] = {
	[EAGAIN] = 35, [EINPROGRESS] = 36, [EALREADY] = 37, [ENOTSOCK] = 38, [EDESTADDRREQ] = 39, [EMSGSIZE] = 40,
	[EPROTOTYPE] = 41, [ENOPROTOOPT] = 42, [EPROTONOSUPPORT] = 43, [ESOCKTNOSUPPORT] = 44, [EOPNOTSUPP] = 102,
	[EPFNOSUPPORT] = 46, [EAFNOSUPPORT] = 47, [EADDRINUSE] = 48, [EADDRNOTAVAIL] = 49, [ENETDOWN] = 50, [ENETUNREACH] = 51,
	[ENETRESET] = 52, [ECONNABORTED] = 53, [ECONNRESET] = 54, [ENOBUFS] = 55, [EISCONN] = 56, [ENOTCONN] = 57,
	[ESHUTDOWN] = 58, [ETOOMANYREFS] = 59, [ETIMEDOUT] = 60, [ECONNREFUSED] = 61, [ELOOP] = 62, [ENAMETOOLONG] = 63,
	[EHOSTDOWN] = 64, [EHOSTUNREACH] = 65, [ENOTEMPTY] = 66, [EUSERS] = 68, [EDQUOT] = 69, [ESTALE] = 70, [EDEADLK] = 11,
	[ENOLCK] = 77, [ENOSYS] = 78, [EOVERFLOW] = 84, [ECANCELED] = 89, [EIDRM] = 90, [ENOMSG] = 91, [EILSEQ] = 92,
	[EBADMSG] = 94, [ENODATA] = 96, [EPROTO] = 100, [ETIME] = 101,
};

int errno_to_darwin(int e)
{
	if (e >= 0 && e < (int)sizeof darwin_errno && darwin_errno[e] != 0)
		return darwin_errno[e];
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
