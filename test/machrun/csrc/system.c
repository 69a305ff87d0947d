// SPDX-License-Identifier: Apache-2.0

// Time, users, limits, sysctl, random numbers, processes.
#include "darwin.h"
#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <time.h>

// ---- time ----

uint64_t s_mach_absolute_time(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}
int s_mach_timebase_info(uint32_t *ratio) { return ratio[0] = ratio[1] = 1, 0; }
long s_clock_gettime(int id, struct d_timespec *d) {
	static const int8_t ids[] = {CLOCK_REALTIME, -1, -1, -1, CLOCK_MONOTONIC_RAW, CLOCK_MONOTONIC_RAW, CLOCK_BOOTTIME, -1, CLOCK_MONOTONIC,
		CLOCK_MONOTONIC, -1, -1, CLOCK_PROCESS_CPUTIME_ID, -1, -1, -1, CLOCK_THREAD_CPUTIME_ID};
	struct timespec t;
	if (id < 0 || id >= (int)sizeof ids || ids[id] < 0)
		return fail(D_EINVAL);
	if (clock_gettime(ids[id], &t) != 0)
		return ret(-1);
	*d = (struct d_timespec){t.tv_sec, t.tv_nsec};
	return 0;
}
long s_nanosleep(const struct timespec *t, struct timespec *left) { return ret(nanosleep(t, left)); }
long s_usleep(unsigned us) { return ret(usleep(us)); }

// ---- who ----

long s_getpid(void) { return getpid(); }
long s_getppid(void) { return getppid(); }
long s_getuid(void) { return getuid(); }
long s_geteuid(void) { return geteuid(); }
long s_getgid(void) { return getgid(); }
long s_getegid(void) { return getegid(); }
long s_setuid(uid_t u) { return ret(setuid(u)); }
long s_setgid(gid_t g) { return ret(setgid(g)); }
long s_setsid(void) { return ret(setsid()); }
long s_setpgid(pid_t p, pid_t g) { return ret(setpgid(p, g)); }
long s_getpgid(pid_t p) { return ret(getpgid(p)); }
long s_getpgrp(void) { return getpgrp(); }
long s_getgroups(int n, gid_t *g) { return ret(getgroups(n, g)); }
long s_setgroups(int n, const gid_t *g) { return ret(setgroups((size_t)n, g)); }
long s_getgrouplist(const char *user, int gid, gid_t *g, int *n) { return getgrouplist(user, (gid_t)gid, g, n); }
long s_issetugid(void) { return 0; }

struct d_passwd { char *name, *passwd; uint32_t uid, gid; int64_t change; char *class_, *gecos, *dir, *shell; int64_t expire; };

static int user(int e, struct passwd *l, struct passwd *found, struct d_passwd *d, struct d_passwd **result) {
	*result = NULL;
	if (e != 0)
		return errno_to_darwin(e);
	if (found != NULL) {
		*d = (struct d_passwd){l->pw_name, l->pw_passwd, l->pw_uid, l->pw_gid, 0, (char *)"", l->pw_gecos, l->pw_dir, l->pw_shell, 0};
		*result = d;
	}
	return 0;
}
int s_getpwnam_r(const char *name, struct d_passwd *d, char *b, size_t n, struct d_passwd **r) {
	struct passwd l, *f = NULL;
	int e = getpwnam_r(name, &l, b, n, &f);
	return user(e, &l, f, d, r);
}
int s_getpwuid_r(uid_t u, struct d_passwd *d, char *b, size_t n, struct d_passwd **r) {
	struct passwd l, *f = NULL;
	int e = getpwuid_r(u, &l, b, n, &f);
	return user(e, &l, f, d, r);
}
int s_getgrnam_r(const char *name, struct group *g, char *b, size_t n, struct group **r) { return errno_to_darwin(getgrnam_r(name, g, b, n, r)); }
int s_getgrgid_r(gid_t id, struct group *g, char *b, size_t n, struct group **r) { return errno_to_darwin(getgrgid_r(id, g, b, n, r)); }

// ---- limits ----

