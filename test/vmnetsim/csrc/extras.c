// SPDX-License-Identifier: Apache-2.0

// What libSystem has beyond vmnet: many datagrams per call, sockets from launchd, and what a process runs.
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

enum { MOST = 256, DARWIN_MSG_DONTWAIT = 0x80 };

// Fills Linux's headers from darwin's. False: something is set that darwin does not take.
static bool translate(const struct msghdr_x *from, struct mmsghdr *to, unsigned n)
{
	memset(to, 0, n * sizeof *to);
	for (unsigned i = 0; i < n; i++) {
		if (from[i].msg_name != NULL || from[i].msg_namelen != 0 || from[i].msg_control != NULL ||
			from[i].msg_controllen != 0 || from[i].msg_iovlen < 0)
			return false;
		to[i].msg_hdr.msg_iov = from[i].msg_iov;
		to[i].msg_hdr.msg_iovlen = (size_t)from[i].msg_iovlen;
	}
	return true;
}

static ssize_t refuse(int err)
{
	errno = err;
	return -1;
}

// The only flag is MSG_DONTWAIT; Linux's number for it is taken as well, since tests there use their system's constants.
static bool good_flags(int flags) { return (flags & ~(DARWIN_MSG_DONTWAIT | MSG_DONTWAIT)) == 0; }

// Where Linux would block, darwin has no buffers.
ssize_t sendmsg_x(int fd, const struct msghdr_x *m, unsigned count, int flags)
{
	struct mmsghdr h[MOST];
	COUNT(sendmsg_x);
	unsigned n = count < MOST ? count : MOST;
	if (m == NULL || n == 0 || !good_flags(flags) || !translate(m, h, n))
		return refuse(EINVAL);
	int sent = sendmmsg(fd, h, n, MSG_DONTWAIT | MSG_NOSIGNAL);
	return sent < 0 && errno == EAGAIN ? refuse(ENOBUFS) : sent;
}

ssize_t recvmsg_x(int fd, struct msghdr_x *m, unsigned count, int flags)
{
	struct mmsghdr h[MOST];
	COUNT(recvmsg_x);
	unsigned n = count < MOST ? count : MOST;
	if (m == NULL || n == 0 || !good_flags(flags) || !translate(m, h, n))
		return refuse(EINVAL);
	int got = recvmmsg(fd, h, n, flags != 0 ? MSG_DONTWAIT : MSG_WAITFORONE, NULL);
	for (int i = 0; i < got; i++) {
		m[i].msg_datalen = h[i].msg_len;
		m[i].msg_flags = h[i].msg_hdr.msg_flags;
	}
	return got;
}

// One bit per line of the table that this process has taken.
static _Atomic uint32_t activated;

int launch_activate_socket(const char *name, int **fds, size_t *count)
{
	COUNT(launch_activate_socket);
	struct control *c = control();
	int found[LAUNCH];
	size_t n = 0;
	uint32_t bits = 0;
	bool any = false;
	for (int i = 0; i < LAUNCH; i++) {
		int64_t fd = atomic_load(&c->launch[i].fd_plus_1);
		any = any || fd != 0;
		if (fd == 0 || strncmp(c->launch[i].name, name, sizeof c->launch[i].name) != 0)
			continue;
		found[n++] = (int)fd - 1;
		bits |= 1u << i;
	}
	if (!any)
		return ESRCH;
	if (n == 0)
		return ENOENT;
	if (atomic_fetch_or(&activated, bits) & bits)
		return EALREADY;
	*fds = need(malloc(n * sizeof **fds));
	memcpy(*fds, found, n * sizeof **fds);
	*count = n;
	return 0;
}

int proc_pidpath(int pid, void *path, uint32_t size)
{
	char link[32];
	snprintf(link, sizeof link, "/proc/%d/exe", pid);
	ssize_t n = readlink(link, path, size);
	return n < 0 ? 0 : (int)n;
}
