// SPDX-License-Identifier: Apache-2.0

// getsockopt and setsockopt. What is not known is refused with ENOPROTOOPT, or EOPNOTSUPP for unix sockets of another level than
// SOL_SOCKET, which uipc_ctloutput in uipc_usrreq.c answers whatever the level.
#include "socket.h"

#include "shims.h"

#include <fcntl.h>
#include <limits.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/ioctl.h>

enum {
	D_SO_LINGER = 0x80, D_SO_SNDBUF = 0x1001, D_SO_RCVBUF = 0x1002, D_SO_SNDTIMEO = 0x1005, D_SO_RCVTIMEO = 0x1006,
	D_SO_ERROR = 0x1007, D_SO_NREAD = 0x1020, D_SO_NOSIGPIPE = 0x1022, D_SO_NWRITE = 0x1024, D_SO_LINGER_SEC = 0x1080,
};
enum { LOCAL_PEERCRED = 1, LOCAL_PEERPID, LOCAL_PEEREPID };

struct d_xucred { uint32_t version, uid; int16_t ngroups; uint32_t groups[16]; };
static_assert(sizeof(struct d_xucred) == 76, "struct xucred");

// ended reports whether a stream neither sends nor receives any more: its peer has closed, or both directions are shut down.
static bool ended(int fd, const struct sock *s)
{
	struct pollfd p = {.fd = fd};
	union address a;
	socklen_t n = sizeof a;
	return s->family == AF_UNIX && s->type == SOCK_STREAM && poll(&p, 1, 0) == 1 && p.revents & POLLHUP &&
		getpeername(fd, &a.sa, &n) == 0; // one that was never connected
}

// ---- peers ----

static long give(const void *from, uint32_t size, void *v, uint32_t *n)
{
	*n = *n < size ? *n : size;
	memcpy(v, from, *n);
	return 0;
}

// Credentials are those at the time of connect and listen, as on Linux; a pair of datagram sockets has none (unp_connect2).
static long credentials(int fd, const struct sock *s, void *v, uint32_t *n)
{
	struct ucred c;
	gid_t groups[NGROUPS_MAX];
	struct d_xucred x = {.ngroups = 1};
	socklen_t cn = sizeof c, gn = sizeof groups;
	if (s->type != SOCK_STREAM)
		return fail(D_EINVAL);
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &c, &cn) != 0 || c.uid == (uid_t)-1)
		return fail(D_ENOTCONN);
	x.uid = c.uid, x.groups[0] = c.gid;
	if (getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, groups, &gn) != 0)
		gn = 0;
	for (size_t i = 0; i < gn / sizeof *groups && x.ngroups < 16; i++)
		if (groups[i] != c.gid)
			x.groups[x.ngroups++] = groups[i];
	return give(&x, sizeof x, v, n);
}

// The process is the one that last used the peer's socket: so_update_last_owner_locked. Of a peer without machrun it is the one that
// connected.
static long process(int fd, struct sock *s, void *v, uint32_t *n)
{
	struct ucred c = {.pid = 0};
	socklen_t cn = sizeof c;
	bool connected = sock_is_datagram(s) ? datagram_connected(s) && !datagram_lost(fd, s) : !ended(fd, s);
	if (!connected || (s->type == SOCK_STREAM && (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &c, &cn) != 0 || c.uid == (uid_t)-1)))
		return fail(D_ENOTCONN);
	int64_t inode = sock_is_datagram(s) ? (int64_t)s->peer : diag_peer(s->inode);
	const struct sock *peer = inode > 0 ? sock_by_inode((uint64_t)inode) : NULL;
	int32_t pid = peer != NULL && peer->pid != 0 ? peer->pid : c.pid;
	return give(&pid, sizeof pid, v, n);
}

static long get_local(int fd, struct sock *s, int o, void *v, uint32_t *n)
{
	switch (o) {
	case LOCAL_PEERCRED:
		return credentials(fd, s, v, n);
	case LOCAL_PEERPID:
	case LOCAL_PEEREPID: // no process is delegated here
		return process(fd, s, v, n);
	}
	refused("local option", o);
	return fail(D_EOPNOTSUPP);
}

// ---- the others ----

