// SPDX-License-Identifier: Apache-2.0

// Datagram sockets that are connected. On macOS such a socket takes datagrams from every process that may write to its path
// (uipc_usrreq.c, uipc_send: the receiver's unp_conn is not looked at), and on Linux only from its peer. Thus a socket with a
// name is never connected in Linux's kernel: its peer is held here by a descriptor of the path, so that it stays the same
// socket when the path is given to another, and datagrams are sent to that. A socket without a name is connected as Linux does
// it, as only a peer in a pair can send to it.
#include "socket.h"

#include <fcntl.h>
#include <sys/stat.h>

static _Atomic int held[MAX_FD]; // O_PATH descriptor of the peer + 1, by descriptor of the socket

void peer_closed(int fd)
{
	int h = fd >= 0 && fd < MAX_FD ? atomic_exchange(&held[fd], 0) : 0;
	if (h != 0)
		close(h - 1);
}

// descriptor_high moves a descriptor out of the way of the program's.
int descriptor_high(int fd)
{
	for (int from = 40000; fd >= 0 && from >= 400; from /= 10) {
		int up = fcntl(fd, F_DUPFD_CLOEXEC, from);
		if (up >= 0) {
			close(fd);
			return up;
		}
	}
	return fd;
}

// hold returns the O_PATH descriptor of the peer, or -1 when another file is at its path by now.
static int hold(int fd, struct sock *s)
{
	int h = atomic_load(&held[fd]);
	if (h != 0)
		return h - 1;
	struct stat st;
	int p = descriptor_high(open(s->path, O_PATH | O_CLOEXEC));
	if (p < 0)
		return -1;
	if (fstat(p, &st) != 0 || st.st_dev != s->file[0] || st.st_ino != s->file[1]) {
		close(p);
		return -1;
	}
	int none = 0;
	if (!atomic_compare_exchange_strong(&held[fd], &none, p + 1)) {
		close(p);
		return none - 1;
	}
	return p;
}

void socket_duplicated(int fd, int to)
{
	int h = fd < MAX_FD ? atomic_load(&held[fd]) : 0;
	socket_forget(to);
	if (h != 0 && fd != to && to < MAX_FD)
		atomic_store(&held[to], descriptor_high(dup(h - 1)) + 1);
}

static socklen_t address_of(int p, union address *a)
{
	a->un.sun_family = AF_UNIX;
	int n = snprintf(a->un.sun_path, sizeof a->un.sun_path, "/proc/self/fd/%d", p);
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + (size_t)n + 1);
}

int datagram_target(int fd, struct sock *s, union address *a, socklen_t *len)
{
	int p = s->flags & LOST ? -1 : hold(fd, s);
	if (p < 0)
		return atomic_fetch_or(&s->flags, LOST) & LOST ? D_EDESTADDRREQ : D_ECONNRESET;
	*len = address_of(p, a);
	return 0;
}

// reach connects another socket to the address, which tells whether there is one. 0, or an errno of Linux.
static int reach(const union address *a, socklen_t len)
{
	int s = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (s < 0)
		return errno;
	int e = connect(s, &a->sa, len) == 0 || errno == EPERM ? 0 : errno; // EPERM: it is one of Linux, connected to another
	close(s);
	return e;
}

static int connect_named(int fd, struct sock *s, const char *path)
{
	struct stat st;
	union address a;
	int p = descriptor_high(open(path, O_PATH | O_CLOEXEC));
	if (p < 0)
		return errno;
	int e = fstat(p, &st) == 0 ? reach(&a, address_of(p, &a)) : errno;
	if (e == 0 && path[0] != '/' && readlink(a.un.sun_path, s->path, sizeof s->path - 1) < 0)
		e = errno;
	else if (path[0] == '/')
		snprintf(s->path, sizeof s->path, "%s", path);
	if (e != 0) {
		close(p);
		return e;
	}
	s->file[0] = st.st_dev, s->file[1] = st.st_ino;
	peer_closed(fd);
	atomic_store(&held[fd], p + 1);
	atomic_fetch_or(&s->flags, NAMED);
	return 0;
}

static void disconnect(int fd, struct sock *s)
{
	struct sockaddr none = {.sa_family = AF_UNSPEC};
	if (s->flags & CONNECTED)
		(void)!connect(fd, &none, sizeof none);
	peer_closed(fd);
	atomic_fetch_and(&s->flags, ~(uint32_t)(PAIR | CONNECTED | NAMED | LOST));
	s->peer = 0;
}

// soconnectlock in uipc_socket.c: a datagram socket that is connected is first disconnected.
long datagram_connect(int fd, struct sock *s, const union address *a, socklen_t len)
{
	disconnect(fd, s);
	if (s->named == UNNAMED && connect(fd, &a->sa, len) == 0) {
		atomic_fetch_or(&s->flags, CONNECTED);
	} else if (s->named == UNNAMED && errno != EPERM) {
		return ret(-1);
	} else {
		int e = connect_named(fd, s, a->un.sun_path);
		if (e != 0)
			return fail(errno_to_darwin(e));
	}
	struct sock *to = sock_at(a->un.sun_path);
	s->peer = to != NULL ? (uint64_t)to->inode : 0;
	return 0;
}

// datagram_bound connects by path what Linux's kernel had connected before the socket had a name.
int datagram_bound(int fd, struct sock *s)
{
	union address a = {0};
	socklen_t n = sizeof a;
	uint64_t peer = s->peer;
	if (!(s->flags & CONNECTED) || s->flags & PAIR || getpeername(fd, &a.sa, &n) != 0 || n <= offsetof(struct sockaddr_un, sun_path))
		return 0;
	disconnect(fd, s);
	s->peer = peer;
	return connect_named(fd, s, a.un.sun_path);
}

bool datagram_connected(const struct sock *s) { return (s->flags & (CONNECTED | NAMED)) != 0 && !(s->flags & LOST); }

// unp_detach and unp_drop in uipc_usrreq.c: the close of the peer sets ECONNRESET and wakes no one.
bool datagram_lost(int fd, struct sock *s)
{
	if (s->flags & NAMED) {
		int p = hold(fd, s);
		union address a;
		return p < 0 || reach(&a, address_of(p, &a)) != 0;
	}
	return s->flags & CONNECTED && diag_peer(s->inode) == 0;
}
