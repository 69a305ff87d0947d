// SPDX-License-Identifier: Apache-2.0

#include "wire.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

int read_full(int fd, void *buf, size_t n)
{
	uint8_t *p = buf;
	while (n > 0) {
		ssize_t r = read(fd, p, n);
		if (r < 0 && errno == EINTR)
			continue;
		if (r <= 0)
			return -1;
		p += r;
		n -= (size_t)r;
	}
	return 0;
}

int write_parts(int fd, struct iovec *v, int n)
{
	while (n > 0) {
		ssize_t r = writev(fd, v, n);
		if (r < 0 && errno == EINTR)
			continue;
		if (r < 0)
			return -1;
		for (; n > 0 && (size_t)r >= v->iov_len; v++, n--)
			r -= (ssize_t)v->iov_len;
		if (n > 0) {
			v->iov_base = (uint8_t *)v->iov_base + r;
			v->iov_len -= (size_t)r;
		}
	}
	return 0;
}

int write_full(int fd, const void *buf, size_t n)
{
	return write_parts(fd, &(struct iovec){.iov_base = (void *)buf, .iov_len = n}, 1);
}

void set_buffers(int fd, int n)
{
	setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &n, sizeof n);
	setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &n, sizeof n);
}

void die(const char *what)
{
	perror(what);
	exit(2);
}
