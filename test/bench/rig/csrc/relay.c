// SPDX-License-Identifier: Apache-2.0

// The relays that the daemon is compared with. Each takes clients on a unix stream socket, one blocking thread per client.
//
//	relay switch SOCKET  the floor: large reads, every frame's addresses learned and looked up, one write per run of
//	                     consecutive frames to one client; datagram clients as well (relaydgram.c), 32 per system call
//	relay flood SOCKET   the old way: two reads per frame and one writev to every other client
#include "relay.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum {
	TABLE_SLOTS = 4096 // a power of two, far above MAX_CLIENTS, so that probes stay short
};

struct client clients[MAX_CLIENTS];
atomic_int client_count;

// A slot is an address in the upper 48 bits and a client's index + 1 in the lower 16; 0 is free.
static _Atomic uint64_t mac_table[TABLE_SLOTS];

static uint64_t mac_key(const uint8_t *mac)
{
	uint64_t key = 0;
	memcpy(&key, mac, MAC_LEN);
	return key << 16;
}

// find_slot returns where the address is, or where it would be.
static _Atomic uint64_t *find_slot(uint64_t key)
{
	for (unsigned i = (unsigned)((key * 0x9e3779b97f4a7c15u) >> 52) % TABLE_SLOTS;; i = (i + 1) % TABLE_SLOTS) {
		uint64_t have = atomic_load_explicit(&mac_table[i], memory_order_relaxed);
		if (have == 0 || (have ^ key) >> 16 == 0)
			return &mac_table[i];
	}
}

void learn(const uint8_t *src, int client)
{
	uint64_t key = mac_key(src), want = key | (uint64_t)(client + 1);
	_Atomic uint64_t *slot = find_slot(key);
	if (atomic_load_explicit(slot, memory_order_relaxed) != want)
		atomic_store_explicit(slot, want, memory_order_relaxed);
}

int look_up(const uint8_t *dst)
{
	if (dst[0] & 1)
		return ALL_CLIENTS;
	uint64_t have = atomic_load_explicit(find_slot(mac_key(dst)), memory_order_relaxed);
	return have == 0 ? ALL_CLIENTS : (int)(have & 0xffff) - 1;
}

void write_run(struct client *c, const uint8_t *run, size_t n)
{
	if (c->datagrams) {
		send_run(c, run, n);
		return;
	}
	pthread_mutex_lock(&c->write_lock);
	write_full(c->fd, run, n);
	pthread_mutex_unlock(&c->write_lock);
}

static void deliver(int from, int to, const uint8_t *run, size_t n)
{
	if (n == 0 || to == from || to == NO_CLIENT)
		return;
	if (to != ALL_CLIENTS) {
		write_run(&clients[to], run, n);
		return;
	}
	int count = atomic_load(&client_count);
	for (int i = 0; i < count; i++)
		if (i != from)
			write_run(&clients[i], run, n);
}

// forward sends the whole frames in buf on and returns how many bytes they are, or -1 when the framing is lost.
static ssize_t forward(void *client, const uint8_t *buf, size_t len)
{
	int from = (int)((struct client *)client - clients);
	size_t off = 0, run = 0;
	int to = NO_CLIENT, run_to = NO_CLIENT;
	const uint8_t *before = NULL;
	while (len - off >= PREFIX_LEN) {
		uint32_t n = get_prefix(buf + off);
		if (n < ETHER_HEADER_LEN || n > MAX_FRAME_LEN)
			return -1;
		if (len - off < PREFIX_LEN + n)
			break;
		const uint8_t *frame = buf + off + PREFIX_LEN;
		if (!before || memcmp(frame, before, 2 * MAC_LEN) != 0) { // mostly the addresses are those of the frame before
			learn(frame + MAC_LEN, from);
			to = look_up(frame);
		}
		before = frame;
		if (to != run_to) {
			deliver(from, run_to, buf + run, off - run);
			run = off;
			run_to = to;
		}
		off += PREFIX_LEN + n;
	}
	deliver(from, run_to, buf + run, off - run);
	return (ssize_t)off;
}

static void *switch_loop(void *client)
{
	read_frames(((struct client *)client)->fd, forward, client);
	return NULL;
}

static void *flood_loop(void *arg)
{
	int self = (int)((struct client *)arg - clients);
	uint8_t prefix[PREFIX_LEN], *frame = malloc(MAX_FRAME_LEN);
	for (;;) {
		if (read_full(clients[self].fd, prefix, PREFIX_LEN) < 0)
			break;
		uint32_t n = get_prefix(prefix);
		if (n > MAX_FRAME_LEN || read_full(clients[self].fd, frame, n) < 0)
			break;
		int count = atomic_load(&client_count);
		for (int i = 0; i < count; i++) {
			if (i == self)
				continue;
			pthread_mutex_lock(&clients[i].write_lock);
			struct iovec parts[2] = {{.iov_base = prefix, .iov_len = PREFIX_LEN}, {.iov_base = frame, .iov_len = n}};
			write_parts(clients[i].fd, parts, 2);
			pthread_mutex_unlock(&clients[i].write_lock);
		}
	}
	free(frame);
	return NULL;
}

int add_client(const struct client *c)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	pthread_mutex_lock(&lock);
	int i = atomic_load(&client_count);
	if (i == MAX_CLIENTS) {
		fprintf(stderr, "more than %d clients\n", MAX_CLIENTS);
		exit(2);
	}
	clients[i] = *c;
	pthread_mutex_init(&clients[i].write_lock, NULL);
	atomic_store(&client_count, i + 1);
	pthread_mutex_unlock(&lock);
	return i;
}

__attribute__((noreturn)) static void serve(int listener, void *(*loop)(void *), int own_buffers)
{
	for (;;) {
		int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
		if (fd < 0)
			die("accept");
		if (own_buffers)
			set_buffers(fd, SOCKET_BUFFER);
		start_thread(loop, &clients[add_client(&(struct client){.fd = fd})]);
	}
}

int main(int argc, char **argv)
{
	if (argc != 3) {
		fprintf(stderr, "usage: relay switch|flood SOCKET\n");
		return 2;
	}
	signal(SIGPIPE, SIG_IGN);
	if (strcmp(argv[1], "switch") == 0)
		serve_datagrams(argv[2]);
	int listener = bind_to(SOCK_STREAM, argv[2], "");
	if (strcmp(argv[1], "switch") == 0)
		serve(listener, switch_loop, 1);
	else if (strcmp(argv[1], "flood") == 0)
		serve(listener, flood_loop, 0); // socket_vmnet leaves its buffers as they are
	fprintf(stderr, "unknown relay: %s\n", argv[1]);
	return 2;
}
