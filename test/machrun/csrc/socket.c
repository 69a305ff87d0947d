// SPDX-License-Identifier: Apache-2.0

// Sockets: other families, options, flags and layouts, and what macOS does otherwise:
//
//   - a datagram of a unix socket that its receiver has no room for is ENOBUFS, not EAGAIN, and one longer than the send buffer
//     EMSGSIZE; the buffers are 2 and 4 KiB until somebody asks for more
//   - what is accepted has the listener's O_NONBLOCK
//   - an address is given to a connected datagram socket in vain: EISCONN
//   - there are no abstract names, no SOCK_CLOEXEC, no MSG_CMSG_CLOEXEC, no SOCK_SEQPACKET
//   - an unnamed socket's address has 16 bytes
//   - descriptors that do not fit into the control buffer are open and nobody knows them
#include "darwin.h"
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/un.h>

// ---- addresses ----

union address {
	struct sockaddr sa;
	struct sockaddr_un un;
	struct sockaddr_in in;
	struct sockaddr_in6 in6;
	struct sockaddr_storage all;
};

// address_in returns the length on Linux, or -1 with errno set.
static int address_in(const struct d_sockaddr *d, uint32_t n, union address *l) {
	memset(l, 0, sizeof *l);
	switch (n >= 2 ? d->family : 255) {
	case D_AF_UNIX: {
		size_t room = n - 2;
		size_t len = strnlen(d->data, room);
		if (room > 104)
			return fail(D_EINVAL);
		if (len == 0)
			return fail(D_ENOENT);
		l->un.sun_family = AF_UNIX;
		memcpy(l->un.sun_path, d->data, len);
		return (int)(offsetof(struct sockaddr_un, sun_path) + len + 1);
	}
	case D_AF_INET:
		if (n < sizeof l->in)
			return fail(D_EINVAL);
		memcpy(l, d, sizeof l->in);
		l->in.sin_family = AF_INET;
		return sizeof l->in;
	case D_AF_INET6:
		if (n < sizeof l->in6)
			return fail(D_EINVAL);
		memcpy(l, d, sizeof l->in6);
		l->in6.sin6_family = AF_INET6;
		return sizeof l->in6;
	}
	return fail(D_EAFNOSUPPORT);
}

// address_out writes an address of len bytes and returns its length there.
static uint32_t address_out(const union address *l, socklen_t len, struct d_sockaddr *d, uint32_t room) {
	struct d_sockaddr a = {.len = 16, .family = D_AF_UNIX};
	if (len >= 2 && l->sa.sa_family == AF_INET) {
		memcpy(&a, l, a.len = sizeof l->in);
		a.len = sizeof l->in, a.family = D_AF_INET;
	} else if (len >= 2 && l->sa.sa_family == AF_INET6) {
		memcpy(&a, l, sizeof l->in6);
		a.len = sizeof l->in6, a.family = D_AF_INET6;
	} else if (len > 2) {
		size_t n = strnlen(l->un.sun_path, len - 2);
		memcpy(a.data, l->un.sun_path, n);
		a.len = (uint8_t)(2 + n + 1 > 106 ? 106 : 2 + n + 1);
	}
	if (d != NULL)
		memcpy(d, &a, a.len < room ? a.len : room);
	return a.len;
}

static void address_result(const union address *l, socklen_t len, struct d_sockaddr *d, uint32_t *n) {
	if (n != NULL)
		*n = address_out(l, len, d, *n);
}

// ---- what a socket is ----

static int option(int fd, int which) {
	int v = -1;
	socklen_t n = sizeof v;
	return getsockopt(fd, SOL_SOCKET, which, &v, &n) == 0 ? v : -1;
}

static bool is_unix_datagram(int fd) { return option(fd, SO_DOMAIN) == AF_UNIX && option(fd, SO_TYPE) == SOCK_DGRAM; }

// ---- datagram sockets that are connected to a path ----
//
// On macOS such a socket takes datagrams from everybody, and on Linux only from its peer. So it is not really connected: where
// it sends to is remembered here, and sent to by name. A pair made by socketpair is as Linux has it.

enum { MAX_FD = 1 << 16 };
enum { LOST = 1 }; // the peer has gone, and that was not told yet

struct peer { union address a; socklen_t len; int state; };
static struct peer *peers[MAX_FD]; // never freed: another thread may be looking
static struct peer none;

