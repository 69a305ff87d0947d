// SPDX-License-Identifier: Apache-2.0

// Descriptors: open, read, write, fcntl, ioctl.
#include "darwin.h"
#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/ioctl.h>

long s_openat(int dir, const char *path, int flags, int mode)
{
	int l = open_flags_to_linux(flags);
	if (l < 0 || (l & O_ACCMODE) == O_ACCMODE) // xnu: bsd/vfs/vfs_syscalls.c, open1; unknown ones are refused by us alone
		return fail(D_EINVAL);
	int fd = openat(dir == D_AT_FDCWD ? AT_FDCWD : dir, place(path), l, mode);
	if (fd >= 0 && flags & 0x30) { // SHLOCK, EXLOCK
		int how = (flags & 0x20 ? LOCK_EX : LOCK_SH) | (flags & 0x4 ? LOCK_NB : 0);
		if (flock(fd, how) != 0) {
			long r = ret(-1);
			close(fd);
			return r;
		}
	}
	return ret(fd);
}

long s_open(const char *path, int flags, int mode) { return s_openat(D_AT_FDCWD, path, flags, mode); }

long s_close(int fd)
{
	kqueue_forget(fd);
	socket_closing(fd);
	return ret(close(fd));
}

static long duplicated(int fd, int to)
{
	if (to >= 0)
		socket_duplicated(fd, to);
	return ret(to);
}

long s_dup(int fd) { return duplicated(fd, dup(fd)); }

long s_dup2(int fd, int to)
{
	if (fd != to && fcntl(fd, F_GETFD) >= 0) {
		kqueue_forget(to);
		socket_closing(to);
	}
	return fd == to ? ret(dup2(fd, to)) : duplicated(fd, dup2(fd, to));
}

long s_read(int fd, void *b, size_t n)
{
	struct iovec v = {b, n};
	return socket_is(fd) ? socket_read(fd, &v, 1) : ret(read(fd, b, n));
}

long s_write(int fd, const void *b, size_t n)
{
	struct iovec v = {(void *)b, n};
	return socket_is(fd) ? socket_write(fd, &v, 1) : ret(write(fd, b, n));
}
long s_writev(int fd, const struct iovec *v, int n) { return socket_is(fd) ? socket_write(fd, v, n) : ret(writev(fd, v, n)); }

static long lock(int fd, int cmd, struct d_flock *d)
{
	struct flock l = {.l_whence = d->whence, .l_start = d->start, .l_len = d->len};
	l.l_type = d->type == 1 ? F_RDLCK : d->type == 2 ? F_UNLCK : F_WRLCK;
	long r = ret(fcntl(fd, cmd, &l));
	if (r == 0 && cmd == F_GETLK)
		*d = (struct d_flock){l.l_start, l.l_len, l.l_pid, l.l_type == F_RDLCK ? 1 : l.l_type == F_UNLCK ? 2 : 3, l.l_whence};
	return r;
}

static long set_flags(int fd, int flags)
{
	int l = open_flags_to_linux(flags);
	return l < 0 ? fail(D_EINVAL) : ret(fcntl(fd, F_SETFL, l));
}

long s_fcntl(int fd, int cmd, long arg)
{
	switch (cmd) {
	case 0: return duplicated(fd, fcntl(fd, F_DUPFD, (int)arg));
	case 1: return ret(fcntl(fd, F_GETFD));
	case 2: return ret(fcntl(fd, F_SETFD, (int)arg));
	case 3: {
		int l = fcntl(fd, F_GETFL);
		return l < 0 ? ret(l) : open_flags_to_darwin(l);
	}
	case 4: return set_flags(fd, (int)arg);
	case 7: return lock(fd, F_GETLK, (void *)arg);
	case 8: return lock(fd, F_SETLK, (void *)arg);
	case 9: return lock(fd, F_SETLKW, (void *)arg);
	case 50: { // F_GETPATH
		char link[64];
		snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
		ssize_t n = readlink(link, (char *)arg, 1023);
		if (n < 0)
			return fail(D_EBADF);
		((char *)arg)[n] = 0;
		return 0;
	}
	case 51: case 85: return ret(fsync(fd)); // FULLFSYNC, BARRIERFSYNC
	case 48: case 73: return fcntl(fd, F_GETFD) < 0 ? ret(-1) : 0; // NOCACHE, SETNOSIGPIPE: nothing to do
	case 67: return duplicated(fd, fcntl(fd, F_DUPFD_CLOEXEC, (int)arg));
	}
	TRACE("fcntl(%d, %d) is not known", fd, cmd);
	return fcntl(fd, F_GETFD) < 0 ? ret(-1) : fail(D_EINVAL);
}

long s_ioctl(int fd, unsigned long req, void *arg)
{
	switch (req) {
	case 0x40087468: return ret(ioctl(fd, TIOCGWINSZ, arg));
	case 0x4004667f: return socket_is(fd) ? *(int *)arg = socket_waiting(fd), 0 : ret(ioctl(fd, FIONREAD, arg));
	case 0x8004667e: return ret(ioctl(fd, FIONBIO, arg));
	case 0x40047477: return ret(ioctl(fd, TIOCGPGRP, arg));
	case 0x80047476: return ret(ioctl(fd, TIOCSPGRP, arg));
	case 0x20007461: return ret(ioctl(fd, TIOCSCTTY, 0));
	}
	TRACE("ioctl(%d, %#lx) is not known", fd, req);
	return fcntl(fd, F_GETFD) < 0 ? ret(-1) : fail(D_ENOTTY);
}
