// SPDX-License-Identifier: Apache-2.0

#include "harness.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

// Numbers of macOS.
enum { RDWR = 2, NONBLOCK = 4, EXLOCK = 0x20, CREAT = 0x200, EXCL = 0x800, DIRECTORY = 0x100000, CLOEXEC = 0x1000000 };
enum { GETFD = 1, GETFL = 3, SETFL = 4, GETLK = 7, SETLK = 8, GETPATH = 50, DUPFD_CLOEXEC = 67, WRLCK = 3, UNLCK = 2 };
enum { D_EEXIST = 17, D_ENOTDIR = 20 };

static const char *in_directory(const char *name)
{
	static char path[4][512];
	static int next;
	char *p = path[next++ % 4];
	snprintf(p, sizeof path[0], "%s/%s", directory(), name);
	return p;
}

CASE(open_flags)
{
	const char *p = in_directory("file");
	int fd = (int)s_open(p, RDWR | CREAT | EXCL | CLOEXEC, 0600);
	CHECK(fd >= 0);
	EQUAL(FD_CLOEXEC, s_fcntl(fd, GETFD, 0));
	EQUAL(RDWR, s_fcntl(fd, GETFL, 0) & 3);
	FAILS(D_EEXIST, s_open(p, RDWR | CREAT | EXCL, 0600));
	FAILS(D_ENOTDIR, s_open(p, DIRECTORY, 0));
	FAILS(D_EINVAL, s_open(p, 3, 0));
	FAILS(D_EINVAL, s_open(p, 0x4000, 0)); // no flag of macOS
	FAILS(D_EINVAL, s_fcntl(fd, SETFL, 0x4000));
	EQUAL(0, s_fcntl(fd, SETFL, NONBLOCK));
	EQUAL(RDWR | NONBLOCK, s_fcntl(fd, GETFL, 0) & 7);
}

CASE(exlock_is_a_lock)
{
	const char *p = in_directory("file");
	int fd = (int)s_open(p, RDWR | CREAT | EXLOCK, 0600);
	CHECK(fd >= 0);
	FAILS(D_EAGAIN, s_open(p, RDWR | EXLOCK | NONBLOCK, 0));
	EQUAL(0, s_close(fd));
	CHECK(s_open(p, RDWR | EXLOCK | NONBLOCK, 0) >= 0);
}

CASE(locks_of_bytes_have_other_numbers)
{
	int fd = (int)s_open(in_directory("file"), RDWR | CREAT, 0600);
	struct d_flock l = {.len = 1, .type = WRLCK};
	EQUAL(0, s_fcntl(fd, SETLK, (long)&l));
	pid_t child = fork();
	if (child == 0) {
		if (s_fcntl(fd, GETLK, (long)&l) != 0 || l.type != WRLCK || l.pid != getppid())
			_exit(1);
		_exit(0);
	}
	int status = -1;
	s_wait4(child, &status, 0, NULL);
	EQUAL(0, status);
	l.type = UNLCK;
	EQUAL(0, s_fcntl(fd, SETLK, (long)&l));
}

CASE(unknown_commands_are_refused)
{
	int fd = (int)s_open("/dev/null", RDWR, 0);
	FAILS(D_EINVAL, s_fcntl(fd, 999, 0));
	FAILS(D_EBADF, s_fcntl(-1, 999, 0));
	FAILS(D_ENOTTY, s_ioctl(fd, 0x12345678, NULL));
	FAILS(D_EBADF, s_ioctl(-1, 0x12345678, NULL));
}

CASE(paths_of_descriptors)
{
	char path[1024];
	const char *p = in_directory("file");
	int fd = (int)s_open(p, RDWR | CREAT, 0600);
	EQUAL(0, s_fcntl(fd, GETPATH, (long)path));
	EQUAL(0, strcmp(p, path));
	int copy = (int)s_fcntl(fd, DUPFD_CLOEXEC, 100);
	CHECK(copy >= 100);
	EQUAL(FD_CLOEXEC, s_fcntl(copy, GETFD, 0));
}

CASE(unlink_of_a_directory_is_eperm) // unlink(2)
{
	const char *p = in_directory("dir");
	EQUAL(0, mkdir(p, 0700));
	FAILS(D_EPERM, s_unlink(p));
	FAILS(D_EPERM, s_unlinkat(D_AT_FDCWD, p, 0));
	EQUAL(0, s_unlinkat(D_AT_FDCWD, p, 0x80));
}

