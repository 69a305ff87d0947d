// SPDX-License-Identifier: Apache-2.0

// Sockets of streams, addresses, options and who the peer is. README.md, "Sockets", has the rules and their sources.
#include "test_socket.h"

#include <fcntl.h>
#include <grp.h>
#include <sys/wait.h>

CASE(a_stream_closed_with_unread_data_ends)
{
	int fds[2];
	char b[8];
	pair(1, fds);
	EQUAL(4, s_write(fds[0], "lost", 4));
	EQUAL(2, s_write(fds[1], "ok", 2));
	EQUAL(0, s_close(fds[1]));
	FAILS(32, s_sendto(fds[0], "x", 1, 0x80000, NULL, 0)); // uipc_send: EPIPE, never a reset
	EQUAL(2, s_read(fds[0], b, sizeof b));
	EQUAL(0, s_read(fds[0], b, sizeof b));
}

CASE(addresses)
{
	struct d_sockaddr a = {.family = 1};
	uint32_t n = sizeof a;
	int fd = (int)s_socket(1, 2, 0);
	EQUAL(0, s_getsockname(fd, &a, &n));
	EQUAL(3, n); // uipc_usrreq.c, sun_noname
	memset(&a, 0, sizeof a);
	a.family = 1;
	memcpy(a.data, "\0abstract", 9);
	FAILS(2, s_bind(fd, &a, 106));
	FAILS(63, s_bind(fd, &a, 256));
	FAILS(22, s_bind(fd, &a, 1));
	memset(a.data, 'x', sizeof a.data);
	FAILS(22, s_bind(fd, &a, 2 + 105));
	a.family = 30;
	FAILS(22, s_bind(fd, &a, 16));
	a.family = 99;
	FAILS(47, s_bind(fd, &a, 16));
}

CASE(the_longest_path)
{
	struct d_sockaddr a = {.family = 1}, got;
	int fd = (int)s_socket(1, 2, 0);
	CHECK(chdir(directory()) == 0);
	memset(a.data, 'x', 104);
	EQUAL(0, s_bind(fd, &a, 106)); // without a zero byte
	uint32_t n = sizeof got;
	EQUAL(0, s_getsockname(fd, &got, &n));
	EQUAL(106, n);
	EQUAL(106, got.len);
	CHECK(memcmp(got.data, a.data, 104) == 0);
}

CASE(backlog_is_exact_and_refuses_at_once)
{
	struct d_sockaddr a;
	for (int i = 0; i < 2; i++) {
		int want = i == 0 ? 3 : 128, l = listener(i == 0 ? "l3" : "l0", i == 0 ? 3 : 0, &a);
		for (int j = 0; j < want; j++)
			EQUAL(0, s_connect((int)s_socket(1, 1, 0), &a, a.len));
		FAILS(61, s_connect((int)s_socket(1, 1, 0), &a, a.len)); // a blocking one
		CHECK(s_accept(l, NULL, NULL) >= 0);
		EQUAL(0, s_connect((int)s_socket(1, 1, 0), &a, a.len));
	}
}

CASE(accepted_ones_have_the_listeners_o_nonblock)
{
	struct d_sockaddr a;
	int l = listener("l", 5, &a), c = (int)s_socket(1, 1, 0);
	EQUAL(0, s_connect(c, &a, a.len));
	CHECK((fcntl(c, F_GETFL) & O_NONBLOCK) == 0);
	int first = (int)s_accept(l, NULL, NULL);
	CHECK((fcntl(first, F_GETFL) & O_NONBLOCK) == 0);
	CHECK((fcntl(first, F_GETFD) & FD_CLOEXEC) == 0);
	CHECK(fcntl(l, F_SETFL, O_NONBLOCK) == 0);
	EQUAL(0, s_connect((int)s_socket(1, 1, 0), &a, a.len));
	int second = (int)s_accept(l, NULL, NULL);
	CHECK((fcntl(second, F_GETFL) & O_NONBLOCK) != 0);
	FAILS(35, s_accept(l, NULL, NULL));
}

CASE(a_stream_after_its_peers_close)
{
	int p[2], v = 0;
	uint32_t n = 4;
	struct d_sockaddr a;
	pair(1, p);
	uint32_t an = sizeof a;
	EQUAL(0, s_getpeername(p[0], &a, &an));
	EQUAL(0, s_close(p[1]));
	FAILS(22, s_getpeername(p[0], &a, &an));
	FAILS(57, s_getsockopt(p[0], 0, 2, &v, &n));                     // LOCAL_PEERPID
	FAILS(22, s_setsockopt(p[0], 0xffff, SNDBUF, &v, sizeof v));      // sosetoptlock
	EQUAL(0, s_read(p[0], &v, sizeof v));
}

static volatile int pipes;
static void count(int s) { (void)s, pipes++; }

CASE(sigpipe)
{
	int p[2], on = 1;
	struct iovec v = {"x", 1};
	struct d_msghdr m = {.iov = &v, .iovlen = 1};
	signal(SIGPIPE, count);
	pair(1, p);
	s_close(p[1]);
	FAILS(32, s_write(p[0], "x", 1));
	EQUAL(1, pipes);
	FAILS(32, s_sendmsg(p[0], &m, 0x80000)); // MSG_NOSIGNAL
	FAILS(22, s_setsockopt(p[0], 0xffff, 0x1022, &on, sizeof on)); // too late
	EQUAL(1, pipes);
	pair(1, p);
	EQUAL(0, s_setsockopt(p[0], 0xffff, 0x1022, &on, sizeof on)); // SO_NOSIGPIPE
	s_close(p[1]);
	FAILS(32, s_write(p[0], "x", 1));
	FAILS(32, s_writev(p[0], &v, 1));
	EQUAL(1, pipes);
}

