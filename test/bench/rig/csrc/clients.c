// SPDX-License-Identifier: Apache-2.0

// The client processes of the load generator.
#include "load.h"

#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum {
	STALL_MS = 200,     // without an ack the whole window counts as lost
	CHECK_EVERY = 64,   // of so many frames one is compared byte by byte
	ACKS_PER_WINDOW = 8 // of datagrams; what a stream gives at once is acknowledged at once, and is more in a busy flow
};

static void make_mac(uint8_t *p, int client)
{
	// Locally administered, unicast.
	const uint8_t mac[MAC_LEN] = {0x02, 0x62, 0x65, 0x6e, (uint8_t)(client >> 8), (uint8_t)client};
	memcpy(p, mac, MAC_LEN);
}

int sender_of(const uint8_t *frame, int self, int first, int last)
{
	uint8_t macs[2 * MAC_LEN];
	int from = frame[2 * MAC_LEN - 2] << 8 | frame[2 * MAC_LEN - 1];
	make_mac(macs, self);
	make_mac(macs + MAC_LEN, from);
	return from >= first && from <= last && memcmp(frame, macs, sizeof macs) == 0 ? from : -1;
}

void make_frame(uint8_t *p, enum kind kind, int from, int to, int len)
{
	put_prefix(p, (uint32_t)len);
	uint8_t *frame = p + PREFIX_LEN;
	make_mac(frame, to);
	make_mac(frame + MAC_LEN, from);
	frame[12] = 0x88; // IEEE 802 local experimental
	frame[13] = 0xb5;
	frame[KIND_AT] = (uint8_t)kind;
	frame[KIND_AT + 1] = 0;
	for (int i = PATTERN_AT; i < len; i++)
		frame[i] = (uint8_t)(i * 7);
	set_seq(p, len, 0);
}

void set_seq(uint8_t *p, int len, uint64_t seq)
{
	memcpy(p + PREFIX_LEN + SEQ_AT, &seq, sizeof seq);
	memcpy(p + PREFIX_LEN + len - TAIL_LEN, &seq, sizeof seq);
}

uint64_t get_seq(const uint8_t *frame)
{
	uint64_t seq;
	memcpy(&seq, frame + SEQ_AT, sizeof seq);
	return seq;
}

void sleep_ms(int ms)
{
	struct timespec t = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L};
	nanosleep(&t, NULL);
}

static uint64_t now_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

// newest_ack takes everything that has arrived and returns the highest acknowledged number, at least acked.
static uint64_t newest_ack(struct reader *r, int self, int peer, uint64_t acked)
{
	uint32_t len;
	for (const uint8_t *f; (f = reader_next(r, self, &len)) != NULL;)
		if (f[KIND_AT] == ACK && sender_of(f, self, peer, peer) >= 0 && get_seq(f) > acked)
			acked = get_seq(f);
	return acked;
}

// send_batch numbers the frames of the batch from seq + 1 on and writes them with one system call.
static void send_batch(struct reader *r, uint8_t *batch, uint64_t seq)
{
	size_t stride = PREFIX_LEN + (size_t)opt.frame_len;
	for (int i = 0; i < opt.batch; i++)
		set_seq(batch + (size_t)i * stride, opt.frame_len, seq + 1 + (uint64_t)i);
	send_frames(r, batch, (size_t)opt.batch * stride, opt.batch == 1);
}

void run_sender(int self, int peer)
{
	struct reader r;
	reader_init(&r, self);
	meet(&r, self, peer, peer);
	set_receive_timeout(conns[self].fd, STALL_MS);

	size_t stride = PREFIX_LEN + (size_t)opt.frame_len;
	uint8_t *batch = malloc((size_t)opt.batch * stride);
	for (int i = 0; i < opt.batch; i++)
		make_frame(batch + (size_t)i * stride, DATA, self, peer, opt.frame_len);
	uint64_t seq = 0, acked = 0;
	for (;;) {
		while (!opt.window || seq + (uint64_t)opt.batch <= acked + (uint64_t)opt.window) {
			send_batch(&r, batch, seq);
			seq += (uint64_t)opt.batch;
		}
		uint64_t before = acked;
		acked = newest_ack(&r, self, peer, acked); // what has arrived while the socket was full
		if (acked == before && !reader_fill(&r))
			acked = seq;
	}
}