static struct peer *peer_of(int fd) {
	struct peer *p = fd >= 0 && fd < MAX_FD ? __atomic_load_n(&peers[fd], __ATOMIC_ACQUIRE) : NULL;
	return p == &none ? NULL : p;
}

static void set_peer(int fd, struct peer *p) {
	if (fd >= 0 && fd < MAX_FD)
		__atomic_store_n(&peers[fd], p, __ATOMIC_RELEASE);
}

void socket_closed(int fd) { set_peer(fd, NULL); }

void socket_duplicated(int fd, int to) { set_peer(to, peer_of(fd)); }

// reach connects another socket to the address, which tells whether there is somebody. 0, or an errno of Linux.
static int reach(const union address *a, socklen_t len) {
	int s = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (s < 0)
		return errno;
	int e = connect(s, &a->sa, len) == 0 || errno == EPERM ? 0 : errno;
	close(s);
	return e;
}

static long connect_datagram(int fd, const union address *a, socklen_t len) {
	int e = reach(a, len);
	if (e != 0)
		return fail(errno_to_darwin(e));
	struct peer *p = calloc(1, sizeof *p);
	*p = (struct peer){.a = *a, .len = len};
	set_peer(fd, p);
	return 0;
}

// to_peer finds where a datagram without an address goes. It returns 0, or -1 with errno set.
static int to_peer(int fd, struct msghdr *l) {
	struct peer *p = peer_of(fd);
	if (p == NULL || l->msg_name != NULL)
		return 0;
	if (p->state == LOST)
		return fail(39); // EDESTADDRREQ
	l->msg_name = &p->a, l->msg_namelen = p->len;
	return 0;
}

// The peers of descriptors that survive an exec go by this variable: fd=path, one after the other.
static const char carried[] = "MACHRUN_PEERS";

void sockets_save(void) {
	char *text = NULL;
	size_t n = 0;
	FILE *f = open_memstream(&text, &n);
	for (int fd = 0; fd < MAX_FD; fd++) {
		struct peer *p = peer_of(fd);
		if (p != NULL && p->state == 0 && (fcntl(fd, F_GETFD) & FD_CLOEXEC) == 0)
			fprintf(f, "%d=%s\n", fd, p->a.un.sun_path);
	}
	fclose(f);
	if (n > 0)
		setenv(carried, text, 1);
	else
		unsetenv(carried);
	free(text);
}

void sockets_restore(void) {
	char *text = getenv(carried);
	if (text == NULL)
		return;
	text = strdup(text);
	unsetenv(carried);
	for (char *line = strtok(text, "\n"); line != NULL; line = strtok(NULL, "\n")) {
		int fd = atoi(line), at = (int)strcspn(line, "=") + 1;
		struct peer *p = calloc(1, sizeof *p);
		p->a.un.sun_family = AF_UNIX;
		snprintf(p->a.un.sun_path, sizeof p->a.un.sun_path, "%s", line + at);
		p->len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(p->a.un.sun_path) + 1);
		set_peer(fd, p);
	}
	free(text);
}

// socket_is_datagram is asked for every write, so files are told from sockets at once.
bool socket_is_datagram(int fd) { return peer_of(fd) != NULL || is_unix_datagram(fd); }

// The send buffer of a datagram socket is only the longest datagram there. It is kept as the mark of the socket, which copies of
// the descriptor and other processes share; for Linux the buffer is as large as it can be.
enum { DATAGRAM_SEND = 2048, DATAGRAM_RECEIVE = 4096, MOST = 8388608 };

static int longest(int fd) {
	int v = option(fd, SO_MARK);
	return v > 0 ? v : DATAGRAM_SEND;
}

enum { ROOM = 106496 }; // what Linux gives every socket

static bool too_long(int fd, size_t n) { return is_unix_datagram(fd) && n > (size_t)longest(fd); }

static long sent(int fd, long r) {
	if (r == -1 && errno == EAGAIN && is_unix_datagram(fd))
		return fail(D_ENOBUFS);
	struct peer *p = peer_of(fd);
	if (r == -1 && p != NULL && (errno == ECONNREFUSED || errno == ENOENT)) {
		p->state = LOST;
		return fail(54); // ECONNRESET
	}
	return ret(r);
}

// connected reports whether a datagram socket has a peer, so that nobody may name one.
static bool connected(int fd) {
	union address a;
	socklen_t n = sizeof a;
	return peer_of(fd) != NULL || getpeername(fd, &a.sa, &n) == 0;
}