static bool to_linux(int *level, int *o)
{
	static const int map[][4] = {
		{D_SOL_SOCKET, 0x1, SOL_SOCKET, SO_DEBUG}, {D_SOL_SOCKET, 0x2, SOL_SOCKET, SO_ACCEPTCONN},
		{D_SOL_SOCKET, 0x4, SOL_SOCKET, SO_REUSEADDR}, {D_SOL_SOCKET, 0x8, SOL_SOCKET, SO_KEEPALIVE},
		{D_SOL_SOCKET, 0x10, SOL_SOCKET, SO_DONTROUTE}, {D_SOL_SOCKET, 0x20, SOL_SOCKET, SO_BROADCAST},
		{D_SOL_SOCKET, 0x100, SOL_SOCKET, SO_OOBINLINE}, {D_SOL_SOCKET, 0x200, SOL_SOCKET, SO_REUSEPORT},
		{D_SOL_SOCKET, D_SO_SNDBUF, SOL_SOCKET, SO_SNDBUF}, {D_SOL_SOCKET, D_SO_RCVBUF, SOL_SOCKET, SO_RCVBUF},
		{D_SOL_SOCKET, 0x1003, SOL_SOCKET, SO_SNDLOWAT}, {D_SOL_SOCKET, 0x1004, SOL_SOCKET, SO_RCVLOWAT},
		{D_SOL_SOCKET, D_SO_ERROR, SOL_SOCKET, SO_ERROR}, {D_SOL_SOCKET, 0x1008, SOL_SOCKET, SO_TYPE},
		{D_SOL_SOCKET, D_SO_LINGER, SOL_SOCKET, SO_LINGER}, {D_SOL_SOCKET, D_SO_LINGER_SEC, SOL_SOCKET, SO_LINGER},
		{IPPROTO_TCP, 0x1, IPPROTO_TCP, TCP_NODELAY}, {IPPROTO_TCP, 0x10, IPPROTO_TCP, TCP_KEEPIDLE},
		{IPPROTO_TCP, 0x101, IPPROTO_TCP, TCP_KEEPINTVL}, {IPPROTO_TCP, 0x102, IPPROTO_TCP, TCP_KEEPCNT},
		{IPPROTO_IPV6, 27, IPPROTO_IPV6, IPV6_V6ONLY},
	};
	for (size_t i = 0; i < sizeof map / sizeof *map; i++)
		if (map[i][0] == *level && map[i][1] == *o) {
			*level = map[i][2], *o = map[i][3];
			return true;
		}
	refused("option", (int64_t)*level << 16 | *o);
	return false;
}

int socket_waiting(int fd)
{
	const struct sock *s = sock_of(fd);
	int n = 0;
	if (ioctl(fd, FIONREAD, &n) != 0)
		return -1;
	return sock_is_datagram(s) && s->waiting > n ? s->waiting : n; // a program for Linux sends what is not counted
}

// own answers for what Linux's kernel does not know, or counts otherwise.
static bool own(int fd, struct sock *s, int o, int *v)
{
	switch (o) {
	case D_SO_NOSIGPIPE:
		*v = (s->flags & NO_SIGPIPE) != 0;
		return true;
	case D_SO_NREAD: // sogetopt: of datagrams the first one's data
		*v = 0;
		return ioctl(fd, FIONREAD, v) == 0;
	case D_SO_NWRITE:
		*v = 0;
		return s->family == AF_UNIX; // what was sent is the receiver's
	case D_SO_SNDBUF:
		*v = s->longest;
		return sock_is_datagram(s);
	case D_SO_RCVBUF:
		*v = s->room;
		return sock_is_datagram(s);
	case D_SO_ERROR: // so_error is taken away by being told
		*v = D_ECONNRESET;
		return sock_is_datagram(s) && datagram_connected(s) && datagram_lost(fd, s) && !(atomic_fetch_or(&s->flags, LOST) & LOST);
	}
	return false;
}

long s_getsockopt(int fd, int level, int o, void *v, uint32_t *n)
{
	struct sock *s = sock_of(fd);
	int value;
	if (s == NULL)
		return fail(fcntl(fd, F_GETFD) < 0 ? D_EBADF : D_ENOTSOCK);
	if (level != D_SOL_SOCKET && s->family == AF_UNIX)
		return get_local(fd, s, o, v, n);
	if (level == D_SOL_SOCKET && own(fd, s, o, &value))
		return give(&value, sizeof value, v, n);
	int asked = o;
	if (!to_linux(&level, &o))
		return fail(D_ENOPROTOOPT);
	long r = ret(getsockopt(fd, level, o, v, n));
	if (r == 0 && level == SOL_SOCKET && *n == sizeof value) {
		memcpy(&value, v, sizeof value);
		if (asked == D_SO_ERROR && value != 0)
			value = errno_to_darwin(value);
		if (asked == D_SO_SNDBUF || asked == D_SO_RCVBUF)
			value /= 2; // Linux doubles it
		memcpy(v, &value, sizeof value);
	}
	return r;
}

