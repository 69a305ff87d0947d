// SPDX-License-Identifier: Apache-2.0

// The C relays' datagram clients: the least that has to be done for them. One blocking thread reads the shared socket, one
// each descriptor that was passed.
#include "relay.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
	MAX_DATAGRAM = 65550,
	LINE_LEN = 4096
};

static int shared_sock; // SOCKET.d/dgram/sock

// Slots are what one system call reads into: a frame each, behind room for its prefix.
struct slots {
	int count;
	struct mmsghdr msgs[BATCH_DATAGRAMS];
	struct iovec parts[BATCH_DATAGRAMS];
	struct sockaddr_un from[BATCH_DATAGRAMS];
	uint8_t wire[BATCH_DATAGRAMS][PREFIX_LEN + MAX_DATAGRAM];
};

static uint32_t length(const struct slots *s, int i)
{
	return s->msgs[i].msg_len;
}

static struct slots *make_slots(bool names)
{
	struct slots *s = calloc(1, sizeof *s);
	for (int i = 0; i < BATCH_DATAGRAMS; i++) {
		s->parts[i] = (struct iovec){.iov_base = s->wire[i] + PREFIX_LEN, .iov_len = MAX_DATAGRAM};
		s->msgs[i].msg_hdr = (struct msghdr){.msg_name = names ? &s->from[i] : NULL, .msg_iov = &s->parts[i], .msg_iovlen = 1};
	}
	return s;
}

// receive waits for datagrams and returns whether there are any.
static bool receive(int fd, struct slots *s)
{
	for (int i = 0; s->msgs[0].msg_hdr.msg_name && i < BATCH_DATAGRAMS; i++)
		s->msgs[i].msg_hdr.msg_namelen = sizeof s->from[i];
	do
		s->count = recvmmsg(fd, s->msgs, BATCH_DATAGRAMS, MSG_WAITFORONE, NULL);
	while (s->count < 0 && errno == EINTR);
	return s->count > 0;
}

// send_messages sends all of them, waiting where it has to. What a client that has gone does not take is forgotten.
static void send_messages(struct client *c, struct mmsghdr *msgs, int n)
{
	pthread_mutex_lock(&c->write_lock);
	for (int done = 0; done < n;) {
		int sent = sendmmsg(c->fd, msgs + done, (unsigned)(n - done), MSG_NOSIGNAL);
		if (sent < 0 && errno != EINTR)
			break;
		if (sent > 0)
			done += sent;
	}
	pthread_mutex_unlock(&c->write_lock);
}

static void set_message(struct mmsghdr *m, struct iovec *part, struct client *c, uint8_t *frame, size_t len)
{
	*part = (struct iovec){.iov_base = frame, .iov_len = len};
	m->msg_hdr = (struct msghdr){
		.msg_name = c->addr_len ? &c->addr : NULL, .msg_namelen = c->addr_len, .msg_iov = part, .msg_iovlen = 1,
	};
}

void send_run(struct client *c, const uint8_t *run, size_t n)
{
	struct mmsghdr msgs[BATCH_DATAGRAMS];
	struct iovec parts[BATCH_DATAGRAMS];
	for (size_t at = 0; at < n;) {
		int count = 0;
		for (; at < n && count < BATCH_DATAGRAMS; count++) {
			size_t len = get_prefix(run + at);
			set_message(&msgs[count], &parts[count], c, (uint8_t *)run + at + PREFIX_LEN, len);
			at += PREFIX_LEN + len;
		}
		send_messages(c, msgs, count);
	}
}

// send_slots sends some slots to a datagram client, from where they are.
static void send_slots(struct client *c, struct slots *s, int first, int end)
{
	struct mmsghdr msgs[BATCH_DATAGRAMS];
	struct iovec parts[BATCH_DATAGRAMS];
	for (int i = first; i < end; i++)
		set_message(&msgs[i - first], &parts[i - first], c, s->wire[i] + PREFIX_LEN, length(s, i));
	send_messages(c, msgs, end - first);
}

// write_slots writes some slots to a stream client with one system call.
static void write_slots(struct client *c, struct slots *s, int first, int end)
{
	struct iovec parts[BATCH_DATAGRAMS];
	for (int i = first; i < end; i++) {
		put_prefix(s->wire[i], length(s, i));
		parts[i - first] = (struct iovec){.iov_base = s->wire[i], .iov_len = PREFIX_LEN + length(s, i)};
	}
	pthread_mutex_lock(&c->write_lock);
	write_parts(c->fd, parts, end - first);
	pthread_mutex_unlock(&c->write_lock);
}

static void deliver_slots(int from, int to, struct slots *s, int first, int end)
{
	if (first == end || to == from || to == NO_CLIENT)
		return;
	if (to != ALL_CLIENTS && clients[to].datagrams) {
		send_slots(&clients[to], s, first, end);
	} else if (to != ALL_CLIENTS) {
		write_slots(&clients[to], s, first, end);
	} else {
		for (int i = 0, count = atomic_load(&client_count); i < count; i++)
			for (int one = first; i != from && one < end; one++)
				deliver_slots(from, i, s, one, one + 1);
	}
}

