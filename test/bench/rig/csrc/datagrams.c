// SPDX-License-Identifier: Apache-2.0

// A client's end of a datagram socket: many datagrams in and out with one system call, a frame in each.
#define _GNU_SOURCE
#include "load.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum {
	FILL_DATAGRAMS = 64, // one recvmmsg(2)
	SLOT_SPARE = 512     // room behind the longest frame of a measurement, so that longer ones show
};

static size_t slot_len(void)
{
	return ((size_t)opt.frame_len + SLOT_SPARE) / 64 * 64;
}

// grow makes room for n datagrams; those that are there stay.
static void grow(struct reader *r, size_t n)
{
	r->buf = realloc(r->buf, n * slot_len());
	r->msgs = realloc(r->msgs, n * sizeof *r->msgs);
	r->parts = realloc(r->parts, n * sizeof *r->parts);
	if (!r->buf || !r->msgs || !r->parts)
		die("realloc");
	for (size_t i = r->cap; i < n; i++)
		r->msgs[i] = (struct mmsghdr){0};
	for (size_t i = 0; i < n; i++) {
		r->parts[i] = (struct iovec){.iov_base = r->buf + i * slot_len(), .iov_len = slot_len()};
		r->msgs[i].msg_hdr.msg_iov = &r->parts[i];
		r->msgs[i].msg_hdr.msg_iovlen = 1;
	}
	r->cap = n;
}

void datagrams_init(struct reader *r)
{
	grow(r, FILL_DATAGRAMS);
}

int datagrams_fill(struct reader *r, int flags)
{
	if (r->start == r->end)
		r->start = r->end = 0;
	if (r->cap - r->end < FILL_DATAGRAMS)
		grow(r, 2 * r->cap);
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

const uint8_t *datagrams_next(struct reader *r, int self, uint32_t *len)
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

ssize_t datagrams_send(const struct conn *c, const uint8_t *p, size_t n)
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
