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

int write_full(int fd, const void *buf, size_t n)
{
	const uint8_t *p = buf;
	while (n > 0) {
		ssize_t r = write(fd, p, n);
		if (r < 0 && errno == EINTR)
			continue;
		if (r < 0)
			return -1;
		p += r;
		n -= (size_t)r;
	}
	return 0;
}

int write_frame(int fd, const uint8_t *prefix, const uint8_t *frame, size_t len)
{
	struct iovec v[2] = {
		{.iov_base = (void *)prefix, .iov_len = PREFIX_LEN},
		{.iov_base = (void *)frame, .iov_len = len},
	};
	ssize_t r;
	do
		r = writev(fd, v, 2);
	while (r < 0 && errno == EINTR);
	if (r < 0)
		return -1;
	size_t done = (size_t)r;
	if (done < PREFIX_LEN) {
		if (write_full(fd, prefix + done, PREFIX_LEN - done) < 0)
			return -1;
		done = PREFIX_LEN;
	}
	return write_full(fd, frame + (done - PREFIX_LEN), len - (done - PREFIX_LEN));
}

static void set_both(int fd, int n)
{
	setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &n, sizeof n);
	setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &n, sizeof n);
}

void set_buffers(int fd)
{
	set_both(fd, SOCKET_BUFFER);
}

void set_datagram_buffers(int fd)
{
	set_both(fd, DATAGRAM_BUFFER);
}

void die(const char *what)
{
	perror(what);
	exit(2);
}
