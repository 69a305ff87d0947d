// SPDX-License-Identifier: Apache-2.0

// A client's end of its socket: frames in and out without ever blocking on one direction only. Of datagrams, a frame in each, many
// go with one system call.
#include "load.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/time.h>
#include <unistd.h>

enum {
	ANNOUNCE_MS = 20,      // between two announcements
	STREAM_LEN = 8 << 20,  // far more bytes than are in flight
	MAX_UNREAD = 1024,     // the same in datagrams
	FILL_DATAGRAMS = 64,   // one recvmmsg(2)
	SLOT_SPARE = 512       // room behind the longest frame of a measurement, so that longer ones show
};

static size_t slot_len(void)
{
	return ((size_t)opt.frame_len + SLOT_SPARE) / 64 * 64;
}

static void datagrams_init(struct reader *r)
{
	r->buf = malloc(MAX_UNREAD * slot_len());
	r->msgs = calloc(MAX_UNREAD, sizeof *r->msgs);
	r->parts = calloc(MAX_UNREAD, sizeof *r->parts);
	for (size_t i = 0; i < MAX_UNREAD; i++) {
		r->parts[i] = (struct iovec){.iov_base = r->buf + i * slot_len(), .iov_len = slot_len()};
		r->msgs[i].msg_hdr.msg_iov = &r->parts[i];
		r->msgs[i].msg_hdr.msg_iovlen = 1;
	}
}

static int datagrams_fill(struct reader *r, int flags)
{
	if (r->start == r->end)
		r->start = r->end = 0;
	if (MAX_UNREAD - r->end < FILL_DATAGRAMS)
		die("too many datagrams are not read");
	int n;
	do
		n = recvmmsg(r->conn->fd, r->msgs + r->end, FILL_DATAGRAMS, flags, NULL);
	while (n < 0 && errno == EINTR);
	if (n < 0 && errno != EAGAIN)
		die("read from the relay");
	if (n > 0)
		r->end += (size_t)n;
	return n > 0;
}

static const uint8_t *datagrams_next(struct reader *r, int self, uint32_t *len)
{
	if (r->start == r->end)
		return NULL;
	const struct mmsghdr *m = &r->msgs[r->start];
	*len = m->msg_len;
	if (*len < ETHER_HEADER_LEN || m->msg_hdr.msg_flags & MSG_TRUNC) {
		fprintf(stderr, "client %d: a datagram of %u bytes came\n", self, *len);
		atomic_fetch_add(&shm->client[self].corrupt, 1);
		_exit(3);
	}
	return r->buf + r->start++ * slot_len();
}

// datagrams_send sends the n bytes of frames in wire form without waiting and returns how many bytes it was rid of, or -1 with
// errno.
static ssize_t datagrams_send(const struct conn *c, const uint8_t *p, size_t n)
{
	struct mmsghdr msgs[MAX_BATCH];
	struct iovec parts[MAX_BATCH];
	unsigned count = 0;
	for (size_t at = 0; at < n && count < MAX_BATCH; count++) {
		size_t len = get_prefix(p + at);
		parts[count] = (struct iovec){.iov_base = (void *)(p + at + PREFIX_LEN), .iov_len = len};
		msgs[count].msg_hdr = (struct msghdr){
			.msg_name = c->to_len ? (void *)&c->to : NULL, .msg_namelen = c->to_len,
			.msg_iov = &parts[count], .msg_iovlen = 1,
		};
		at += PREFIX_LEN + len;
	}
	int sent;
	if (count == 1)
		sent = sendmsg(c->fd, &msgs[0].msg_hdr, MSG_DONTWAIT | MSG_NOSIGNAL) < 0 ? -1 : 1;
	else
		sent = sendmmsg(c->fd, msgs, count, MSG_DONTWAIT | MSG_NOSIGNAL);
	ssize_t done = sent < 0 ? -1 : 0;
	for (int i = 0; i < sent; i++)
		done += PREFIX_LEN + (ssize_t)parts[i].iov_len;
	return done;
}

void reader_init(struct reader *r, int self)
{
	*r = (struct reader){.conn = &conns[self]};
	if (r->conn->datagrams) {
		datagrams_init(r);
		return;
	}
	r->buf = malloc(STREAM_LEN);
}

int reader_fill(struct reader *r)
{
	if (r->conn->datagrams)
		return datagrams_fill(r, MSG_WAITFORONE);
	memmove(r->buf, r->buf + r->start, r->end - r->start);
	r->end -= r->start;
	r->start = 0;
	if (STREAM_LEN - r->end < READ_LEN)
		die("too much is not read");
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

void meet(struct reader *r, int self, int first, int last)
{
	bool known[MAX_CLIENTS] = {false};
	int met = 0;
	set_receive_timeout(r->conn->fd, ANNOUNCE_MS);
	while (!atomic_load(&shm->go)) {
		for (int i = first; i <= last; i++)
			send_small(r, ANNOUNCE, self, i, 0);
		if (!reader_fill(r))
			continue;
		uint32_t len;
		for (const uint8_t *f; (f = reader_next(r, self, &len)) != NULL;) {
			int from = sender_of(f, self, first, last);
			if (from < 0)
				continue;
			if (f[KIND_AT] != ANNOUNCE) { // the peer has seen the start before us
				r->start -= r->conn->datagrams ? 1 : PREFIX_LEN + len; // it stays in the reader
				return;
			}
			met += !known[from];
			if (!known[from] && met > last - first)
				atomic_fetch_add(&shm->ready, 1);
			known[from] = true;
		}
		if (met)
			sleep_ms(1);
	}
}
