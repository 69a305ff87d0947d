/* SPDX-License-Identifier: Apache-2.0
 *
 * Preloaded into QEMU by the restart tests: gives each of its sockets a send buffer of SNDBUF bytes (4096 when unset) as it
 * connects. macOS gives a unix socket 8 KiB, Linux over 200 KiB; with so little room QEMU is blocked on a write most of the
 * time, which is the state in which it loses its network for good when its peer closes without reading on.
 *
 *     gcc -shared -fPIC -O2 -o sndbuf.so sndbuf.c
 *     SNDBUF=4096 LD_PRELOAD=./sndbuf.so qemu-system-x86_64 ...
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>

static void shrink(int fd)
{
	const char *s = getenv("SNDBUF");
	int saved = errno, n = s ? atoi(s) : 4096;

	setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &n, sizeof n);
	errno = saved;
}

int connect(int fd, const struct sockaddr *addr, socklen_t len)
{
	int (*next)(int, const struct sockaddr *, socklen_t) =
		(int (*)(int, const struct sockaddr *, socklen_t))dlsym(RTLD_NEXT, "connect");

	shrink(fd);
	return next(fd, addr, len);
}

int socketpair(int domain, int type, int protocol, int fds[2])
{
	int (*next)(int, int, int, int *) = (int (*)(int, int, int, int *))dlsym(RTLD_NEXT, "socketpair");
	int r = next(domain, type, protocol, fds);

	if (r == 0) {
		shrink(fds[0]);
		shrink(fds[1]);
	}
	return r;
}
