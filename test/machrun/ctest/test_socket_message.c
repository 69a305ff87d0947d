// SPDX-License-Identifier: Apache-2.0

// Messages with descriptors, many datagrams at once, and descriptors in flight.
#include "test_socket.h"

#include <fcntl.h>
#include <poll.h>

static char frame[70000];

CASE(cut_control_messages_leak)
{
	int p[2], null = open("/dev/null", O_RDONLY), fds[] = {null, null, null};
	int32_t control[4]; // room for one
	char b;
	struct iovec v = {&b, 1};
	struct d_msghdr m = {.iov = &v, .iovlen = 1, .control = control, .controllen = sizeof control};
	pair(1, p);
	EQUAL(1, send_fds(p[0], fds, 3));
	int next = dup(null); // the lowest that is free
	close(next);
	EQUAL(1, s_recvmsg(p[1], &m, 0));
	EQUAL(0x20, m.flags); // MSG_CTRUNC
	EQUAL(16, m.controllen);
	EQUAL(24, control[0]); // the length is not cut
	EQUAL(next, control[3]);
	for (int i = 0; i < 3; i++) {
		CHECK(fcntl(next + i, F_GETFD) >= 0);
		EQUAL(0, fcntl(next + i, F_GETFD) & FD_CLOEXEC);
	}
}

CASE(control_messages_that_are_refused)
{
	int p[2], null = open("/dev/null", O_RDONLY), bad = 999;
	struct { struct d_cmsghdr h; int fd, more; } c = {{16, 0xffff, 1}, null, null};
	struct iovec v = {"x", 1};
	struct d_msghdr m = {.iov = &v, .iovlen = 1, .control = &c, .controllen = 20};
	pair(1, p);
	FAILS(22, s_sendmsg(p[0], &m, 0)); // longer than its message
	m.controllen = 16, c.h.type = 2;
	FAILS(22, s_sendmsg(p[0], &m, 0)); // SCM_TIMESTAMP
	m.controllen = 8;
	FAILS(22, s_sendmsg(p[0], &m, 0));
	FAILS(9, send_fds(p[0], &bad, 1));
	m.iovlen = 0;
	FAILS(40, s_sendmsg(p[0], &m, 0));
	int many[256];
	for (int i = 0; i < 256; i++)
		many[i] = null;
	EQUAL(1, send_fds(p[0], many, 253));
	FAILS(22, send_fds(p[0], many, 255)); // more than a cluster holds
	m.iovlen = 1;
	FAILS(38, s_sendmsg(null, &m, 0));
}

// What an earlier message left in memory is not told again: its descriptor would be closed twice.
CASE(the_end_brings_no_control_message)
{
	for (int type = 1; type <= 2; type++) {
		int p[2], null = open("/dev/null", O_RDONLY);
		char b, control[64];
		struct iovec v = {&b, 1};
		struct d_msghdr m = {.iov = &v, .iovlen = 1, .control = control};
		pair(type, p);
		EQUAL(1, send_fds(p[0], &null, 1));
		EQUAL(1, s_write(p[1], "x", 1));
		EQUAL(0, type == 1 ? s_close(p[0]) : s_shutdown(p[1], 0)); // a stream with something unread
		for (int left = 1; left >= 0; left--) {
			m.controllen = sizeof control;
			EQUAL(left, s_recvmsg(p[1], &m, 0));
			EQUAL(16 * left, m.controllen);
		}
	}
}

static struct d_msghdr_x batch[300];
static struct iovec vectors[300];

static void fill(unsigned n, size_t each)
{
	for (unsigned i = 0; i < n; i++) {
		vectors[i] = (struct iovec){frame, each};
		batch[i] = (struct d_msghdr_x){.m = {.iov = &vectors[i], .iovlen = 1}};
	}
}

CASE(many_datagrams)
{
	int p[2];
	pair(2, p);
	set(p[1], RCVBUF, 1 << 20);
	fill(300, 100);
	EQUAL(256, s_sendmsg_x(p[0], batch, 300, 0)); // kern.ipc.maxsendmsgx
	EQUAL(256, s_recvmsg_x(p[1], batch, 300, 0x80));
	EQUAL(100, batch[255].datalen);
	FAILS(35, s_recvmsg_x(p[1], batch, 300, 0x80));
	FAILS(22, s_recvmsg_x(p[1], batch, 1, 2)); // MSG_PEEK
	FAILS(22, s_sendmsg_x(p[0], batch, 0, 0));
	fill(2, 100);
	struct d_sockaddr a = {.family = 1};
	batch[1].m.name = &a;
	FAILS(22, s_sendmsg_x(p[0], batch, 2, 0));
}

CASE(what_ends_a_batch)
{
	int p[2];
	pair(2, p); // blocking
	fill(10, 1000);
	EQUAL(4, s_sendmsg_x(p[0], batch, 10, 0x80));
	FAILS(55, s_sendmsg_x(p[0], batch, 10, 0x80));
	set(p[1], RCVBUF, 1 << 20);
	vectors[2].iov_len = 3000;
	EQUAL(2, s_sendmsg_x(p[0], batch, 10, 0));
	FAILS(40, s_sendmsg_x(p[0], batch + 2, 8, 0));
	s_close(p[1]);
	FAILS(54, s_sendmsg_x(p[0], batch, 2, 0));
}

CASE(a_batch_that_is_received_cuts_silently)
{
	int p[2];
	pair(2, p);
	EQUAL(500, s_write(p[0], frame, 500));
	fill(2, 100);
	EQUAL(1, s_recvmsg_x(p[1], batch, 2, 0));
	EQUAL(100, batch[0].datalen);
	EQUAL(0, batch[0].m.flags);
	EQUAL(500, s_write(p[0], frame, 500));
	EQUAL(100, s_recvmsg(p[1], &batch[0].m, 0));
	EQUAL(0x10, batch[0].m.flags); // MSG_TRUNC
}
