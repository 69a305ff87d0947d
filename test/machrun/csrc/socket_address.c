// SPDX-License-Identifier: Apache-2.0

// Addresses: another layout, 104 bytes of path, no abstract names.
#include "socket.h"

// A path need not end in a zero byte there. Longer paths than sun_path has room for are possible on macOS (up to
// SOCK_MAXADDRLEN, 255 bytes of address) but not on Linux.
static int unix_in(const struct d_sockaddr *d, uint32_t n, union address *l)
{
	size_t room = n - 2, len = strnlen(d->data, room);
	if (room == 0)
		return fail(D_EINVAL);
	if (len == 0) // namei of an empty path
		return fail(D_ENOENT);
	if (len > PATH_ROOM)
		return refused("path of bytes", (int64_t)len), fail(D_EINVAL);
	l->un.sun_family = AF_UNIX;
	memcpy(l->un.sun_path, d->data, len);
	return (int)(offsetof(struct sockaddr_un, sun_path) + len + 1);
}

// getsockaddr in uipc_syscalls.c: ENAMETOOLONG above 255 bytes, EINVAL below 2. The length in the address is not looked at.
int address_in(const struct d_sockaddr *d, uint32_t n, union address *l)
{
	memset(l, 0, sizeof *l);
	if (n > 255)
		return fail(D_ENAMETOOLONG);
	if (d == NULL || n < 2)
		return fail(D_EINVAL);
	switch (d->family) {
	case 0: // unp_bind and unp_connect
	case D_AF_UNIX:
		return unix_in(d, n, l);
	case D_AF_INET:
		if (n != sizeof l->in)
			return fail(D_EINVAL);
		memcpy(l, d, sizeof l->in);
		l->in.sin_family = AF_INET;
		return sizeof l->in;
	case D_AF_INET6:
		if (n != sizeof l->in6)
			return fail(D_EINVAL);
		memcpy(l, d, sizeof l->in6);
		l->in6.sin6_family = AF_INET6;
		return sizeof l->in6;
	}
	return fail(D_EAFNOSUPPORT);
}

static size_t path_length(const union address *l, socklen_t len)
{
	size_t before = offsetof(struct sockaddr_un, sun_path);
	return len > before ? strnlen(l->un.sun_path, len - before) : 0;
}

int address_cost(const union address *l, socklen_t len)
{
	size_t n = path_length(l, len);
	return n == 0 ? UNNAMED : (int)(2 + n + 1);
}

// address_out returns the whole length, and writes as much as there is room for.
uint32_t address_out(const union address *l, socklen_t len, struct d_sockaddr *d, uint32_t room)
{
	struct d_sockaddr a = {.len = UNNAMED, .family = D_AF_UNIX};
	if (len >= sizeof l->in && l->sa.sa_family == AF_INET) {
		memcpy(&a, l, sizeof l->in);
		a.len = sizeof l->in, a.family = D_AF_INET;
	} else if (len >= sizeof l->in6 && l->sa.sa_family == AF_INET6) {
		memcpy(&a, l, sizeof l->in6);
		a.len = sizeof l->in6, a.family = D_AF_INET6;
	} else {
		size_t n = path_length(l, len);
		n = n > PATH_ROOM ? PATH_ROOM : n;
		memcpy(a.data, l->un.sun_path, n);
		a.len = (uint8_t)(n == 0 ? UNNAMED : n == PATH_ROOM ? 2 + n : 2 + n + 1);
	}
	if (d != NULL)
		memcpy(d, &a, a.len < room ? a.len : room);
	return a.len;
}

void address_result(const union address *l, socklen_t len, struct d_sockaddr *d, uint32_t *n)
{
	if (n != NULL)
		*n = address_out(l, len, d, *n);
}