// forward_slots sends some slots of one client on.
static void forward_slots(int from, struct slots *s, int first, int end)
{
	int to = NO_CLIENT, run = first, run_to = NO_CLIENT;
	const uint8_t *before = NULL;
	for (int i = first; i < end; i++) {
		const uint8_t *frame = s->wire[i] + PREFIX_LEN;
		if (length(s, i) < ETHER_HEADER_LEN || s->msgs[i].msg_hdr.msg_flags & MSG_TRUNC) {
			to = NO_CLIENT;
		} else if (!before || memcmp(frame, before, 2 * MAC_LEN) != 0) {
			learn(frame + MAC_LEN, from);
			to = look_up(frame);
			before = frame;
		}
		if (to != run_to) {
			deliver_slots(from, run_to, s, run, i);
			run = i;
			run_to = to;
		}
	}
	deliver_slots(from, run_to, s, run, end);
}

static void *passed_loop(void *arg)
{
	int self = (int)((struct client *)arg - clients);
	struct slots *s = make_slots(false);
	while (receive(clients[self].fd, s))
		forward_slots(self, s, 0, s->count);
	return NULL;
}

static bool is_from(const struct client *c, const struct sockaddr_un *from)
{
	return strcmp(c->addr.sun_path, from->sun_path) == 0;
}

// add_path makes a client of a path that is new: a socket connected to it, or, where only the shared socket may reply, that.
static int add_path(const struct sockaddr_un *from)
{
	struct client c = {.fd = make_socket(SOCK_DGRAM), .datagrams = true, .addr = *from};
	if (connect(c.fd, (const struct sockaddr *)from, sizeof *from) == 0) {
		set_buffers(c.fd, DATAGRAM_BUFFER);
		return add_client(&c);
	}
	if (errno != EPERM)
		return NO_CLIENT; // it has gone
	close(c.fd);
	c.fd = shared_sock;
	c.addr_len = sizeof *from;
	return add_client(&c);
}

// find_path returns whose path it is. Clients with a path are few here, and mostly it is the one before.
static int find_path(const struct sockaddr_un *from)
{
	static int before;
	int count = atomic_load(&client_count);
	if (before < count && is_from(&clients[before], from))
		return before;
	for (before = 0; before < count; before++)
		if (is_from(&clients[before], from))
			return before;
	return before = add_path(from);
}

static void *shared_loop(void *arg)
{
	struct slots *s = make_slots(true);
	(void)arg;
	while (receive(shared_sock, s)) {
		for (int first = 0, end; first < s->count; first = end) {
			for (end = first + 1; end < s->count; end++)
				if (strcmp(s->from[end].sun_path, s->from[first].sun_path) != 0)
					break;
			int from = s->from[first].sun_path[0] ? find_path(&s->from[first]) : NO_CLIENT;
			if (from >= 0)
				forward_slots(from, s, first, end);
		}
	}
	return NULL;
}

// pass_fd answers a request with a descriptor. The connection stays open for as long as the client likes.
static void pass_fd(int to, int fd)
{
	static const char reply[] = "{\"version\":1}\n";
	union {
		struct cmsghdr header;
		char space[CMSG_SPACE(sizeof fd)];
	} control = {.header = {.cmsg_len = CMSG_LEN(sizeof fd), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS}};
	memcpy(CMSG_DATA(&control.header), &fd, sizeof fd);
	struct iovec part = {.iov_base = (void *)reply, .iov_len = sizeof reply - 1};
	struct msghdr msg = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
	if (sendmsg(to, &msg, MSG_NOSIGNAL) < 0)
		die("pass a descriptor");
}

static void *attach_loop(void *arg)
{
	int listener = (int)(intptr_t)arg;
	for (;;) {
		char line[LINE_LEN];
		int fds[2], c = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
		if (c < 0)
			die("accept");
		ssize_t n = read(c, line, sizeof line); // it comes in one piece, and always asks for datagrams
		if (n <= 0 || line[n - 1] != '\n' || socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, fds) < 0)
			die("serve SOCKET.d/attach");
		set_buffers(fds[0], DATAGRAM_BUFFER);
		set_buffers(fds[1], DATAGRAM_BUFFER);
		int client = add_client(&(struct client){.fd = fds[0], .datagrams = true});
		pass_fd(c, fds[1]);
		close(fds[1]);
		start_thread(passed_loop, &clients[client]);
	}
	return NULL;
}

static void make_directory(const char *path, const char *suffix)
{
	char name[LINE_LEN];
	snprintf(name, sizeof name, "%s%s", path, suffix);
	if (mkdir(name, 0700) < 0)
		die(name);
}

void serve_datagrams(const char *path)
{
	make_directory(path, ".d");
	make_directory(path, ".d/dgram");
	shared_sock = bind_to(SOCK_DGRAM, path, ".d/dgram/sock");
	set_buffers(shared_sock, DATAGRAM_BUFFER);
	start_thread(shared_loop, NULL);
	start_thread(attach_loop, (void *)(intptr_t)bind_to(SOCK_STREAM, path, ".d/attach"));
}
