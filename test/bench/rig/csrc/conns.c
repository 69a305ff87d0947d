// SPDX-License-Identifier: Apache-2.0

// How the load generator's clients come by their sockets: by the stream socket, by a descriptor from SOCKET.d/attach, and by a
// path of their own beside SOCKET.d/dgram/sock.
#include "load.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum {
	CONNECT_MS = 60000, // how long a relay may take to start
	RETRY_MS = 5,
	LINE_LEN = 4096
};

// must_wait pauses and reports whether a relay that is starting may be the reason of a failed call.
static bool must_wait(int *waited)
{
	if ((errno != ENOENT && errno != ECONNREFUSED) || *waited >= CONNECT_MS)
		return false;
	sleep_ms(RETRY_MS);
	*waited += RETRY_MS;
	return true;
}

static void connect_to(int fd, const char *suffix)
{
	struct sockaddr_un addr = address_of(opt.socket, suffix);
	for (int waited = 0; connect(fd, (struct sockaddr *)&addr, sizeof addr) < 0;)
		if (!must_wait(&waited))
			die(addr.sun_path);
}

// receive_reply reads the reply's line and returns the descriptor that came with it, or -1.
static int receive_reply(int fd, char *line, size_t size)
{
	union {
		struct cmsghdr header;
		char space[CMSG_SPACE(sizeof(int))];
	} control;
	struct iovec part = {.iov_base = line, .iov_len = size - 1};
	struct msghdr msg = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
	ssize_t have = recvmsg(fd, &msg, MSG_CMSG_CLOEXEC); // the line comes in one piece
	if (have <= 0)
		die("read the reply of SOCKET.d/attach");
	int passed = -1;
	struct cmsghdr *c = CMSG_FIRSTHDR(&msg);
	if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS)
		memcpy(&passed, CMSG_DATA(c), sizeof passed);
	line[have] = '\0';
	return passed;
}

static void attach(struct conn *c, int i)
{
	char line[LINE_LEN];
	c->lifeline = make_socket(SOCK_STREAM);
	connect_to(c->lifeline, ".d/attach");
	int n = snprintf(line, sizeof line, "{\"version\":1,\"transport\":\"dgram\",\"name\":\"bench%d\"}\n", i);
	if (write_full(c->lifeline, line, (size_t)n) < 0)
		die("ask SOCKET.d/attach");
	c->fd = receive_reply(c->lifeline, line, sizeof line);
	if (c->fd < 0) {
		fprintf(stderr, "SOCKET.d/attach passed no descriptor: %s", line);
		exit(2);
	}
}

// bind_path gives client i a path of its own, which no earlier client had.
static void bind_path(struct conn *c, int i)
{
	char suffix[32];
	snprintf(suffix, sizeof suffix, ".%d.%d", getpid(), i);
	c->fd = make_socket(SOCK_DGRAM);
	set_buffers(c->fd, DATAGRAM_BUFFER);
	c->own = address_of(opt.socket, suffix);
	if (bind(c->fd, (struct sockaddr *)&c->own, sizeof c->own) < 0)
		die(c->own.sun_path);
}

// aim makes the socket send to the relay's without being connected to it.
static void aim(struct conn *c)
{
	c->to = address_of(opt.socket, ".d/dgram/sock");
	c->to_len = sizeof c->to;
	for (int waited = 0; access(c->to.sun_path, F_OK) < 0;)
		if (!must_wait(&waited))
			die(c->to.sun_path);
}

static enum kind_of_client kind_of(int i)
{
	int last = (int)strlen(opt.kinds) - 1;
	return (enum kind_of_client)opt.kinds[i < last ? i : last];
}

void open_conn(int i)
{
	struct conn *c = &conns[i];
	enum kind_of_client kind = kind_of(i);
	*c = (struct conn){.lifeline = -1, .datagrams = kind != STREAM};
	switch (kind) {
	case STREAM:
		c->fd = make_socket(SOCK_STREAM);
		set_buffers(c->fd, SOCKET_BUFFER);
		connect_to(c->fd, "");
		return;
	case PASSED:
		attach(c, i);
		return;
	case CONNECTED:
		bind_path(c, i);
		connect_to(c->fd, ".d/dgram/sock");
		return;
	case UNCONNECTED:
		bind_path(c, i);
		aim(c);
		return;
	}
	fprintf(stderr, "load: no such kind of client: %c\n", kind);
	exit(2);
}