long s_send_datagram(int fd, const struct iovec *v, int n) {
	size_t sum = 0;
	for (int i = 0; i < n; i++)
		sum += v[i].iov_len;
	if (sum > (size_t)longest(fd))
		return fail(D_EMSGSIZE);
	struct msghdr l = {.msg_iov = (struct iovec *)v, .msg_iovlen = (size_t)n};
	return to_peer(fd, &l) < 0 ? -1 : sent(fd, sendmsg(fd, &l, 0));
}

// ---- calls ----

long s_socket(int family, int type, int protocol) {
	int f = family == D_AF_UNIX ? AF_UNIX : family == D_AF_INET ? AF_INET : family == D_AF_INET6 ? AF_INET6 : -1;
	if (f < 0 || type > 3)
		return fail(f < 0 ? D_EAFNOSUPPORT : 43 /* EPROTONOSUPPORT */);
	return ret(socket(f, type, protocol));
}

long s_socketpair(int family, int type, int protocol, int *fds) {
	if (family != D_AF_UNIX || type > 3)
		return fail(family != D_AF_UNIX ? D_ENOTSUP : 43);
	return ret(socketpair(AF_UNIX, type, protocol, fds));
}

long s_bind(int fd, const struct d_sockaddr *d, uint32_t n) {
	union address l;
	int len = address_in(d, n, &l);
	return len < 0 ? -1 : ret(bind(fd, &l.sa, (socklen_t)len));
}

long s_connect(int fd, const struct d_sockaddr *d, uint32_t n) {
	union address l;
	int len = address_in(d, n, &l);
	if (len < 0)
		return -1;
	if (l.sa.sa_family == AF_UNIX && is_unix_datagram(fd))
		return connect_datagram(fd, &l, (socklen_t)len);
	int r = connect(fd, &l.sa, (socklen_t)len);
	if (r == -1 && errno == EAGAIN) // a full backlog
		return fail(61); // ECONNREFUSED
	return ret(r);
}

long s_listen(int fd, int backlog) { return ret(listen(fd, backlog <= 0 || backlog > 128 ? 128 : backlog)); }

long s_accept(int fd, struct d_sockaddr *d, uint32_t *n) {
	union address l;
	socklen_t len = sizeof l;
	int flags = fcntl(fd, F_GETFL);
	int c = accept4(fd, &l.sa, &len, flags >= 0 && flags & O_NONBLOCK ? SOCK_NONBLOCK : 0);
	if (c >= 0)
		address_result(&l, len, d, n);
	return ret(c);
}

long s_getsockname(int fd, struct d_sockaddr *d, uint32_t *n) {
	union address l;
	socklen_t len = sizeof l;
	long r = ret(getsockname(fd, &l.sa, &len));
	if (r == 0)
		address_result(&l, len, d, n);
	return r;
}

long s_getpeername(int fd, struct d_sockaddr *d, uint32_t *n) {
	union address l;
	socklen_t len = sizeof l;
	struct peer *p = peer_of(fd);
	if (p != NULL) {
		if (p->state == LOST || reach(&p->a, p->len) != 0)
			return fail(57); // ENOTCONN
		address_result(&p->a, p->len, d, n);
		return 0;
	}
	long r = ret(getpeername(fd, &l.sa, &len));
	if (r == 0)
		address_result(&l, len, d, n);
	return r;
}

long s_shutdown(int fd, int how) { return ret(shutdown(fd, how)); }

static int flags_in(int f) {
	static const int map[][2] = {{0x1, MSG_OOB}, {0x2, MSG_PEEK}, {0x40, MSG_WAITALL}, {0x80, MSG_DONTWAIT}, {0x80000, MSG_NOSIGNAL}};
	int l = 0;
	for (size_t i = 0; i < sizeof map / sizeof *map; i++)
		if (f & map[i][0])
			l |= map[i][1];
	return l;
}

static int flags_out(int l) {
	return (l & MSG_TRUNC ? 0x10 : 0) | (l & MSG_CTRUNC ? 0x20 : 0) | (l & MSG_OOB ? 1 : 0) | (l & MSG_EOR ? 8 : 0);
}

long s_sendmsg(int fd, const struct d_msghdr *d, int flags);

long s_sendto(int fd, const void *b, size_t n, int flags, const struct d_sockaddr *d, uint32_t dn) {
	struct iovec v = {(void *)b, n};
	struct d_msghdr m = {.name = (struct d_sockaddr *)d, .namelen = d != NULL ? dn : 0, .iov = &v, .iovlen = 1};
	return s_sendmsg(fd, &m, flags);
}

