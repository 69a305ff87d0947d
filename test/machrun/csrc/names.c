// SPDX-License-Identifier: Apache-2.0

// Files by name: stat, links, directories.
#include "darwin.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <time.h>

// The file where macOS's DHCP server records its leases is the simulator's.
const char *place(const char *path)
{
	static __thread char leases[4096];
	const char *dir = getenv("MACHRUN_VMNET_DIR");
	if (dir == NULL || path == NULL || strcmp(path, "/var/db/dhcpd_leases") != 0)
		return path;
	snprintf(leases, sizeof leases, "%s/dhcpd_leases", dir);
	return leases;
}

static int at(int fd) { return fd == D_AT_FDCWD ? AT_FDCWD : fd; }

static int at_flags(int f) // SYMLINK_NOFOLLOW, SYMLINK_FOLLOW
{
	return (f & 0x20 ? AT_SYMLINK_NOFOLLOW : 0) | (f & 0x40 ? AT_SYMLINK_FOLLOW : 0);
}

static void stat_out(struct d_stat *d, const struct stat *s)
{
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

static long stat_done(int r, struct d_stat *d, const struct stat *s)
{
	if (r == 0)
		stat_out(d, s);
	return ret(r);
}

long s_stat(const char *p, struct d_stat *d) { struct stat s; return stat_done(stat(place(p), &s), d, &s); }
long s_lstat(const char *p, struct d_stat *d) { struct stat s; return stat_done(lstat(place(p), &s), d, &s); }
long s_fstat(int fd, struct d_stat *d) { struct stat s; return stat_done(fstat(fd, &s), d, &s); }
long s_fstatat(int dir, const char *p, struct d_stat *d, int flags)
{
	struct stat s;
	return stat_done(fstatat(at(dir), p, &s, at_flags(flags)), d, &s);
}

long s_faccessat(int dir, const char *p, int mode, int flags)
{
	return ret(faccessat(at(dir), p, mode, at_flags(flags) | (flags & 0x10 ? AT_EACCESS : 0)));
}
long s_fchmodat(int dir, const char *p, mode_t m, int flags) { return ret(fchmodat(at(dir), p, m, at_flags(flags))); }
long s_fchownat(int dir, const char *p, uid_t u, gid_t g, int flags) { return ret(fchownat(at(dir), p, u, g, at_flags(flags))); }
long s_readlinkat(int d, const char *p, char *b, size_t n) { return ret(readlinkat(at(d), p, b, n)); }
long s_mkdirat(int d, const char *p, mode_t m) { return ret(mkdirat(at(d), p, m)); }
long s_renameat(int d, const char *p, int e, const char *q) { return ret(renameat(at(d), p, at(e), q)); }
static bool is_directory(int d, const char *p)
{
	struct stat s;
	return fstatat(d, p, &s, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(s.st_mode);
}
static long unlink_file(int d, const char *p) // of a directory Linux says EISDIR, macOS EPERM
{
	long r = ret(unlinkat(d, p, 0));
	return r < 0 && is_directory(d, p) ? fail(D_EPERM) : r;
}
long s_unlink(const char *p) { return unlink_file(AT_FDCWD, p); }
long s_unlinkat(int d, const char *p, int f)
{
	return f & 0x80 ? ret(unlinkat(at(d), p, AT_REMOVEDIR)) : unlink_file(at(d), p);
}
char *s_getcwd(char *b, size_t n)
{
	char *r = getcwd(b, n);
	if (r == NULL)
		fail(errno_to_darwin(errno));
	return r;
}

static struct timespec time_in(struct d_timespec t)
{
	return (struct timespec){t.sec, t.nsec == -1 ? UTIME_NOW : t.nsec == -2 ? UTIME_OMIT : t.nsec};
}
long s_utimensat(int d, const char *p, const struct d_timespec *t, int flags)
{
	struct timespec ts[2];
	if (t != NULL)
		ts[0] = time_in(t[0]), ts[1] = time_in(t[1]);
	return ret(utimensat(at(d), p, t != NULL ? ts : NULL, at_flags(flags)));
}

void *s_fdopendir(int fd)
{
	DIR *d = fdopendir(fd);
	if (d == NULL)
		fail(errno_to_darwin(errno));
	return d;
}

long s_closedir(DIR *d) { return ret(closedir(d)); }

int s_readdir_r(DIR *d, struct d_dirent *e, struct d_dirent **result)
{
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
