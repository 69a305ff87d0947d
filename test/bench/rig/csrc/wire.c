// SPDX-License-Identifier: Apache-2.0

#include "wire.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
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

struct sockaddr_un address_of(const char *path, const char *suffix)
{
	struct sockaddr_un addr = {.sun_family = AF_UNIX};
	if (snprintf(addr.sun_path, sizeof addr.sun_path, "%s%s", path, suffix) >= (int)sizeof addr.sun_path) {
		fprintf(stderr, "socket path too long: %s%s\n", path, suffix);
		exit(2);
	}
	return addr;
}

int make_socket(int type)
{
	int fd = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);
	if (fd < 0)
		die("socket");
	return fd;
}

int bind_to(int type, const char *path, const char *suffix)
{
	struct sockaddr_un addr = address_of(path, suffix);
	int fd = make_socket(type);
	if (bind(fd, (struct sockaddr *)&addr, sizeof addr) < 0 || (type == SOCK_STREAM && listen(fd, SOMAXCONN) < 0))
		die(addr.sun_path);
	return fd;
}

void read_frames(int fd, ssize_t (*forward)(void *, const uint8_t *, size_t), void *to)
{
	uint8_t *buf = malloc(READ_LEN + PREFIX_LEN + MAX_FRAME_LEN);
	size_t have = 0; // the begin of a frame that has not fully arrived
	for (;;) {
		ssize_t r = read(fd, buf + have, READ_LEN);
		if (r <= 0)
			break;
		have += (size_t)r;
		ssize_t used = forward(to, buf, have);
		if (used < 0)
			break;
		have -= (size_t)used;
		memmove(buf, buf + used, have);
	}
	free(buf);
}

void start_thread(void *(*loop)(void *), void *arg)
{
	enum { STACK_SIZE = 256 * 1024 };
	pthread_attr_t attr;
	pthread_t thread;
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, STACK_SIZE);
	if (pthread_create(&thread, &attr, loop, arg) != 0)
		die("pthread_create");
	pthread_detach(thread);
}

void die(const char *what)
{
	perror(what);
	exit(2);
}
