// SPDX-License-Identifier: Apache-2.0

// Sockets: how they are made, named, connected and closed.
#include "socket.h"

#include "shims.h"

#include <fcntl.h>

// prepare gives a new socket macOS's sizes. Datagrams are bounded by socket_room.c, so Linux gets room for all that may be on its
// way. Linux counts whole buffers of a stream, so that one of short writes holds less than on macOS.
static void prepare(int fd, int family, int type)
{
	int size = type == SOCK_DGRAM ? MOST_SPACE : STREAM_SPACE;
	sock_made(fd, family, type);
	if (family != AF_UNIX)
		return;
	if (setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &size, sizeof size) != 0)
		setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof size);
	if (type == SOCK_STREAM)
		setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof size);
}

static int family_in(int f) { return f == D_AF_UNIX ? AF_UNIX : f == D_AF_INET ? AF_INET : f == D_AF_INET6 ? AF_INET6 : -1; }

// kind checks what socreate does: EAFNOSUPPORT, EPROTONOSUPPORT; there is no SOCK_SEQPACKET, SOCK_NONBLOCK or SOCK_CLOEXEC.
static int kind(int family, int type)
{
	if (family_in(family) < 0)
		return refused("family", family), fail(D_EAFNOSUPPORT);
	if (type < SOCK_STREAM || type > SOCK_RAW || (family == D_AF_UNIX && type == SOCK_RAW))
		return refused("type", type), fail(D_EPROTONOSUPPORT);
	return 0;
}

long s_socket(int family, int type, int protocol)
{
	if (kind(family, type) < 0)
		return -1;
	int fd = socket(family_in(family), type, protocol);
	if (fd >= 0)
		prepare(fd, family_in(family), type);
	return ret(fd);
}

long s_socketpair(int family, int type, int protocol, int *fds)
{
	if (kind(family, type) < 0)
		return -1;
	if (family != D_AF_UNIX)
		return fail(D_EOPNOTSUPP);
	if (socketpair(AF_UNIX, type, protocol, fds) != 0)
		return ret(-1);
	for (int i = 0; i < 2; i++)
		prepare(fds[i], AF_UNIX, type);
	for (int i = 0; i < 2 && type == SOCK_DGRAM; i++) {
		struct sock *s = sock_of(fds[i]), *other = sock_of(fds[1 - i]);
		s->peer = (uint64_t)other->inode;
		atomic_fetch_or(&s->flags, PAIR | CONNECTED);
	}
	return 0;
}

long s_bind(int fd, const struct d_sockaddr *d, uint32_t n)
{
	union address l;
	struct sock *s = sock_of(fd);
	int len = address_in(d, n, &l);
	if (len < 0)
		return -1;
	if (bind(fd, &l.sa, (socklen_t)len) != 0)
		return ret(-1);
	if (s == NULL || s->family != AF_UNIX)
		return 0;
	s->named = address_cost(&l, (socklen_t)len);
	if (sock_is_datagram(s)) {
		sock_name(s, l.un.sun_path);
		int e = datagram_bound(fd, s);
		return e == 0 ? 0 : fail(errno_to_darwin(e));
	}
	return 0;
}

// connect_unix does not wait in a full backlog: unp_connect in uipc_usrreq.c, ECONNREFUSED when sonewconn has no place.
static long connect_unix(int fd, const union address *l, int len)
{
	int flags = fcntl(fd, F_GETFL);
	if (flags >= 0 && !(flags & O_NONBLOCK))
		fcntl(fd, F_SETFL, flags | O_NONBLOCK);
	int r = connect(fd, &l->sa, (socklen_t)len), e = errno;
	if (flags >= 0 && !(flags & O_NONBLOCK))
		fcntl(fd, F_SETFL, flags);
	errno = e;
	return r == -1 && e == EAGAIN ? fail(D_ECONNREFUSED) : ret(r);
}

long s_connect(int fd, const struct d_sockaddr *d, uint32_t n)
{
	union address l;
	struct sock *s = sock_of(fd);
	int len = address_in(d, n, &l);
	if (len < 0)
		return -1;
	if (s == NULL || s->family != AF_UNIX || l.sa.sa_family != AF_UNIX)
		return ret(connect(fd, &l.sa, (socklen_t)len));
	s->pid = getpid();
	return sock_is_datagram(s) ? datagram_connect(fd, s, &l, (socklen_t)len) : connect_unix(fd, &l, len);
}

// solisten in uipc_socket.c: 0, negative and more than somaxconn are somaxconn. uipc_socket2.c, sonewconn refuses when as many wait
// as the backlog says; Linux lets one more wait. uipc_listen: a socket without a name cannot listen.
long s_listen(int fd, int backlog)
{
	const struct sock *s = sock_of(fd);
	bool local = s != NULL && s->family == AF_UNIX;
	if (local && s->type == SOCK_DGRAM)
		return fail(D_EOPNOTSUPP);
	if (backlog <= 0 || backlog > BACKLOG)
		backlog = BACKLOG;
	return ret(listen(fd, local ? backlog - 1 : backlog));
}

// accept in uipc_syscalls.c: the new one has the listener's O_NONBLOCK, and its buffers (sonewconn).
long s_accept(int fd, struct d_sockaddr *d, uint32_t *n)
{
	union address l;
	socklen_t len = sizeof l;
	const struct sock *s = sock_of(fd);
	int flags = fcntl(fd, F_GETFL), size = 0;
	int c = accept4(fd, &l.sa, &len, flags >= 0 && flags & O_NONBLOCK ? SOCK_NONBLOCK : 0);
	if (c < 0 || s == NULL)
		return ret(c);
	prepare(c, s->family, s->type);
	socklen_t sn = sizeof size;
	if (s->family == AF_UNIX && getsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, &sn) == 0 && (size /= 2) != STREAM_SPACE)
		setsockopt(c, SOL_SOCKET, SO_SNDBUFFORCE, &size, sizeof size);
	address_result(&l, len, d, n);
	return c;
}

// soshutdownlock in uipc_socket.c.
long s_shutdown(int fd, int how)
{
	struct sock *s = sock_of(fd);
	if (how < SHUT_RD || how > SHUT_RDWR)
		return fail(D_EINVAL);
	if (sock_is_datagram(s) && !datagram_connected(s))
		return fail(D_ENOTCONN);
	long r = ret(shutdown(fd, how));
	if (r == 0 && s != NULL)
		atomic_fetch_or(&s->flags, how == SHUT_RD ? SHUT_READ : how == SHUT_WR ? SHUT_WRITE : SHUT_READ | SHUT_WRITE);
	return r;
}

long s_sendfile(void) { return fail(D_ENOTSUP); } // Go then copies

// ---- descriptors ----

bool socket_is(int fd) { return sock_of(fd) != NULL; }

// socket_closing is called before fd is closed, or becomes a copy of another one.
void socket_closing(int fd)
{
	peer_closed(fd);
	socket_forget(fd);
}
