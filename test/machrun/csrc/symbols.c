// SPDX-License-Identifier: Apache-2.0

// What the program may call: the shims by the names that they have in libSystem.
#include "control.h"
#include "darwin.h"
#include <grp.h>
#include <poll.h>
#include <stdlib.h>

#define SHIMS(X) \
	X(read) X(write) X(open) X(openat) X(close) X(dup) X(dup2) X(pread) X(pwrite) X(readv) X(writev) X(lseek) X(fsync) X(ftruncate) \
	X(truncate) X(flock) X(pipe) X(poll) X(fcntl) X(ioctl) X(stat) X(lstat) X(fstat) X(fstatat) X(access) X(faccessat) X(chmod) \
	X(fchmod) X(fchmodat) X(chown) X(lchown) X(fchown) X(fchownat) X(link) X(linkat) X(symlink) X(symlinkat) X(readlink) \
	X(readlinkat) X(mkdir) X(mkdirat) X(mkfifo) X(rmdir) X(unlink) X(unlinkat) X(rename) X(renameat) X(chdir) X(fchdir) X(chroot) \
	X(getcwd) X(umask) X(utimensat) X(fdopendir) X(closedir) X(readdir_r) X(mmap) X(munmap) X(mprotect) X(mlock) X(madvise) \
	X(mach_absolute_time) X(mach_continuous_time) X(mach_timebase_info) X(clock_gettime) X(nanosleep) X(alarm) X(usleep) X(getpid) X(getppid) X(getuid) X(geteuid) \
	X(getgid) X(getegid) X(setuid) X(seteuid) X(setgid) X(setsid) X(setpgid) X(getpgid) X(getpgrp) X(getgroups) X(setgroups) X(getgrouplist) \
	X(issetugid) X(getpwnam_r) X(getpwuid_r) X(getgrnam_r) X(getgrgid_r) X(getrlimit) X(setrlimit) X(getrusage) X(sysconf) \
	X(sysctl) X(sysctlbyname) X(arc4random_buf) X(fork) X(_exit) X(abort) X(ptrace) X(execve) X(wait4) X(setenv) X(unsetenv) \
	X(socket) X(socketpair) X(bind) X(connect) X(listen) X(accept) X(getsockname) X(getpeername) X(shutdown) X(sendto) X(recvfrom) \
	X(sendmsg) X(recvmsg) X(sendmsg_x) X(recvmsg_x) X(getsockopt) X(setsockopt) X(sendfile) X(getaddrinfo) X(freeaddrinfo) \
	X(gai_strerror) X(kqueue) X(kevent) X(sigaction) X(sigaltstack) X(sigfillset) X(pthread_sigmask) X(kill) X(raise) \
	X(pthread_attr_init) X(pthread_attr_getstacksize) X(pthread_attr_setstacksize) X(pthread_attr_setdetachstate) X(pthread_create) \
	X(pthread_detach) X(pthread_self) X(pthread_get_stacksize_np) X(pthread_kill) X(pthread_setspecific) X(pthread_mutex_init) \
	X(pthread_mutex_lock) X(pthread_mutex_unlock) X(pthread_cond_init) X(pthread_cond_wait) X(pthread_cond_timedwait_relative_np) \
	X(pthread_cond_signal) X(pthread_cond_broadcast) X(dlopen) X(dlsym) X(dlerror) X(dlclose)

#define DECLARE(name) extern char s_##name[];
SHIMS(DECLARE)

// What libSystem has and nobody needs here.
static long zero(void) { return 0; }
static long no_job(void) { return D_ESRCH; }

static const struct { const char *name; void *address; } table[] = {
#define ROW(name) {#name, s_##name},
	SHIMS(ROW)
	{"stat64", s_stat}, {"lstat64", s_lstat}, {"fstat64", s_fstat}, {"fstatat64", s_fstatat}, {"__error", darwin_error},
	{"malloc", malloc}, {"free", free}, {"calloc", calloc}, {"notify_is_valid_token", zero}, {"xpc_date_create_from_current", zero},
	{"launch_activate_socket", no_job}, {"exit", s__exit},
};

// With a control file, calls that have switches are bound to these: they ask the switches first. No such call has more than
// six arguments, all of them whole numbers or pointers, so the others of the six are what happens to be in the registers.
typedef long any(long, long, long, long, long, long);

// The functions of threads return their errno, the others -1.
static long failed_call(const char *name, int e) { return strncmp(name, "pthread_", 8) == 0 ? e : fail(e); }

#define CALL(name) \
	static long switched_##name(long a, long b, long c, long d, long e, long f) \
	{ \
		int error = call_error(FAIL_##name); \
		return error != 0 ? failed_call(#name, error) : ((any *)(void *)s_##name)(a, b, c, d, e, f); \
	}
#define SWITCH(name)
#define GAUGE(name)
#include "switches.h"
#undef CALL

static const struct { const char *name; any *address; } switched[] = {
#define CALL(name) {#name, switched_##name},
#include "switches.h"
};

static void *find(const char *name, size_t n)
{
	for (size_t i = 0; the_control != NULL && i < sizeof switched / sizeof *switched; i++)
		if (strlen(switched[i].name) == n && memcmp(switched[i].name, name, n) == 0)
			return (void *)switched[i].address;
	for (size_t i = 0; i < sizeof table / sizeof *table; i++)
		if (strlen(table[i].name) == n && memcmp(table[i].name, name, n) == 0)
			return table[i].address;
	return NULL;
}

// shim finds a function by its name in C; variants of it, behind a dollar sign, are the same here.
void *shim(const char *name) { return find(name, strcspn(name, "$")); }