static int limit(int r) {
	static const int8_t map[] = {RLIMIT_CPU, RLIMIT_FSIZE, RLIMIT_DATA, RLIMIT_STACK, RLIMIT_CORE, RLIMIT_AS, RLIMIT_MEMLOCK, RLIMIT_NPROC, RLIMIT_NOFILE};
	return r >= 0 && r < (int)sizeof map ? map[r] : -1;
}
static const uint64_t D_INFINITY = INT64_MAX;
long s_getrlimit(int r, uint64_t *d) {
	struct rlimit l;
	if (limit(r) < 0)
		return fail(D_EINVAL);
	if (getrlimit(limit(r), &l) != 0)
		return ret(-1);
	d[0] = l.rlim_cur == RLIM_INFINITY ? D_INFINITY : l.rlim_cur;
	d[1] = l.rlim_max == RLIM_INFINITY ? D_INFINITY : l.rlim_max;
	return 0;
}
long s_setrlimit(int r, const uint64_t *d) {
	if (limit(r) < 0)
		return fail(D_EINVAL);
	struct rlimit l = {d[0] == D_INFINITY ? RLIM_INFINITY : d[0], d[1] == D_INFINITY ? RLIM_INFINITY : d[1]};
	return ret(setrlimit(limit(r), &l));
}

static void usage(struct d_rusage *d, const struct rusage *l) {
	d->utime = (struct d_timeval){l->ru_utime.tv_sec, (int32_t)l->ru_utime.tv_usec, 0};
	d->stime = (struct d_timeval){l->ru_stime.tv_sec, (int32_t)l->ru_stime.tv_usec, 0};
	memcpy(d->rest, &l->ru_maxrss, sizeof d->rest); // in the same order
	d->rest[0] *= 1024;
}
long s_getrusage(int who, struct d_rusage *d) {
	struct rusage l;
	if (getrusage(who, &l) != 0)
		return ret(-1);
	usage(d, &l);
	return 0;
}

long s_sysconf(int name) {
	switch (name) {
	case 5: return sysconf(_SC_OPEN_MAX);
	case 29: return 4096;
	case 57: case 58: return sysconf(_SC_NPROCESSORS_ONLN);
	case 70: case 71: return 4096; // GETGR_R_SIZE_MAX, GETPW_R_SIZE_MAX
	}
	return fail(D_EINVAL);
}

// ---- sysctl ----

static long answer(const void *v, size_t n, void *out, size_t *size) {
	if (size == NULL)
		return 0;
	if (out == NULL)
		return *size = n, 0;
	size_t room = *size;
	*size = n < room ? n : room;
	memcpy(out, v, *size);
	return n <= room ? 0 : fail(D_ENOMEM);
}
static long number(uint32_t v, void *out, size_t *size) { return answer(&v, sizeof v, out, size); }
static long number64(uint64_t v, void *out, size_t *size) { return answer(&v, sizeof v, out, size); }
static long text(const char *v, void *out, size_t *size) { return answer(v, strlen(v) + 1, out, size); }

long s_sysctlbyname(const char *name, void *out, size_t *size, void *new, size_t newsize) {
	(void)new, (void)newsize;
	static const struct { const char *name, *value; } texts[] = {
		{"kern.osproductversion", "26.0"}, {"kern.osrelease", "25.0.0"}, {"kern.ostype", "Darwin"}, {"kern.osversion", "25A000"},
		{"hw.model", "machrun1,1"}, {"hw.machine", "x86_64"}, {"machdep.cpu.brand_string", "machrun"},
	};
	for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
		if (strcmp(name, texts[i].name) == 0)
			return text(texts[i].value, out, size);
	static const struct { const char *name; uint32_t value; } numbers[] = {
		{"net.local.dgram.maxdgram", 2048}, {"net.local.dgram.recvspace", 4096}, {"net.local.stream.sendspace", 8192},
		{"net.local.stream.recvspace", 8192}, {"kern.ipc.maxsockbuf", 8388608}, {"kern.ipc.somaxconn", 128},
		{"kern.maxfilesperproc", 61440}, {"kern.maxfiles", 122880}, {"hw.pagesize", 4096},
	};
	for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
		if (strcmp(name, numbers[i].name) == 0)
			return number(numbers[i].value, out, size);
	if (strcmp(name, "hw.ncpu") == 0 || strcmp(name, "hw.logicalcpu") == 0)
		return number((uint32_t)sysconf(_SC_NPROCESSORS_ONLN), out, size);
	if (strcmp(name, "hw.memsize") == 0)
		return number64((uint64_t)sysconf(_SC_PHYS_PAGES) * 4096, out, size);
	return fail(D_ENOENT);
}

// Names of sysctl's numbers. {0, 3} asks for the numbers of a name: ours are {0x6d72, index of the name as it came}.
static char named[64][64];
static int names;

