// SPDX-License-Identifier: Apache-2.0

// The least that a daemon on vmnet.framework has to do, in C: an interface for each stream client, and frames between the
// two. It learns and filters nothing, and does not care for clients that do not read: the next one waits no longer for that.
//
//	vmnetc LIBRARY SOCKET
//
// What arrives at an interface is read and written to the client within the event's callback, on the thread of the interface's
// queue, so that no other thread has to be woken. A thread for each client takes the other direction.
#define _GNU_SOURCE
#include "vmnetcalls.h"
#include "wire.h"

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum {
	MAX_CLIENTS = 32, // interfaces that macOS allows
	STACK_LEN = 256 * 1024
};

struct client {
	struct port port;
	int fd;
	bool gone; // used on the interface's queue
};

// A client_block is a global block with one captured word.
struct client_block {
	struct block b;
	struct client *client;
};

static struct block_descriptor descriptor = {.size = sizeof(struct client_block)};

// arrived reads until nothing is left. Events are edge-triggered and never run at the same time: the queue is serial.
static void arrived(struct client_block *b, uint32_t mask, xpc_object_t event)
{
	struct client *c = b->client;
	(void)mask;
	(void)event;
	for (int n; !c->gone && (n = read_packets(&c->port, c->port.slots)) > 0;) {
		size_t len = make_batch(&c->port, n);
		ready_slots(&c->port, n);
		if (write_full(c->fd, c->port.slot, len) < 0)
			c->gone = true;
	}
}

static void listen_client(struct client *c)
{
	struct client_block *b = calloc(1, sizeof *b); // as long as the process
	*b = (struct client_block){
		.b = {.isa = lib.global_block, .flags = BLOCK_IS_GLOBAL, .invoke = (void (*)(void))arrived, .descriptor = &descriptor},
		.client = c,
	};
	if (lib.set_event_callback(c->port.ref, VMNET_INTERFACE_PACKETS_AVAILABLE, c->port.queue, &b->b) != VMNET_SUCCESS)
		fail("vmnet_interface_set_event_callback failed");
}

static void flush(struct port *p, int *n, size_t *bytes)
{
	int count = *n;
	if (count > 0 && lib.write(p->ref, p->out, &count) != VMNET_SUCCESS)
		fail("vmnet_write failed");
	*n = 0;
	*bytes = 0;
}

// forward writes the whole frames in buf and returns how many bytes they are, or -1 when the framing is lost.
static ssize_t forward(struct port *p, uint8_t *buf, size_t len)
{
	size_t off = 0, bytes = 0;
	int n = 0;
	while (len - off >= PREFIX_LEN) {
		uint32_t size = get_prefix(buf + off);
		if (size < ETHER_HEADER_LEN || size > p->max_packet)
			return -1;
		if (len - off < PREFIX_LEN + size)
			break;
		if (n == MAX_SLOTS || bytes + size > MAX_READ_BYTES)
			flush(p, &n, &bytes);
		p->out_iov[n] = (struct iovec){.iov_base = buf + off + PREFIX_LEN, .iov_len = size};
		p->out[n].vm_pkt_size = size;
		p->out[n].vm_pkt_iovcnt = 1;
		p->out[n].vm_flags = 0;
		n++;
		bytes += size;
		off += PREFIX_LEN + size;
	}
	flush(p, &n, &bytes);
	return (ssize_t)off;
}

static void *serve(void *arg)
{
	struct client *c = arg;
	uint8_t *buf = malloc(READ_LEN + PREFIX_LEN + MAX_FRAME_LEN);
	size_t have = 0; // the begin of a frame that has not fully arrived
	for (;;) {
		ssize_t r = read(c->fd, buf + have, READ_LEN);
		if (r <= 0)
			break;
		have += (size_t)r;
		ssize_t used = forward(&c->port, buf, have);
		if (used < 0)
			break;
		have -= (size_t)used;
		memmove(buf, buf + used, have);
	}
	free(buf);
	return NULL;
}

static int listen_at(const char *path)
{
	struct sockaddr_un addr = {.sun_family = AF_UNIX};
	if (strlen(path) >= sizeof addr.sun_path)
		fail("the socket's path is too long");
	strcpy(addr.sun_path, path);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || bind(fd, (struct sockaddr *)&addr, sizeof addr) < 0 || listen(fd, MAX_CLIENTS) < 0)
		die(path);
	return fd;
}

int main(int argc, char **argv)
{
	if (argc != 3) {
		fprintf(stderr, "usage: vmnetc LIBRARY SOCKET\n");
		return 2;
	}
	signal(SIGPIPE, SIG_IGN);
	open_library(argv[1]);
	int listener = listen_at(argv[2]);
	pthread_attr_t attr;
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, STACK_LEN);
	for (;;) {
		pthread_t thread;
		struct client *c = aligned_alloc(64, (sizeof *c + 63) / 64 * 64); // as long as the process
		memset(c, 0, sizeof *c);
		c->fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
		if (c->fd < 0)
			die("accept");
		set_buffers(c->fd, SOCKET_BUFFER);
		open_port(&c->port);
		listen_client(c);
		if (pthread_create(&thread, &attr, serve, c) != 0)
			die("pthread_create");
		pthread_detach(thread);
	}
}
