// SPDX-License-Identifier: Apache-2.0

// What the program may call: the shims by the names that they have in libSystem.
#include "darwin.h"
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>

#define SHIMS(X) \
	X(read) X(write) X(open) X(openat) X(close) X(dup) X(dup2) X(writev) X(fcntl) X(ioctl) X(stat) X(lstat) X(fstat) \
	X(fstatat) X(faccessat) X(fchmodat) X(fchownat) X(readlinkat) X(mkdirat) X(unlink) X(unlinkat) X(renameat) X(getcwd) \
	X(utimensat) X(fdopendir) X(closedir) X(readdir_r) X(mmap) X(madvise) X(mach_absolute_time) X(mach_continuous_time) \
	X(mach_timebase_info) X(clock_gettime) X(issetugid) X(getpwnam_r) X(getpwuid_r) X(getgrnam_r) X(getgrgid_r) \
	X(getrlimit) X(setrlimit) X(getrusage) X(sysconf) X(sysctl) X(sysctlbyname) X(arc4random_buf) X(_exit) X(abort) X(execve) \
	X(wait4) X(setenv) X(unsetenv) X(socket) X(socketpair) X(bind) X(connect) X(listen) X(accept) X(getsockname) X(getpeername) \
	X(shutdown) X(sendto) X(recvfrom) X(sendmsg) X(recvmsg) X(sendmsg_x) X(recvmsg_x) X(getsockopt) X(setsockopt) X(sendfile) \
	X(getaddrinfo) X(freeaddrinfo) X(gai_strerror) X(kqueue) X(kevent) X(sigaction) X(sigaltstack) X(sigfillset) \
	X(pthread_sigmask) X(kill) X(raise) X(pthread_attr_init) X(pthread_attr_getstacksize) X(pthread_attr_setstacksize) \
	X(pthread_attr_setdetachstate) X(pthread_create) X(pthread_detach) X(pthread_self) X(pthread_get_stacksize_np) \
	X(pthread_kill) X(pthread_setspecific) X(pthread_mutex_init) X(pthread_mutex_lock) X(pthread_mutex_unlock) \
	X(pthread_cond_init) X(pthread_cond_wait) X(pthread_cond_timedwait_relative_np) X(pthread_cond_signal) \
	X(pthread_cond_broadcast) X(dlopen) X(dlsym) X(dlerror) X(dlclose)

// These differ in their errno only. No such function has more than four arguments, all of them whole numbers or pointers.
#define SAME(X) \
	X(int, fsync) X(int, ftruncate) X(int, truncate) X(int, flock) X(int, pipe) X(int, poll) X(int, access) X(int, chmod) \
	X(int, fchmod) X(int, chown) X(int, lchown) X(int, fchown) X(int, link) X(int, symlink) X(int, mkdir) X(int, mkfifo) \
	X(int, rmdir) X(int, rename) X(int, chdir) X(int, fchdir) X(int, chroot) X(int, munmap) X(int, mprotect) X(int, nanosleep) \
	X(int, usleep) X(int, getpid) X(int, getppid) X(int, getuid) X(int, geteuid) X(int, getgid) X(int, getegid) X(int, setuid) \
	X(int, seteuid) X(int, setgid) X(int, setsid) X(int, setpgid) X(int, getpgid) X(int, getgroups) X(int, setgroups) \
	X(int, getgrouplist) X(int, fork) X(int, alarm) X(int, umask) X(long, lseek) X(long, pread) X(long, pwrite) \
	X(long, readlink)

#define WRAP(type, name) \
	static long same_##name(long a, long b, long c, long d) \
	{ \
		static type (*volatile linux_)(long, long, long, long) = (void *)name; \
		return ret(linux_(a, b, c, d)); \
	}
SAME(WRAP)

#define DECLARE(name) extern char s_##name[];
SHIMS(DECLARE)

// What libSystem has and no program needs here.
static long zero(void) { return 0; }
static long no_job(void) { return D_ESRCH; }

static const struct { const char *name; void *address; } table[] = {
#define ROW(name) {#name, s_##name},
	SHIMS(ROW)
#define SAME_ROW(type, name) {#name, same_##name},
	SAME(SAME_ROW)
	{"stat64", s_stat}, {"lstat64", s_lstat}, {"fstat64", s_fstat}, {"fstatat64", s_fstatat}, {"__error", darwin_error},
	{"malloc", malloc}, {"free", free}, {"notify_is_valid_token", zero}, {"xpc_date_create_from_current", zero},
	{"launch_activate_socket", no_job}, {"exit", s__exit},
};

static void *find(const char *name, size_t n)
{
	for (size_t i = 0; i < sizeof table / sizeof *table; i++)
		if (strlen(table[i].name) == n && memcmp(table[i].name, name, n) == 0)
			return table[i].address;
	return NULL;
}

// shim finds a function by its name in C; variants of it, behind a dollar sign, are the same here.
void *shim(const char *name) { return find(name, strcspn(name, "$")); }