CASE(stat_and_directories)
{
	struct d_stat st;
	struct d_dirent e, *found;
	int n = 0;
	EQUAL(0, mkdir(in_directory("dir"), 0700));
	EQUAL(0, symlink("dir", in_directory("link")));
	EQUAL(0, s_lstat(in_directory("link"), &st));
	EQUAL(0120000, st.mode & 0170000);
	EQUAL(0, s_stat(in_directory("link"), &st));
	EQUAL(0040700, st.mode);
	void *d = s_fdopendir((int)s_open(directory(), DIRECTORY, 0));
	CHECK(d != NULL);
	while (s_readdir_r(d, &e, &found) == 0 && found != NULL) {
		EQUAL(strlen(e.name), e.namlen);
		EQUAL(0, e.reclen % 8);
		n += strcmp(e.name, "dir") == 0 && e.type == 4 && e.ino == st.ino;
	}
	EQUAL(1, n);
	EQUAL(0, s_closedir(d));
}

CASE(memory)
{
	enum { ANON = 0x1000, PRIVATE = 2 };
	char *p = s_mmap(NULL, 4096, PROT_READ | PROT_WRITE, ANON | PRIVATE, 7, 12345); // descriptor and offset do not count
	CHECK(p != MAP_FAILED);
	p[0] = 1;
	EQUAL(0, s_madvise(p, 4096, 4)); // DONTNEED keeps what is in there
	EQUAL(1, p[0]);
	FAILS(D_EINVAL, s_madvise(p, 4096, 99));
	FAILS(D_EINVAL, (long)s_mmap(NULL, 4096, PROT_READ, ANON | PRIVATE | 0x100000, -1, 0));
	EQUAL(0, munmap(p, 4096));
}

// The namespace has what the test's own machine has: at least lo0's route, and messages that fill the answer.
CASE(interfaces_and_routes)
{
	static unsigned char b[1 << 16];
	for (int what = 1; what <= 3; what += 2) { // NET_RT_DUMP, NET_RT_IFLIST
		size_t n = 0, at = 0, messages = 0;
		EQUAL(0, s_sysctl((int32_t[]){4, 17, 0, 0, what, 0}, 6, NULL, &n, NULL, 0));
		CHECK(n > 0 && n <= sizeof b);
		EQUAL(0, s_sysctl((int32_t[]){4, 17, 0, 0, what, 0}, 6, b, &n, NULL, 0));
		for (; at < n; messages++) {
			EQUAL(5, b[at + 2]); // RTM_VERSION
			CHECK(what == 1 ? b[at + 3] == 4 : b[at + 3] == 0xe || b[at + 3] == 0xc);
			CHECK(b[at] >= 20);
			at += b[at] + 256u * b[at + 1];
		}
		EQUAL(n, at);
		CHECK(messages > 0);
		if (what == 1)
			EQUAL(127, b[92 + 4]);
	}
	size_t n = 8;
	FAILS(D_ENOMEM, s_sysctl((int32_t[]){4, 17, 0, 0, 1, 0}, 6, b, &n, NULL, 0));
	FAILS(D_EINVAL, s_sysctl((int32_t[]){4, 17, 0, 0, 99, 0}, 6, b, &n, NULL, 0));
}

CASE(kernel_values)
{
	uint32_t v = 0;
	size_t n = sizeof v;
	EQUAL(0, s_sysctlbyname("kern.ipc.somaxconn", &v, &n, NULL, 0));
	EQUAL(128, v);
	n = 2;
	FAILS(D_ENOMEM, s_sysctlbyname("kern.ipc.somaxconn", &v, &n, NULL, 0));
	FAILS(D_ENOENT, s_sysctlbyname("kern.nothing", &v, &n, NULL, 0));
	int32_t mib[2] = {0, 3};
	size_t m = sizeof mib;
	EQUAL(0, s_sysctl(mib, 2, mib, &m, (void *)(uintptr_t)"kern.ipc.somaxconn", 18));
	n = sizeof v, v = 0;
	EQUAL(0, s_sysctl(mib, 2, &v, &n, NULL, 0));
	EQUAL(128, v);
	FAILS(D_ENOENT, s_sysctl((int32_t[]){1, 99}, 2, &v, &n, NULL, 0));
}

CASE(a_process_by_its_number)
{
	unsigned char p[648];
	size_t n = sizeof p;
	int32_t pid = 0, ours = getpid();
	EQUAL(0, s_sysctl((int32_t[]){1, 14, 1, ours}, 4, p, &n, NULL, 0));
	EQUAL(sizeof p, n);
	memcpy(&pid, p + 40, sizeof pid);
	EQUAL(ours, pid);
	EQUAL(0, s_sysctl((int32_t[]){1, 14, 1, INT32_MAX}, 4, p, &n, NULL, 0)); // there is none
	EQUAL(0, n);
	EQUAL(0, s_sysctl((int32_t[]){1, 14, 1, INT32_MAX}, 4, NULL, NULL, NULL, 0));
}

CASE(the_effective_user)
{
	if (getuid() != 0)
		return;
	EQUAL(0, seteuid(65534));
	EQUAL(65534, geteuid());
	EQUAL(0, getuid());
	EQUAL(0, seteuid(0));
}