// is_intact checks what a relay could have damaged: the length, both numbers, one word of the pattern, and of every
// CHECK_EVERYth frame all of it.
static bool is_intact(const uint8_t *frame, uint32_t len, const uint8_t *model)
{
	if (len != (uint32_t)opt.frame_len || memcmp(frame + len - TAIL_LEN, frame + SEQ_AT, TAIL_LEN) != 0)
		return false;
	size_t pattern_len = len - TAIL_LEN - PATTERN_AT;
	uint64_t seq = get_seq(frame);
	if (seq % CHECK_EVERY == 0)
		return memcmp(frame + PATTERN_AT, model + PATTERN_AT, pattern_len) == 0;
	size_t at = PATTERN_AT + seq * 8 % (pattern_len - 8 + 1);
	return memcmp(frame + at, model + at, 8) == 0;
}

void run_receiver(int self, int first, int last)
{
	struct counters *c = &shm->client[self];
	struct reader r;
	reader_init(&r, self);
	meet(&r, self, first, last);
	set_receive_timeout(conns[self].fd, 0);

	uint8_t *model = malloc(PREFIX_LEN + (size_t)opt.frame_len);
	make_frame(model, DATA, first, self, opt.frame_len);
	uint64_t highest[MAX_CLIENTS] = {0}, acked[MAX_CLIENTS] = {0}, received = 0;
	uint64_t ack_every = conns[self].datagrams && opt.window > ACKS_PER_WINDOW ? (uint64_t)opt.window / ACKS_PER_WINDOW : 1;
	for (;;) {
		uint32_t len;
		bool acks = false;
		for (const uint8_t *f; (f = reader_next(&r, self, &len)) != NULL;) {
			int from = sender_of(f, self, first, last);
			if (f[KIND_AT] != DATA || from < 0)
				continue;
			uint64_t seq = get_seq(f);
			if (!is_intact(f, len, model + PREFIX_LEN) || seq <= highest[from]) {
				atomic_fetch_add(&c->corrupt, 1);
				continue;
			}
			if (highest[from])
				atomic_fetch_add_explicit(&c->lost, seq - highest[from] - 1, memory_order_relaxed);
			highest[from] = seq;
			received++;
		}
		atomic_store_explicit(&c->received, received, memory_order_relaxed);
		for (int i = first; opt.window && i <= last; i++) {
			if (highest[i] < acked[i] + ack_every)
				continue;
			acked[i] = highest[i];
			send_small(&r, ACK, self, i, highest[i]);
			acks = true; // more may have arrived while the socket was full
		}
		if (!acks)
			reader_fill(&r);
	}
}

// wait_ping blocks until a ping from the peer arrives.
static void wait_ping(struct reader *r, int self, int peer)
{
	for (;;) {
		uint32_t len;
		for (const uint8_t *f; (f = reader_next(r, self, &len)) != NULL;)
			if (f[KIND_AT] == PING && sender_of(f, self, peer, peer) >= 0)
				return;
		reader_fill(r);
	}
}

void run_pinger(int self, int peer)
{
	struct reader r;
	reader_init(&r, self);
	meet(&r, self, peer, peer);
	set_receive_timeout(conns[self].fd, 0);
	for (uint64_t seq = 1;; seq++) {
		uint64_t start = now_ns();
		send_small(&r, PING, self, peer, seq);
		wait_ping(&r, self, peer);
		uint64_t took = now_ns() - start;
		unsigned long n = atomic_load(&shm->round_trips);
		if (n >= MAX_ROUND_TRIPS)
			continue;
		shm->round_trip_ns[n] = took > UINT32_MAX ? UINT32_MAX : (uint32_t)took;
		atomic_store(&shm->round_trips, n + 1);
	}
}

void run_echoer(int self, int peer)
{
	struct reader r;
	reader_init(&r, self);
	meet(&r, self, peer, peer);
	set_receive_timeout(conns[self].fd, 0);
	for (uint64_t seq = 1;; seq++) {
		wait_ping(&r, self, peer);
		send_small(&r, PING, self, peer, seq);
	}
}

void run_bystanders(int first, int last)
{
	static uint8_t discard[READ_LEN];
	int poll = epoll_create1(EPOLL_CLOEXEC);
	if (poll < 0)
		die("epoll_create1");
	for (int i = first; i <= last; i++) {
		struct reader r;
		reader_init(&r, i);
		send_small(&r, ANNOUNCE, i, 0, 0);
		atomic_fetch_add(&shm->ready, 1);
		struct epoll_event ev = {.events = EPOLLIN, .data.u32 = (uint32_t)i};
		epoll_ctl(poll, EPOLL_CTL_ADD, conns[i].fd, &ev);
	}
	for (;;) {
		struct epoll_event ev[MAX_CLIENTS];
		int n = epoll_wait(poll, ev, MAX_CLIENTS, -1);
		for (int i = 0; i < n; i++) {
			const struct conn *c = &conns[ev[i].data.u32];
			if (recv(c->fd, discard, sizeof discard, MSG_DONTWAIT) == 0 && !c->datagrams)
				_exit(3);
		}
	}
}
