// SPDX-License-Identifier: Apache-2.0

// Files: open, stat, directories, fcntl, ioctl, memory.
#include "darwin.h"
#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <time.h>

static int at(int fd) { return fd == -2 ? AT_FDCWD : fd; }

static int at_flags(int f) { // SYMLINK_NOFOLLOW, SYMLINK_FOLLOW
	return (f & 0x20 ? AT_SYMLINK_NOFOLLOW : 0) | (f & 0x40 ? AT_SYMLINK_FOLLOW : 0);
}

// The file where macOS's DHCP server records its leases is the simulator's.
static const char *place(const char *path) {
	static __thread char leases[4096];
	const char *dir = getenv("MACHRUN_VMNET_DIR");
	if (dir == NULL || path == NULL || strcmp(path, "/var/db/dhcpd_leases") != 0)
		return path;
	snprintf(leases, sizeof leases, "%s/dhcpd_leases", dir);
	return leases;
}

// ---- descriptors ----

long s_openat(int dir, const char *path, int flags, int mode) {
	int fd = openat(at(dir), place(path), open_flags_to_linux(flags), mode);
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

long s_open(const char *path, int flags, int mode) { return s_openat(-2, path, flags, mode); }

long s_close(int fd) {
	kqueue_forget(fd);
	socket_closing(fd);
	return ret(close(fd));
}

static long duplicated(int fd, int to) {
	if (to >= 0)
		socket_duplicated(fd, to);
	return ret(to);
}

long s_dup(int fd) { return duplicated(fd, dup(fd)); }

long s_dup2(int fd, int to) {
	if (fd != to && fcntl(fd, F_GETFD) >= 0) {
		kqueue_forget(to);
		socket_closing(to);
	}
	return fd == to ? ret(dup2(fd, to)) : duplicated(fd, dup2(fd, to));
}

long s_read(int fd, void *b, size_t n) {
	struct iovec v = {b, n};
	return socket_is(fd) ? socket_read(fd, &v, 1) : ret(read(fd, b, n));
}
long s_write(int fd, const void *b, size_t n) {
	struct iovec v = {(void *)b, n};
	return socket_is(fd) ? socket_write(fd, &v, 1) : ret(write(fd, b, n));
}
long s_pread(int fd, void *b, size_t n, off_t o) { return ret(pread(fd, b, n, o)); }
long s_pwrite(int fd, const void *b, size_t n, off_t o) { return ret(pwrite(fd, b, n, o)); }
long s_writev(int fd, const struct iovec *v, int n) { return socket_is(fd) ? socket_write(fd, v, n) : ret(writev(fd, v, n)); }
long s_readv(int fd, const struct iovec *v, int n) { return socket_is(fd) ? socket_read(fd, v, n) : ret(readv(fd, v, n)); }
long s_lseek(int fd, off_t o, int whence) { return ret(lseek(fd, o, whence)); }
long s_fsync(int fd) { return ret(fsync(fd)); }
long s_ftruncate(int fd, off_t n) { return ret(ftruncate(fd, n)); }
long s_truncate(const char *p, off_t n) { return ret(truncate(p, n)); }
long s_flock(int fd, int how) { return ret(flock(fd, how)); } // the numbers are the same
long s_pipe(int *fds) { return ret(pipe(fds)); }
long s_poll(struct pollfd *fds, unsigned n, int ms) { return ret(poll(fds, n, ms)); } // so are those that anybody uses here

static long lock(int fd, int cmd, struct d_flock *d) {
	struct flock l = {.l_whence = d->whence, .l_start = d->start, .l_len = d->len};
	l.l_type = d->type == 1 ? F_RDLCK : d->type == 2 ? F_UNLCK : F_WRLCK;
	long r = ret(fcntl(fd, cmd, &l));
	if (r == 0 && cmd == F_GETLK)
		*d = (struct d_flock){l.l_start, l.l_len, l.l_pid, l.l_type == F_RDLCK ? 1 : l.l_type == F_UNLCK ? 2 : 3, l.l_whence};
	return r;
}

long s_fcntl(int fd, int cmd, long arg) {
	switch (cmd) {
	case 0: return duplicated(fd, fcntl(fd, F_DUPFD, (int)arg));
	case 1: return ret(fcntl(fd, F_GETFD));
	case 2: return ret(fcntl(fd, F_SETFD, (int)arg));
	case 3: {
		int l = fcntl(fd, F_GETFL);
		return l < 0 ? ret(l) : open_flags_to_darwin(l);
	}
	case 4: return ret(fcntl(fd, F_SETFL, open_flags_to_linux((int)arg)));
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
	return fail(D_EINVAL);
}

long s_ioctl(int fd, unsigned long req, void *arg) {
	switch (req) {
	case 0x40087468: return ret(ioctl(fd, TIOCGWINSZ, arg));
	case 0x4004667f: return socket_is(fd) ? *(int *)arg = socket_waiting(fd), 0 : ret(ioctl(fd, FIONREAD, arg));
	case 0x8004667e: return ret(ioctl(fd, FIONBIO, arg));
	case 0x40047477: return ret(ioctl(fd, TIOCGPGRP, arg));
	case 0x80047476: return ret(ioctl(fd, TIOCSPGRP, arg));
	case 0x20007461: return ret(ioctl(fd, TIOCSCTTY, 0));
	}
	return fcntl(fd, F_GETFD) < 0 ? ret(-1) : fail(D_ENOTTY);
}

// ---- names ----

static void stat_out(struct d_stat *d, const struct stat *s) {
	memset(d, 0, sizeof *d);
	d->dev = (int32_t)s->st_dev, d->mode = (uint16_t)s->st_mode, d->nlink = (uint16_t)s->st_nlink, d->ino = s->st_ino;
	d->uid = s->st_uid, d->gid = s->st_gid;
	d->rdev = (int32_t)(major(s->st_rdev) << 24 | minor(s->st_rdev));
	d->atim = (struct d_timespec){s->st_atim.tv_sec, s->st_atim.tv_nsec};
	d->mtim = (struct d_timespec){s->st_mtim.tv_sec, s->st_mtim.tv_nsec};
	d->ctim = (struct d_timespec){s->st_ctim.tv_sec, s->st_ctim.tv_nsec};
	d->btim = d->ctim;
	d->size = s->st_size, d->blocks = s->st_blocks, d->blksize = (int32_t)s->st_blksize;
}

static long stat_done(int r, struct d_stat *d, const struct stat *s) {
	if (r == 0)
		stat_out(d, s);
	return ret(r);
}

long s_stat(const char *p, struct d_stat *d) { struct stat s; return stat_done(stat(place(p), &s), d, &s); }
long s_lstat(const char *p, struct d_stat *d) { struct stat s; return stat_done(lstat(place(p), &s), d, &s); }
long s_fstat(int fd, struct d_stat *d) { struct stat s; return stat_done(fstat(fd, &s), d, &s); }
long s_fstatat(int dir, const char *p, struct d_stat *d, int flags) {
	struct stat s;
	return stat_done(fstatat(at(dir), p, &s, at_flags(flags)), d, &s);
}

long s_access(const char *p, int mode) { return ret(access(p, mode)); }
long s_faccessat(int dir, const char *p, int mode, int flags) {
	return ret(faccessat(at(dir), p, mode, at_flags(flags) | (flags & 0x10 ? AT_EACCESS : 0)));
}
long s_chmod(const char *p, mode_t m) { return ret(chmod(p, m)); }
long s_fchmod(int fd, mode_t m) { return ret(fchmod(fd, m)); }
long s_fchmodat(int dir, const char *p, mode_t m, int flags) { return ret(fchmodat(at(dir), p, m, at_flags(flags))); }
long s_chown(const char *p, uid_t u, gid_t g) { return ret(chown(p, u, g)); }
long s_lchown(const char *p, uid_t u, gid_t g) { return ret(lchown(p, u, g)); }
long s_fchown(int fd, uid_t u, gid_t g) { return ret(fchown(fd, u, g)); }
long s_fchownat(int dir, const char *p, uid_t u, gid_t g, int flags) { return ret(fchownat(at(dir), p, u, g, at_flags(flags))); }
long s_link(const char *a, const char *b) { return ret(link(a, b)); }
long s_linkat(int d1, const char *a, int d2, const char *b, int f) { return ret(linkat(at(d1), a, at(d2), b, at_flags(f))); }
long s_symlink(const char *a, const char *b) { return ret(symlink(a, b)); }
long s_symlinkat(const char *a, int d, const char *b) { return ret(symlinkat(a, at(d), b)); }
long s_readlink(const char *p, char *b, size_t n) { return ret(readlink(p, b, n)); }
long s_readlinkat(int d, const char *p, char *b, size_t n) { return ret(readlinkat(at(d), p, b, n)); }
long s_mkdir(const char *p, mode_t m) { return ret(mkdir(p, m)); }
long s_mkdirat(int d, const char *p, mode_t m) { return ret(mkdirat(at(d), p, m)); }
long s_mkfifo(const char *p, mode_t m) { return ret(mkfifo(p, m)); }
long s_rmdir(const char *p) { return ret(rmdir(p)); }
static bool is_directory(int d, const char *p) {
	struct stat s;
	return fstatat(d, p, &s, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(s.st_mode);
}
static long unlink_file(int d, const char *p) { // of a directory Linux says EISDIR, macOS EPERM
	long r = ret(unlinkat(d, p, 0));
	return r < 0 && is_directory(d, p) ? fail(D_EPERM) : r;
}
long s_unlink(const char *p) { return unlink_file(AT_FDCWD, p); }
long s_unlinkat(int d, const char *p, int f) {
	return f & 0x80 ? ret(unlinkat(at(d), p, AT_REMOVEDIR)) : unlink_file(at(d), p);
}
long s_rename(const char *a, const char *b) { return ret(rename(a, b)); }
long s_renameat(int d1, const char *a, int d2, const char *b) { return ret(renameat(at(d1), a, at(d2), b)); }
long s_chdir(const char *p) { return ret(chdir(p)); }
long s_fchdir(int fd) { return ret(fchdir(fd)); }
long s_chroot(const char *p) { return ret(chroot(p)); }
char *s_getcwd(char *b, size_t n) {
	char *r = getcwd(b, n);
	if (r == NULL)
		fail(errno_to_darwin(errno));
	return r;
}
mode_t s_umask(mode_t m) { return umask(m); }

static struct timespec time_in(struct d_timespec t) {
	return (struct timespec){t.sec, t.nsec == -1 ? UTIME_NOW : t.nsec == -2 ? UTIME_OMIT : t.nsec};
}
long s_utimensat(int d, const char *p, const struct d_timespec *t, int flags) {
	struct timespec ts[2];
	if (t != NULL)
		ts[0] = time_in(t[0]), ts[1] = time_in(t[1]);
	return ret(utimensat(at(d), p, t != NULL ? ts : NULL, at_flags(flags)));
}

// ---- directories ----

void *s_fdopendir(int fd) {
	DIR *d = fdopendir(fd);
	if (d == NULL)
		fail(errno_to_darwin(errno));
	return d;
}

long s_closedir(DIR *d) { return ret(closedir(d)); }

int s_readdir_r(DIR *d, struct d_dirent *e, struct d_dirent **result) {
	errno = 0;
	struct dirent *l = readdir(d);
	*result = NULL;
	if (l == NULL)
		return errno != 0 ? errno_to_darwin(errno) : 0;
	size_t n = strlen(l->d_name);
	e->ino = l->d_ino, e->seekoff = (uint64_t)l->d_off, e->type = l->d_type, e->namlen = (uint16_t)n;
	e->reclen = (uint16_t)((21 + n + 1 + 7) & ~7ul);
	memcpy(e->name, l->d_name, n + 1);
	*result = e;
	return 0;
}

// ---- memory ----

void *s_mmap(void *addr, size_t n, int prot, int flags, int fd, off_t off) {
	int l = flags & (MAP_SHARED | MAP_PRIVATE | MAP_FIXED); // these three are the same
	if (flags & 0x1000) // MAP_ANON: fd may be a tag there
		l |= MAP_ANONYMOUS, fd = -1, off = 0;
	if (prot == PROT_NONE)
		l |= MAP_NORESERVE;
	return (void *)ret((long)mmap(addr, n, prot, l, fd, off));
}
long s_munmap(void *addr, size_t n) { return ret(munmap(addr, n)); }
long s_mprotect(void *addr, size_t n, int prot) { return ret(mprotect(addr, n, prot)); }
long s_mlock(void *addr, size_t n) { return ret(mlock(addr, n)); }
long s_madvise(void *addr, size_t n, int advice) {
	switch (advice) {
	case 0: case 1: case 2: case 3: return ret(madvise(addr, n, advice));
	case 4: return 0; // DONTNEED is only a hint there, and on Linux it loses what is in the pages
	case 5: case 7: return ret(madvise(addr, n, MADV_FREE)); // FREE, FREE_REUSABLE
	case 8: return 0; // FREE_REUSE
	}
	return fail(D_EINVAL);
}
