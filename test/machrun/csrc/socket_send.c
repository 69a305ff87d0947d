// SPDX-License-Identifier: Apache-2.0

// Sending and receiving by macOS's rules. Each function takes Linux's message and macOS's flags.
#include "socket.h"


int flags_known(int flags, int known)
{
	if ((flags & ~known) == 0)
		return 0;
	refused("flag", flags & ~known);
	return fail(D_EINVAL);
}

static int flags_in(int f)
{
	static const int map[][2] = {{D_MSG_OOB, MSG_OOB}, {D_MSG_PEEK, MSG_PEEK}, {D_MSG_DONTROUTE, MSG_DONTROUTE},
		{D_MSG_WAITALL, MSG_WAITALL}, {D_MSG_DONTWAIT, MSG_DONTWAIT}};
	int l = 0;
	for (size_t i = 0; i < sizeof map / sizeof *map; i++)
		if (f & map[i][0])
			l |= map[i][1];
	return l;
}

static size_t sum(const struct msghdr *m)
{
	size_t n = 0;
	for (size_t i = 0; i < m->msg_iovlen; i++)
		n += m->msg_iov[i].iov_len;
	return n;
}

// sendit in uipc_syscalls.c: SO_NOSIGPIPE and MSG_NOSIGNAL. psignal is for the process.
static long broken(const struct sock *s, int flags)
{
	if (!(s->flags & NO_SIGPIPE) && !(flags & D_MSG_NOSIGNAL))
		kill(getpid(), SIGPIPE);
	return fail(D_EPIPE);
}

// lose tells once that the peer has gone, as so_error does, and then that there is none: sosendcheck.
static long lose(struct sock *s)
{
	return fail(atomic_fetch_or(&s->flags, LOST) & LOST ? D_EDESTADDRREQ : D_ECONNRESET);
}

static long datagram_failed(struct sock *s, const struct msghdr *m, int flags)
{
	bool named = m->msg_name != NULL && !(s->flags & NAMED);
	switch (errno) {
	case EAGAIN:
		return fail(D_ENOBUFS);
	case ECONNREFUSED:
	case ECONNRESET:
		return named ? fail(D_ECONNREFUSED) : lose(s);
	case ENOTCONN:
		return fail(D_EDESTADDRREQ);
	case EPIPE: // the peer takes no more (SB_DROP), or we send no more
		return s->flags & SHUT_WRITE ? broken(s, flags) : fail(D_EINVAL);
	}
	return ret(-1);
}

// The checks of sosendcheck and uipc_send, in their order. to is the receiver, NULL where no machrun knows it.
static long datagram_checks(int fd, struct sock *s, struct msghdr *m, union address *a, struct sock **to)
{
	if (m->msg_name == NULL && s->flags & LOST)
		return fail(D_EDESTADDRREQ);
	if (m->msg_name == NULL && !datagram_connected(s))
		return fail(D_EDESTADDRREQ);
	if (sum(m) > (size_t)s->longest)
		return fail(D_EMSGSIZE);
	if (m->msg_name != NULL) {
		if (datagram_connected(s))
			return fail(D_EISCONN);
		*to = sock_at(((const struct sockaddr_un *)m->msg_name)->sun_path);
		return 0;
	}
	if (s->flags & NAMED) {
		int e = datagram_target(fd, s, a, &m->msg_namelen);
		if (e != 0)
			return fail(e);
		m->msg_name = a;
	}
	*to = sock_by_inode(s->peer);
	return 0;
}

static long send_datagram(int fd, struct sock *s, struct msghdr *m, int flags)
{
	union address a;
	struct sock *to = NULL;
	if (flags & D_MSG_OOB)
		return fail(D_EOPNOTSUPP);
	if (datagram_checks(fd, s, m, &a, &to) < 0)
		return -1;
	int cost = (int)sum(m) + s->named;
	if (!room_take(fd, to, cost))
		return fail(D_ENOBUFS);
	long r = sendmsg(fd, m, MSG_DONTWAIT | MSG_NOSIGNAL);
	if (r < 0) {
		int e = errno;
		room_give(to, cost);
		errno = e;
		return datagram_failed(s, m, flags);
	}
	return r;
}

