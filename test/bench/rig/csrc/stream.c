// SPDX-License-Identifier: Apache-2.0

// A client's end of a stream: frames in and out of one socket without ever blocking on one direction only. Where it is a
// datagram socket, the functions here call those of datagrams.c.
#define _GNU_SOURCE
#include "load.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

enum {
	ANNOUNCE_MS = 20, // between two announcements
	READER_LEN = READ_LEN + PREFIX_LEN + MAX_FRAME_LEN
};

void reader_init(struct reader *r, int self)
{
	*r = (struct reader){.conn = &conns[self]};
	if (r->conn->datagrams) {
		datagrams_init(r);
		return;
	}
	r->cap = READER_LEN;
	r->buf = malloc(READER_LEN);
}

int reader_fill(struct reader *r)
{
	if (r->conn->datagrams)
		return datagrams_fill(r, MSG_WAITFORONE);
	memmove(r->buf, r->buf + r->start, r->end - r->start);
	r->end -= r->start;
	r->start = 0;
	if (r->cap - r->end < READ_LEN) {
		r->cap *= 2;
		r->buf = realloc(r->buf, r->cap);
		if (!r->buf)
			die("realloc");
	}
	for (;;) {
		ssize_t n = read(r->conn->fd, r->buf + r->end, READ_LEN);
		if (n > 0) {
			r->end += (size_t)n;
			return 1;
		}
		if (n < 0 && errno == EAGAIN)
			return 0;
		if (n == 0 || errno != EINTR) {
			fprintf(stderr, "the relay closed a connection\n");
			_exit(3);
		}
	}
}

const uint8_t *reader_next(struct reader *r, int self, uint32_t *len)
{
	if (r->conn->datagrams)
		return datagrams_next(r, self, len);
	if (r->end - r->start < PREFIX_LEN)
		return NULL;
	*len = get_prefix(r->buf + r->start);
	if (*len < ETHER_HEADER_LEN || *len > MAX_FRAME_LEN) {
		fprintf(stderr, "client %d: the framing is lost: a prefix says %u bytes\n", self, *len);
		atomic_fetch_add(&shm->client[self].corrupt, 1);
		_exit(3);
	}
	if (r->end - r->start < PREFIX_LEN + *len)
		return NULL;
	const uint8_t *frame = r->buf + r->start + PREFIX_LEN;
	r->start += PREFIX_LEN + *len;
	return frame;
}

void reader_unget(struct reader *r, uint32_t len)
{
	r->start -= r->conn->datagrams ? 1 : PREFIX_LEN + len;
}

void set_receive_timeout(int fd, int ms)
{
	struct timeval t = {.tv_sec = ms / 1000, .tv_usec = ms % 1000 * 1000L};
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &t, sizeof t);
}

// wait_writable returns when the socket takes more, and reads meanwhile.
static void wait_writable(struct reader *r)
{
	if (r->conn->to_len > 0) { // poll knows no destination and would return at once, as it does for QEMU
		if (!datagrams_fill(r, MSG_DONTWAIT))
			sched_yield();
		return;
	}
	struct pollfd p = {.fd = r->conn->fd, .events = POLLIN | POLLOUT};
	do {
		poll(&p, 1, -1);
		if (p.revents & POLLIN)
			reader_fill(r);
	} while (!(p.revents & (POLLOUT | POLLERR | POLLHUP)));
}

// send_stream writes without waiting, with split prefix and frame as two parts of one gathering write.
static ssize_t send_stream(int fd, const uint8_t *p, size_t n, bool split)
{
	struct iovec parts[2] = {
		{.iov_base = (void *)p, .iov_len = split ? PREFIX_LEN : n},
		{.iov_base = (void *)(p + PREFIX_LEN), .iov_len = n - PREFIX_LEN},
	};
	struct msghdr gather = {.msg_iov = parts, .msg_iovlen = split ? 2 : 1};
	return sendmsg(fd, &gather, MSG_DONTWAIT | MSG_NOSIGNAL);
}

void send_frames(struct reader *r, const uint8_t *p, size_t n, bool split)
{
	while (n > 0) {
		ssize_t sent = r->conn->datagrams ? datagrams_send(r->conn, p, n) : send_stream(r->conn->fd, p, n, split);
		if (sent < 0 && errno == EAGAIN)
			wait_writable(r);
		else if (sent < 0 && errno != EINTR)
			die("write to the relay");
		if (sent > 0) {
			p += sent;
			n -= (size_t)sent;
			split = false; // the rest of a frame
		}
	}
}

void send_small(struct reader *r, enum kind kind, int self, int peer, uint64_t seq)
{
	uint8_t p[PREFIX_LEN + SMALL_FRAME_LEN];
	make_frame(p, kind, self, peer, SMALL_FRAME_LEN);
	set_seq(p, SMALL_FRAME_LEN, seq);
	send_frames(r, p, sizeof p, false);
}

void meet(struct reader *r, int self, int peer)
{
	bool met = false;
	set_receive_timeout(r->conn->fd, ANNOUNCE_MS);
	while (!atomic_load(&shm->go)) {
		send_small(r, ANNOUNCE, self, peer, 0);
		if (!reader_fill(r))
			continue;
		uint32_t len;
		for (const uint8_t *f; (f = reader_next(r, self, &len)) != NULL;) {
			if (!is_for(f, self) || !is_from(f, peer))
				continue;
			if (f[KIND_AT] != ANNOUNCE) { // the peer has seen the start before us
				reader_unget(r, len);
				return;
			}
			if (met)
				continue;
			met = true;
			atomic_fetch_add(&shm->ready, 1);
		}
		if (met)
			sleep_ms(1);
	}
}
