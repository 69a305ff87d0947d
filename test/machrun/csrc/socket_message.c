// SPDX-License-Identifier: Apache-2.0

// sendmsg, recvmsg and what is built on them, with descriptors in control messages.
#include "socket.h"

#include "shims.h"

#include <fcntl.h>

enum { CONTROL = 4096, MOST_VECTORS = 1024 /* UIO_MAXIOV */, MOST_CONTROL = 2048 /* MCLBYTES */ };
#define D_ALIGN(n) (((n) + 3) & ~3u)

static struct sock *need(int fd)
{
	struct sock *s = sock_of(fd);
	if (s == NULL)
		fail(fcntl(fd, F_GETFD) < 0 ? D_EBADF : D_ENOTSOCK);
	return s;
}

// control_in makes Linux's control message of macOS's. uipc_usrreq.c, unp_internalize: one message, SCM_RIGHTS, exactly as long
// as the buffer; uipc_syscalls.c, sockargs: the descriptors, twice as long in the kernel, must fit into a cluster.
static long control_in(const struct sock *s, const struct d_msghdr *d, char *buf, struct msghdr *l)
{
	const struct d_cmsghdr *c = d->control;
	if (c == NULL || d->controllen == 0)
		return 0;
	if (d->controllen < sizeof *c || (d->controllen - sizeof *c) * 2 + sizeof *c > MOST_CONTROL)
		return fail(D_EINVAL);
	if (sock_is_datagram(s) && d->controllen > (uint32_t)s->longest)
		return fail(D_EMSGSIZE);
	if (s->family != AF_UNIX || c->level != D_SOL_SOCKET || c->type != D_SCM_RIGHTS || c->len != d->controllen)
		return refused("control message of type", c->type), fail(D_EINVAL);
	size_t data = (c->len - sizeof *c) / sizeof(int) * sizeof(int);
	struct cmsghdr *m = (struct cmsghdr *)buf;
	*m = (struct cmsghdr){.cmsg_len = CMSG_LEN(data), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
	memcpy(CMSG_DATA(m), c + 1, data);
	l->msg_control = m, l->msg_controllen = CMSG_SPACE(data);
	return 0;
}

// control_out copies as much as fits. By then all descriptors are open: uipc_socket.c, soreceive calls unp_externalize;
// uipc_syscalls.c, copyout_control cuts, sets MSG_CTRUNC and closes nothing.
static void control_out(struct msghdr *l, struct d_msghdr *d, uint32_t room)
{
	d->controllen = 0;
	for (struct cmsghdr *c = CMSG_FIRSTHDR(l); c != NULL; c = CMSG_NXTHDR(l, c)) {
		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		size_t data = c->cmsg_len - CMSG_LEN(0);
		for (size_t i = 0; i < data / sizeof(int); i++) // they come without close-on-exec, as there is no MSG_CMSG_CLOEXEC
			socket_forget(((const int *)CMSG_DATA(c))[i]);
		struct d_cmsghdr h = {.len = (uint32_t)(sizeof h + data), .level = D_SOL_SOCKET, .type = D_SCM_RIGHTS};
		char whole[sizeof h + CONTROL] = {0};
		memcpy(whole, &h, sizeof h);
		memcpy(whole + sizeof h, CMSG_DATA(c), data);
		uint32_t size = D_ALIGN(h.len), left = room - d->controllen;
		if (size > left)
			d->flags |= D_MSG_CTRUNC;
		memcpy((char *)d->control + d->controllen, whole, size < left ? size : left);
		d->controllen += size < left ? size : left;
	}
}

static int flags_out(int l)
{
	return (l & MSG_TRUNC ? D_MSG_TRUNC : 0) | (l & MSG_OOB ? D_MSG_OOB : 0) | (l & MSG_EOR ? D_MSG_EOR : 0);
}

static long send_message(int fd, const struct d_msghdr *d, int flags)
{
	union address a;
	char control[CONTROL] __attribute__((aligned(8)));
	struct sock *s = need(fd);
	struct msghdr l = {.msg_iov = d->iov, .msg_iovlen = (size_t)d->iovlen};
	if (s == NULL)
		return -1;
	if (d->name != NULL) {
		int len = address_in(d->name, d->namelen, &a);
		if (len < 0)
			return -1;
		l.msg_name = &a, l.msg_namelen = (socklen_t)len;
	}
	if (control_in(s, d, control, &l) < 0)
		return -1;
	return socket_send(fd, s, &l, flags);
}

long s_sendmsg(int fd, const struct d_msghdr *d, int flags)
{
	return d->iovlen <= 0 || d->iovlen > MOST_VECTORS ? fail(D_EMSGSIZE) : send_message(fd, d, flags);
}

long s_recvmsg(int fd, struct d_msghdr *d, int flags)
{
	union address a;
	char control[CONTROL] __attribute__((aligned(8)));
	struct sock *s = need(fd);
	struct msghdr l = {.msg_iov = d->iov, .msg_iovlen = (size_t)d->iovlen, .msg_name = &a, .msg_namelen = sizeof a};
	uint32_t room = d->control != NULL ? d->controllen : 0;
	if (s == NULL)
		return -1;
	if (d->iovlen <= 0 || d->iovlen > MOST_VECTORS)
		return fail(D_EMSGSIZE);
	if (room > 0)
		l.msg_control = control, l.msg_controllen = sizeof control;
	long r = socket_receive(fd, s, &l, flags);
	if (r < 0)
		return r;
	d->flags = flags_out(l.msg_flags);
	if (d->name != NULL) // a stream has no names: uipc_usrreq.c gives them to datagrams only
		d->namelen = s->type == SOCK_STREAM ? 0 : address_out(&a, l.msg_namelen, d->name, d->namelen);
	if (d->control != NULL)
		control_out(&l, d, room);
	return r;
}

long s_sendto(int fd, const void *b, size_t n, int flags, const struct d_sockaddr *d, uint32_t dn)
{
	struct iovec v = {(void *)b, n};
	struct d_msghdr m = {.name = (struct d_sockaddr *)d, .namelen = d != NULL ? dn : 0, .iov = &v, .iovlen = 1};
	return send_message(fd, &m, flags);
}

long s_recvfrom(int fd, void *b, size_t n, int flags, struct d_sockaddr *d, uint32_t *dn)
{
	struct iovec v = {b, n};
	struct d_msghdr m = {.name = d, .namelen = dn != NULL ? *dn : 0, .iov = &v, .iovlen = 1};
	long r = s_recvmsg(fd, &m, flags);
	if (r >= 0 && d != NULL && dn != NULL)
		*dn = m.namelen;
	return r;
}

// ---- what is written and read without sendmsg ----

long socket_write(int fd, const struct iovec *v, int n)
{
	struct msghdr l = {.msg_iov = (struct iovec *)v, .msg_iovlen = (size_t)n};
	return socket_send(fd, sock_of(fd), &l, 0);
}

long socket_read(int fd, const struct iovec *v, int n)
{
	struct msghdr l = {.msg_iov = (struct iovec *)v, .msg_iovlen = (size_t)n};
	return socket_receive(fd, sock_of(fd), &l, 0);
}

// ---- many datagrams ----

// The calls take at most so many at once and cut what is more: kern.ipc.maxsendmsgx, maxrecvmsgx.
enum { MOST_MESSAGES = 256 };

// sendmsg_x in uipc_syscalls.c: what ends a batch after the first is no error.
static bool ends_batch(int error) { return error == D_ENOBUFS || error == D_EMSGSIZE || error == D_EAGAIN || error == 4 /* EINTR */; }

long s_sendmsg_x(int fd, struct d_msghdr_x *m, unsigned n, int flags)
{
	if (need(fd) == NULL)
		return -1;
	if (n == 0 || n > MOST_VECTORS)
		return fail(D_EINVAL);
	n = n > MOST_MESSAGES ? MOST_MESSAGES : n;
	for (unsigned i = 0; i < n; i++)
		if (m[i].m.name != NULL || m[i].m.control != NULL || m[i].m.namelen != 0 || m[i].m.controllen != 0 || m[i].m.flags != 0)
			return fail(D_EINVAL);
	for (unsigned i = 0; i < n; i++)
		if (s_sendmsg(fd, &m[i].m, flags) < 0)
			return i > 0 && ends_batch(*darwin_error()) ? (long)i : -1;
	return n;
}

// recvmsg_x in uipc_syscalls.c: a datagram that was cut is not marked in its own flags.
long s_recvmsg_x(int fd, struct d_msghdr_x *m, unsigned n, int flags)
{
	if (need(fd) == NULL || flags_known(flags, D_MSG_DONTWAIT) < 0)
		return -1;
	if (n == 0 || n > MOST_VECTORS)
		return fail(D_EINVAL);
	n = n > MOST_MESSAGES ? MOST_MESSAGES : n;
	for (unsigned i = 0; i < n; i++) {
		long r = s_recvmsg(fd, &m[i].m, flags | (i > 0 ? D_MSG_DONTWAIT : 0));
		if (r < 0)
			return i > 0 ? (long)i : -1;
		m[i].m.flags &= ~D_MSG_TRUNC;
		m[i].datalen = (uint64_t)r;
	}
	return n;
}