long s_sysctl(const int32_t *mib, unsigned n, void *out, size_t *size, void *new, size_t newsize) {
	if (n == 2 && mib[0] == 0 && mib[1] == 3) {
		char name[64];
		snprintf(name, sizeof name, "%.*s", (int)newsize, (char *)new);
		size_t room = 0;
		if (s_sysctlbyname(name, NULL, &room, NULL, 0) != 0)
			return -1;
		int i = 0;
		while (i < names && strcmp(named[i], name) != 0)
			i++;
		if (i == 64)
			return fail(D_ENOMEM);
		memcpy(named[i], name, sizeof name);
		if (i == names)
			names++;
		int32_t made[2] = {0x6d72, i};
		return answer(made, sizeof made, out, size);
	}
	if (n == 2 && mib[0] == 0x6d72)
		return s_sysctlbyname(named[mib[1]], out, size, NULL, 0);
	if (n == 6 && mib[0] == 4 && mib[1] == 17) // routes and interfaces: there are none
		return *size = 0, 0;
	if (n == 2 && mib[0] == 6) { // hw
		if (mib[1] == 3) return number((uint32_t)sysconf(_SC_NPROCESSORS_ONLN), out, size);
		if (mib[1] == 1) return text("x86_64", out, size);
		if (mib[1] == 7) return number(4096, out, size);
	}
	if (n == 2 && mib[0] == 1) { // kern
		struct utsname u;
		uname(&u);
		switch (mib[1]) {
		case 1: return text("Darwin", out, size);
		case 2: return text("25.0.0", out, size);
		case 4: return text("machrun", out, size);
		case 10: return text(u.nodename, out, size);
		case 29: return number(61440, out, size);
		}
	}
	return fail(D_ENOENT);
}

void s_arc4random_buf(void *b, size_t n) {
	for (size_t done = 0; done < n;) {
		ssize_t r = getrandom((char *)b + done, n - done, 0);
		if (r > 0)
			done += (size_t)r;
	}
}

// ---- processes ----

long s_fork(void) { return ret(fork()); }
void s__exit(int code) { _exit(code); }
void s_abort(void) { abort(); }
long s_ptrace(void) { return fail(D_ENOTSUP); }

// is_image reports whether path is a program for this loader.
static bool is_image(const char *path) {
	uint32_t magic = 0;
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	ssize_t n = read(fd, &magic, sizeof magic);
	close(fd);
	return n == sizeof magic && magic == 0xfeedfacf;
}

long s_execve(const char *path, char **argv, char **envp) {
	if (!is_image(path) || access(path, X_OK) != 0)
		return ret(execve(path, argv, envp)); // a program of Linux, or a script
	size_t n = 0;
	while (argv[n] != NULL)
		n++;
	char *args[n + 5];
	args[0] = (char *)"machrun", args[1] = (char *)"--argv0", args[2] = n > 0 ? argv[0] : (char *)path, args[3] = (char *)path;
	for (size_t i = 1; i <= n; i++)
		args[3 + i] = argv[i];
	args[n == 0 ? 4 : 3 + n] = NULL;
	// Our own variables, which the program does not see (load.c), go on to the next one whatever environment it is given.
	size_t e = 0, own = 0;
	while (envp[e] != NULL)
		e++;
	while (environ[own] != NULL)
		own++;
	char *env[e + own + 1];
	memcpy(env, envp, e * sizeof *env);
	for (size_t i = 0; i < own; i++)
		if (strncmp(environ[i], "MACHRUN_", 8) == 0)
			env[e++] = environ[i];
	env[e] = NULL;
	return ret(execve(machrun_path, args, env));
}

long s_wait4(int pid, int *status, int options, struct d_rusage *d) {
	struct rusage l;
	int st = 0;
	int lo = (options & 1 ? WNOHANG : 0) | (options & 2 ? WUNTRACED : 0) | (options & 0x10 ? WCONTINUED : 0);
	long r = ret(wait4(pid, &st, lo, &l));
	if (r > 0) {
		if (WIFSIGNALED(st))
			st = (st & ~0x7f) | signal_to_darwin(WTERMSIG(st));
		else if (WIFSTOPPED(st))
			st = signal_to_darwin(WSTOPSIG(st)) << 8 | 0x7f;
		if (status != NULL)
			*status = st;
		if (d != NULL)
			usage(d, &l);
	}
	return r;
}

// Values of the environment, which Go keeps itself and only tells C.
long s_setenv(const char *k, const char *v, int over) { return ret(setenv(k, v, over)); }
long s_unsetenv(const char *k) { return ret(unsetenv(k)); }