CASE(a_stream_holds_what_its_sender_may)
{
	static char big[1 << 20];
	int p[2];
	pair(1, p);
	EQUAL(8192, get(p[0], SNDBUF));
	EQUAL(8192, get(p[0], RCVBUF));
	fcntl(p[0], F_SETFL, O_NONBLOCK);
	long small = s_write(p[0], big, sizeof big);
	CHECK(small >= 8192 && small <= 32768);
	FAILS(35, s_write(p[0], big, sizeof big));
	set(p[0], SNDBUF, 1 << 19);
	CHECK(s_write(p[0], big, sizeof big) >= 1 << 18);
}

CASE(sizes_of_buffers)
{
	int p[2], v = 0;
	pair(2, p);
	EQUAL(2048, get(p[0], SNDBUF));
	EQUAL(4096, get(p[0], RCVBUF));
	set(p[0], SNDBUF, 1 << 30);
	EQUAL(8388608, get(p[0], SNDBUF));
	FAILS(22, s_setsockopt(p[0], 0xffff, RCVBUF, &v, sizeof v));
	FAILS(22, s_setsockopt(p[0], 0xffff, RCVBUF, &v, 1));
}

CASE(options_that_there_are_not)
{
	int p[2], v;
	uint32_t n = sizeof v;
	pair(1, p);
	FAILS(42, s_getsockopt(p[0], 0xffff, 0x7777, &v, &n));
	FAILS(42, s_setsockopt(p[0], 0xffff, 0x7777, &v, n));
	FAILS(102, s_getsockopt(p[0], 0, 77, &v, &n));
	FAILS(102, s_setsockopt(p[0], 6, 1, &v, n)); // TCP_NODELAY of a unix socket
	FAILS(42, s_setsockopt((int)s_socket(2, 1, 0), 6, 0x7777, &v, n));
	FAILS(38, s_getsockopt(open("/dev/null", O_RDONLY), 0xffff, SNDBUF, &v, &n));
	FAILS(9, s_getsockopt(-1, 0xffff, SNDBUF, &v, &n));
	FAILS(22, s_sendto(p[0], "x", 1, 0x40000000, NULL, 0));
	FAILS(102, s_sendto(p[0], "x", 1, 1, NULL, 0)); // MSG_OOB
	FAILS(22, s_sendto(p[0], "x", 1, 8, NULL, 0));  // MSG_EOR
}

CASE(credentials_of_the_peer)
{
	struct { uint32_t version, uid; int16_t n; uint32_t groups[16]; } c;
	struct d_sockaddr a;
	uint32_t n = sizeof c;
	int l = listener("l", 5, &a), p[2], status;
	CHECK(chmod(directory(), 0755) == 0 && chmod(a.data, 0777) == 0);
	pid_t child = fork();
	if (child == 0) {
		gid_t groups[] = {1001, 1002, 1003};
		if (getuid() == 0 && (setgroups(3, groups) != 0 || setgid(1000) != 0 || setuid(1000) != 0))
			_exit(1);
		int fd = (int)s_socket(1, 1, 0);
		_exit(s_connect(fd, &a, a.len) == 0 ? 0 : 2);
	}
	waitpid(child, &status, 0);
	EQUAL(0, status);
	int s = (int)s_accept(l, NULL, NULL);
	EQUAL(0, s_getsockopt(s, 0, 1, &c, &n));
	EQUAL(76, n);
	EQUAL(0, c.version);
	if (getuid() == 0) {
		EQUAL(1000, c.uid);
		EQUAL(4, c.n);
		EQUAL(1000, c.groups[0]);
		EQUAL(1003, c.groups[3]);
	}
	FAILS(57, s_getsockopt((int)s_socket(1, 1, 0), 0, 1, &c, &n));
	pair(2, p);
	FAILS(22, s_getsockopt(p[0], 0, 1, &c, &n)); // datagrams have none
}

CASE(the_process_that_used_the_peer_last)
{
	struct d_sockaddr a;
	int pid = 0, l = listener("l", 5, &a), c = (int)s_socket(1, 1, 0), status;
	uint32_t n = sizeof pid;
	EQUAL(0, s_connect(c, &a, a.len));
	int s = (int)s_accept(l, NULL, NULL);
	EQUAL(0, s_getsockopt(s, 0, 2, &pid, &n));
	EQUAL(getpid(), pid);
	pid_t child = fork();
	if (child == 0)
		_exit(s_write(c, "x", 1) == 1 ? 0 : 1);
	waitpid(child, &status, 0);
	EQUAL(0, status);
	EQUAL(0, s_getsockopt(s, 0, 2, &pid, &n));
	EQUAL(child, pid);
	EQUAL(0, s_getsockopt(s, 0, 3, &pid, &n)); // LOCAL_PEEREPID
	EQUAL(child, pid);
	EQUAL(1, s_read(s, &status, 1));
	FAILS(57, s_getsockopt((int)s_socket(1, 1, 0), 0, 2, &pid, &n));
}
