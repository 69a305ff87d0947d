// SPDX-License-Identifier: Apache-2.0

#include "test_socket.h"

void pair(int type, int *fds) { EQUAL(0, s_socketpair(1, type, 0, fds)); }

void set(int fd, int option, int value) { EQUAL(0, s_setsockopt(fd, 0xffff, option, &value, sizeof value)); }

int get(int fd, int option)
{
	int v = -1;
	uint32_t n = sizeof v;
	EQUAL(0, s_getsockopt(fd, 0xffff, option, &v, &n));
	EQUAL(sizeof v, n);
	return v;
}

struct d_sockaddr at(const char *name)
{
	struct d_sockaddr a = {.family = 1};
	int n = snprintf(a.data, 104, "%s/%s", directory(), name);
	a.len = (uint8_t)(2 + n + 1);
	return a;
}

int listener(const char *name, int backlog, struct d_sockaddr *a)
{
	int fd = (int)s_socket(1, 1, 0);
	*a = at(name);
	EQUAL(0, s_bind(fd, a, a->len));
	EQUAL(0, s_listen(fd, backlog));
	return fd;
}

int datagram(const char *name, struct d_sockaddr *a)
{
	int fd = (int)s_socket(1, 2, 0);
	*a = at(name);
	EQUAL(0, s_bind(fd, a, a->len));
	return fd;
}

struct rights { struct d_cmsghdr h; int fds[256]; };

long send_fds(int fd, const int *fds, int n)
{
	struct rights c = {.h = {.len = (uint32_t)(sizeof c.h + 4 * (size_t)n), .level = 0xffff, .type = 1}};
	struct iovec v = {"x", 1};
	struct d_msghdr m = {.iov = &v, .iovlen = 1, .control = &c, .controllen = c.h.len};
	memcpy(c.fds, fds, 4 * (size_t)n);
	return s_sendmsg(fd, &m, 0);
}

int receive_fd(int fd)
{
	struct rights c;
	char b;
	struct iovec v = {&b, 1};
	struct d_msghdr m = {.iov = &v, .iovlen = 1, .control = &c, .controllen = sizeof c};
	EQUAL(1, s_recvmsg(fd, &m, 0));
	EQUAL(16, m.controllen);
	EQUAL(16, c.h.len);
	return c.fds[0];
}
