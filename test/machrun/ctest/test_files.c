// SPDX-License-Identifier: Apache-2.0

#include "harness.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

// Numbers of macOS.
enum { RDWR = 2, NONBLOCK = 4, EXLOCK = 0x20, CREAT = 0x200, EXCL = 0x800, DIRECTORY = 0x100000, CLOEXEC = 0x1000000 };
enum { GETFD = 1, GETFL = 3, SETFL = 4, GETLK = 7, SETLK = 8, WRLCK = 3, UNLCK = 2 };
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

CASE(unlink_of_a_directory_is_eperm) // unlink(2)
{
	const char *p = in_directory("dir");
	EQUAL(0, mkdir(p, 0700));
	FAILS(D_EPERM, s_unlink(p));
	FAILS(D_EPERM, s_unlinkat(D_AT_FDCWD, p, 0));
	EQUAL(0, s_unlinkat(D_AT_FDCWD, p, 0x80));
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

CASE(unknown_values_and_clocks)
{
	uint32_t v;
	size_t n = 2;
	struct d_timespec t;
	FAILS(D_ENOMEM, s_sysctlbyname("kern.ipc.somaxconn", &v, &n, NULL, 0));
	FAILS(D_ENOENT, s_sysctlbyname("kern.nothing", &v, &n, NULL, 0));
	FAILS(D_ENOENT, s_sysctl((int32_t[]){1, 99}, 2, &v, &n, NULL, 0));
	FAILS(D_EINVAL, s_sysctl((int32_t[]){4, 17, 0, 0, 99, 0}, 6, &v, &n, NULL, 0));
	FAILS(D_EINVAL, s_clock_gettime(1, &t));
	FAILS(D_EINVAL, s_clock_gettime(-1, &t));
}