long s_recvfrom(int fd, void *b, size_t n, int flags, struct d_sockaddr *d, uint32_t *dn) {
	union address l;
	socklen_t len = sizeof l;
	long r = ret(recvfrom(fd, b, n, flags_in(flags), &l.sa, &len));
	if (r >= 0)
		address_result(&l, len, d, dn);
	return r;
}

// ---- messages with descriptors ----

#define D_ALIGN(n) (((n) + 3) & ~3u)

static size_t control_in(const struct d_msghdr *d, char *buf, size_t room) {
	size_t used = 0;
	for (uint32_t at = 0; d->control != NULL && at + sizeof(struct d_cmsghdr) <= d->controllen;) {
		const struct d_cmsghdr *c = (const void *)((const char *)d->control + at);
		if (c->len < sizeof *c || c->len > d->controllen - at)
			break;
		size_t data = c->len - sizeof *c;
		if (c->level == 0xffff && c->type == 1 && used + CMSG_SPACE(data) <= room) { // SCM_RIGHTS
			struct cmsghdr *l = (struct cmsghdr *)(buf + used);
			*l = (struct cmsghdr){.cmsg_len = CMSG_LEN(data), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
			memcpy(CMSG_DATA(l), c + 1, data);
			used += CMSG_SPACE(data);
		}
		at += D_ALIGN(c->len);
	}
	return used;
}

static void control_out(struct msghdr *l, struct d_msghdr *d, uint32_t room) {
	d->controllen = 0;
	for (struct cmsghdr *c = CMSG_FIRSTHDR(l); c != NULL; c = CMSG_NXTHDR(l, c)) {
		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		uint32_t data = (uint32_t)(c->cmsg_len - CMSG_LEN(0)), left = room - d->controllen;
		struct d_cmsghdr h = {.len = (uint32_t)sizeof h + data, .level = 0xffff, .type = 1};
		char whole[sizeof h + 1024];
		memcpy(whole, &h, sizeof h);
		memcpy(whole + sizeof h, CMSG_DATA(c), data);
		uint32_t fits = h.len < left ? h.len : left;
		if (fits < h.len)
			d->flags |= 0x20; // MSG_CTRUNC
		memcpy((char *)d->control + d->controllen, whole, fits);
		d->controllen += fits == h.len ? D_ALIGN(fits) > left ? left : D_ALIGN(fits) : fits;
	}
}

long s_sendmsg(int fd, const struct d_msghdr *d, int flags) {
	union address a;
	char control[8192] __attribute__((aligned(8)));
	size_t n = 0;
	for (int i = 0; i < d->iovlen; i++)
		n += d->iov[i].iov_len;
	if (too_long(fd, n))
		return fail(D_EMSGSIZE);
	struct msghdr l = {.msg_iov = d->iov, .msg_iovlen = (size_t)d->iovlen};
	if (d->name != NULL && d->namelen > 0) {
		int len = address_in(d->name, d->namelen, &a);
		if (len < 0)
			return -1;
		if (is_unix_datagram(fd) && connected(fd))
			return fail(56); // EISCONN
		l.msg_name = &a, l.msg_namelen = (socklen_t)len;
	}
	if (to_peer(fd, &l) < 0)
		return -1;
	size_t cn = control_in(d, control, sizeof control);
	if (cn > 0)
		l.msg_control = control, l.msg_controllen = cn;
	return sent(fd, sendmsg(fd, &l, flags_in(flags)));
}

long s_recvmsg(int fd, struct d_msghdr *d, int flags) {
	union address a;
	char control[8192] __attribute__((aligned(8)));
	struct msghdr l = {.msg_iov = d->iov, .msg_iovlen = (size_t)d->iovlen, .msg_name = &a, .msg_namelen = sizeof a};
	uint32_t room = d->control != NULL ? d->controllen : 0;
	if (room > 0)
		l.msg_control = control, l.msg_controllen = sizeof control;
	long r = ret(recvmsg(fd, &l, flags_in(flags)));
	if (r < 0)
		return r;
	d->flags = flags_out(l.msg_flags);
	if (d->name != NULL)
		d->namelen = l.msg_namelen == 0 ? 0 : address_out(&a, l.msg_namelen, d->name, d->namelen);
	control_out(&l, d, room);
	return r;
}

// sendmsg_x and recvmsg_x: many datagrams, without names and control.
long s_sendmsg_x(int fd, struct d_msghdr_x *m, unsigned n, int flags) {
	if (n == 0 || n > 256)
		return fail(n == 0 ? D_EINVAL : D_EMSGSIZE);
	for (unsigned i = 0; i < n; i++) {
		if (m[i].m.name != NULL || m[i].m.control != NULL || m[i].m.namelen != 0 || m[i].m.controllen != 0)
			return fail(D_EINVAL);
		long r = s_sendmsg(fd, &m[i].m, flags);
		if (r < 0)
			return i > 0 ? (long)i : -1;
	}
	return n;
}

long s_recvmsg_x(int fd, struct d_msghdr_x *m, unsigned n, int flags) {
	if (n == 0 || n > 256)
		return fail(n == 0 ? D_EINVAL : D_EMSGSIZE);
	for (unsigned i = 0; i < n; i++) {
		long r = s_recvmsg(fd, &m[i].m, flags | (i > 0 ? 0x80 : 0));
		if (r < 0)
			return i > 0 ? (long)i : -1;
		m[i].datalen = (uint64_t)r;
	}
	return n;
}

// ---- options ----

struct d_xucred { uint32_t version, uid; int16_t ngroups; uint32_t groups[16]; };
static_assert(sizeof(struct d_xucred) == 76, "struct xucred");

static int socket_option(int o) {
	switch (o) {
	case 0x1: return SO_DEBUG;
	case 0x2: return SO_ACCEPTCONN;
	case 0x4: return SO_REUSEADDR;
	case 0x8: return SO_KEEPALIVE;
	case 0x10: return SO_DONTROUTE;
	case 0x20: return SO_BROADCAST;
	case 0x100: return SO_OOBINLINE;
	case 0x200: return SO_REUSEPORT;
	case 0x1001: return SO_SNDBUF;
	case 0x1002: return SO_RCVBUF;
	case 0x1003: return SO_SNDLOWAT;
	case 0x1004: return SO_RCVLOWAT;
	case 0x1007: return SO_ERROR;
	case 0x1008: return SO_TYPE;
	}
	return -1;
}

static bool other_level(int *level, int *o) {
	switch (*level) {
	case IPPROTO_TCP:
		*o = *o == 1 ? TCP_NODELAY : *o == 0x10 ? TCP_KEEPIDLE : *o == 0x101 ? TCP_KEEPINTVL : *o == 0x102 ? TCP_KEEPCNT : -1;
		return *o >= 0;
	case IPPROTO_IPV6:
		*o = *o == 27 ? IPV6_V6ONLY : -1;
		return *o >= 0;
	}
	return false;
}

long s_getsockopt(int fd, int level, int o, void *v, uint32_t *n) {
	if (level == 0) { // SOL_LOCAL
		struct ucred c;
		socklen_t cn = sizeof c;
		if (option(fd, SO_DOMAIN) < 0)
			return fail(option(fd, SO_TYPE) < 0 && errno == EBADF ? D_EBADF : 38 /* ENOTSOCK */);
		if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &c, &cn) != 0 || c.uid == (uid_t)-1)
			return fail(option(fd, SO_TYPE) == SOCK_STREAM ? 57 /* ENOTCONN */ : D_EINVAL);
		if (o == 1) { // LOCAL_PEERCRED
			struct d_xucred x = {.uid = c.uid, .ngroups = 1, .groups = {c.gid}};
			uint32_t len = *n < sizeof x ? *n : (uint32_t)sizeof x;
			memcpy(v, &x, len);
			return *n = len, 0;
		}
		if (o == 2 || o == 3) // LOCAL_PEERPID, LOCAL_PEEREPID
			return memcpy(v, &c.pid, sizeof c.pid), *n = sizeof c.pid, 0;
		return fail(42); // ENOPROTOOPT
	}
	if (level != 0xffff)
		return other_level(&level, &o) ? ret(getsockopt(fd, level, o, v, n)) : fail(42);
	if (o == 0x1022) // NOSIGPIPE
		return *(int *)v = 0, *n = 4, 0;
	int l = socket_option(o);
	if (l < 0)
		return fail(42);
	long r = ret(getsockopt(fd, SOL_SOCKET, l, v, n));
	if (r < 0)
		return r;
	int *value = v;
	if (l == SO_ERROR)
		*value = *value != 0 ? errno_to_darwin(*value) : 0;
	if (l == SO_SNDBUF || l == SO_RCVBUF)
		*value = !is_unix_datagram(fd) ? *value / 2 : l == SO_SNDBUF ? longest(fd) : *value == 212992 ? DATAGRAM_RECEIVE : *value / 2;
	return r;
}