long socket_send(int fd, struct sock *s, struct msghdr *m, int flags)
{
	s->pid = getpid(); // so_update_last_owner_locked
	if (flags_known(flags, D_MSG_OOB | D_MSG_DONTROUTE | D_MSG_EOR | D_MSG_DONTWAIT | D_MSG_NOSIGNAL) < 0)
		return -1;
	if (sock_is_datagram(s))
		return send_datagram(fd, s, m, flags);
	if (s->type == SOCK_STREAM && flags & D_MSG_EOR) // sosend
		return fail(D_EINVAL);
	if (s->family == AF_UNIX && flags & D_MSG_OOB) // uipc_send
		return fail(D_EOPNOTSUPP);
	if (s->family == AF_UNIX) // uipc_send looks at it for unconnected ones only, which Linux does not do
		m->msg_name = NULL, m->msg_namelen = 0;
	long r = sendmsg(fd, m, flags_in(flags & ~D_MSG_EOR) | MSG_NOSIGNAL);
	return r < 0 && errno == EPIPE ? broken(s, flags) : ret(r);
}

// at_end is what recvmsg of a socket at its end gives: no bytes, no sender and no control message.
static long at_end(struct msghdr *m)
{
	m->msg_namelen = 0, m->msg_controllen = 0, m->msg_flags = 0;
	return 0;
}

// soreceive looks at so_error when nothing waits: once ECONNRESET; and a socket that takes no more is at its end. Linux's waits then.
// It returns 1 when there is nothing to be told.
static long nothing_waits(int fd, struct sock *s, int flags)
{
	if (s->flags & SHUT_READ)
		return 0;
	if (!datagram_connected(s) || !datagram_lost(fd, s))
		return 1;
	if (!(flags & D_MSG_PEEK))
		atomic_fetch_or(&s->flags, LOST);
	return fail(D_ECONNRESET);
}

long socket_receive(int fd, struct sock *s, struct msghdr *m, int flags)
{
	s->pid = getpid(); // so_update_last_owner_locked
	if (flags_known(flags, D_MSG_OOB | D_MSG_PEEK | D_MSG_WAITALL | D_MSG_DONTWAIT | D_MSG_DONTROUTE | D_MSG_NOSIGNAL) < 0)
		return -1;
	if (s->family == AF_UNIX && flags & D_MSG_OOB)
		return fail(D_EOPNOTSUPP);
	int l = flags_in(flags);
	if (!sock_is_datagram(s)) {
		long r = recvmsg(fd, m, l);
		// A peer that closed with something unread is just gone: uipc_usrreq.c, unp_detach and unp_disconnect. Linux's is a reset.
		return r < 0 && errno == ECONNRESET && s->family == AF_UNIX ? at_end(m) : ret(r);
	}
	union address from;
	if (m->msg_name == NULL)
		m->msg_name = &from, m->msg_namelen = sizeof from; // its bytes are counted
	size_t room = sum(m);
	// A blocking one too looks first whether its peer has gone before it sleeps; while it does, it is not woken for that.
	long r = recvmsg(fd, m, l | MSG_TRUNC | MSG_DONTWAIT);
	if (r < 0 && errno == EAGAIN) {
		long told = nothing_waits(fd, s, flags);
		if (told <= 0)
			return told == 0 ? at_end(m) : told;
		r = recvmsg(fd, m, l | MSG_TRUNC);
	}
	if (r < 0)
		return ret(r);
	if (!(flags & D_MSG_PEEK))
		room_give(s, (int)r + address_cost(m->msg_name, m->msg_namelen));
	return (size_t)r > room ? (long)room : r;
}