// set_buffer: uipc_socket.c, sosetoptlock refuses less than 1, and uipc_socket2.c, sbreserve cuts at kern.ipc.maxsockbuf.
static long set_buffer(int fd, struct sock *s, int o, int size)
{
	if (size < 1)
		return fail(D_EINVAL);
	size = size > MOST_SPACE ? MOST_SPACE : size;
	if (sock_is_datagram(s)) {
		*(o == D_SO_SNDBUF ? &s->longest : &s->room) = size;
		return 0;
	}
	bool send = o == D_SO_SNDBUF;
	if (setsockopt(fd, SOL_SOCKET, send ? SO_SNDBUFFORCE : SO_RCVBUFFORCE, &size, sizeof size) == 0)
		return 0;
	return ret(setsockopt(fd, SOL_SOCKET, send ? SO_SNDBUF : SO_RCVBUF, &size, sizeof size));
}

static long set_timeout(int fd, int o, const struct d_timeval *t, uint32_t n)
{
	if (n < sizeof *t || t->sec < 0 || t->usec < 0 || t->usec >= 1000000)
		return fail(n < sizeof *t ? D_EINVAL : 33 /* EDOM */);
	struct timeval tv = {t->sec, t->usec};
	return ret(setsockopt(fd, SOL_SOCKET, o == D_SO_SNDTIMEO ? SO_SNDTIMEO : SO_RCVTIMEO, &tv, sizeof tv));
}

long s_setsockopt(int fd, int level, int o, const void *v, uint32_t n)
{
	struct sock *s = sock_of(fd);
	int value = 0;
	if (s == NULL)
		return fail(fcntl(fd, F_GETFD) < 0 ? D_EBADF : D_ENOTSOCK);
	if (ended(fd, s)) // sosetoptlock: "the socket has been shutdown, no more sockopt's"
		return fail(D_EINVAL);
	if (level != D_SOL_SOCKET && s->family == AF_UNIX)
		return refused("local option", o), fail(D_EOPNOTSUPP);
	if (level == D_SOL_SOCKET && (o == D_SO_SNDTIMEO || o == D_SO_RCVTIMEO))
		return set_timeout(fd, o, v, n);
	if (n < sizeof value)
		return fail(D_EINVAL);
	memcpy(&value, v, sizeof value);
	if (level == D_SOL_SOCKET && o == D_SO_NOSIGPIPE) {
		if (value != 0)
			atomic_fetch_or(&s->flags, NO_SIGPIPE);
		else
			atomic_fetch_and(&s->flags, ~(uint32_t)NO_SIGPIPE);
		return 0;
	}
	if (level == D_SOL_SOCKET && (o == D_SO_SNDBUF || o == D_SO_RCVBUF))
		return set_buffer(fd, s, o, value);
	return to_linux(&level, &o) ? ret(setsockopt(fd, level, o, v, n)) : fail(D_ENOPROTOOPT);
}

// ---- names ----

long s_getsockname(int fd, struct d_sockaddr *d, uint32_t *n)
{
	union address l;
	socklen_t len = sizeof l;
	long r = ret(getsockname(fd, &l.sa, &len));
	if (r == 0)
		address_result(&l, len, d, n);
	return r;
}

// getpeername in uipc_syscalls.c: EINVAL after both directions have ended, and ENOTCONN of a datagram socket whose peer has gone.
long s_getpeername(int fd, struct d_sockaddr *d, uint32_t *n)
{
	union address l = {0};
	socklen_t len = sizeof l;
	struct sock *s = sock_of(fd);
	if (s != NULL && ended(fd, s))
		return fail(D_EINVAL);
	if (sock_is_datagram(s) && (!datagram_connected(s) || datagram_lost(fd, s)))
		return fail(D_ENOTCONN);
	if (sock_is_datagram(s) && s->flags & NAMED) {
		l.un.sun_family = AF_UNIX;
		memcpy(l.un.sun_path, s->path, sizeof s->path);
		address_result(&l, sizeof l.un, d, n);
		return 0;
	}
	long r = ret(getpeername(fd, &l.sa, &len));
	if (r == 0)
		address_result(&l, len, d, n);
	return r;
}