long s_setsockopt(int fd, int level, int o, const void *v, uint32_t n) {
	if (level == 0)
		return fail(42);
	if (level != 0xffff)
		return other_level(&level, &o) ? ret(setsockopt(fd, level, o, v, n)) : fail(42);
	if (o == 0x1022)
		return 0;
	if (o == 0x1005 || o == 0x1006) { // SNDTIMEO, RCVTIMEO
		const struct d_timeval *t = v;
		struct timeval tv = {t->sec, t->usec};
		return ret(setsockopt(fd, SOL_SOCKET, o == 0x1005 ? SO_SNDTIMEO : SO_RCVTIMEO, &tv, sizeof tv));
	}
	if (o == 0x80 || o == 0x1080) // LINGER, LINGER_SEC
		return ret(setsockopt(fd, SOL_SOCKET, SO_LINGER, v, n));
	int l = socket_option(o);
	if (l < 0)
		return fail(42);
	if (l == SO_SNDBUF || l == SO_RCVBUF) {
		int size = *(const int *)v;
		if (size < 1)
			return fail(D_EINVAL);
		if (size > MOST)
			size = MOST;
		if (l == SO_SNDBUF && is_unix_datagram(fd)) {
			int most = size > ROOM ? size : ROOM;
			setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &most, sizeof most);
			return ret(setsockopt(fd, SOL_SOCKET, SO_MARK, &size, sizeof size));
		}
		return ret(setsockopt(fd, SOL_SOCKET, l == SO_SNDBUF ? SO_SNDBUFFORCE : SO_RCVBUFFORCE, &size, sizeof size));
	}
	return ret(setsockopt(fd, SOL_SOCKET, l, v, n));
}

long s_sendfile(void) { return fail(D_ENOTSUP); } // Go then copies

// ---- names ----

struct d_addrinfo {
	int32_t flags, family, socktype, protocol;
	uint32_t addrlen;
	char *canonname;
	struct d_sockaddr *addr;
	struct d_addrinfo *next;
};

void s_freeaddrinfo(struct d_addrinfo *d) {
	while (d != NULL) {
		struct d_addrinfo *next = d->next;
		free(d->canonname);
		free(d);
		d = next;
	}
}

static int eai(int e) {
	switch (e) {
	case EAI_AGAIN: return 2;
	case EAI_BADFLAGS: return 3;
	case EAI_FAIL: return 4;
	case EAI_FAMILY: return 5;
	case EAI_MEMORY: return 6;
	case EAI_NONAME: case -5: return 8;
	case EAI_SERVICE: return 9;
	case EAI_SOCKTYPE: return 10;
	case EAI_SYSTEM: return 11;
	}
	return 4;
}

int s_getaddrinfo(const char *node, const char *service, const struct d_addrinfo *hints, struct d_addrinfo **out) {
	struct addrinfo h = {0}, *list;
	if (hints != NULL) {
		h.ai_family = hints->family == D_AF_INET ? AF_INET : hints->family == D_AF_INET6 ? AF_INET6 : AF_UNSPEC;
		h.ai_socktype = hints->socktype, h.ai_protocol = hints->protocol;
		h.ai_flags = hints->flags & 7; // PASSIVE, CANONNAME, NUMERICHOST
	}
	int e = getaddrinfo(node, service, &h, &list);
	if (e != 0)
		return eai(e);
	struct d_addrinfo **tail = out;
	*out = NULL;
	for (struct addrinfo *l = list; l != NULL; l = l->ai_next) {
		struct d_addrinfo *d = calloc(1, sizeof *d + sizeof(struct d_sockaddr));
		if (d == NULL)
			break;
		union address a;
		memset(&a, 0, sizeof a);
		memcpy(&a, l->ai_addr, l->ai_addrlen);
		d->addr = (struct d_sockaddr *)(d + 1);
		d->addrlen = address_out(&a, l->ai_addrlen, d->addr, sizeof *d->addr);
		d->family = d->addr->family, d->socktype = l->ai_socktype, d->protocol = l->ai_protocol;
		d->canonname = l->ai_canonname != NULL ? strdup(l->ai_canonname) : NULL;
		*tail = d, tail = &d->next;
	}
	freeaddrinfo(list);
	return 0;
}

const char *s_gai_strerror(int e) {
	return e == 8 ? "nodename nor servname provided, or not known" : e == 2 ? "temporary failure in name resolution" : "name resolution failed";
}
