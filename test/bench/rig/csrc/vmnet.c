// SPDX-License-Identifier: Apache-2.0

// What the daemon is held against where it calls vmnet.framework, in C and on the same simulator: vmnet LIBRARY SOCKET does the least
// that a daemon has to do, an interface for each stream client, and frames between the two. It learns and filters nothing, and does not
// care for clients that do not read.
//
// What arrives at an interface of the relay is read and written to the client within the event's callback, on the thread of the
// interface's queue, so that no other thread has to be woken. A thread for each client takes the other direction.
#include "abi.h"
#include "wire.h"

#include <dlfcn.h>
#include <semaphore.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum {
	MAX_SLOTS = 256,
	MAX_READ_BYTES = 256 << 10
};

// The functions of the library, called through pointers as a binding does.
static struct library {
	typeof(&vmnet_read) read;
	typeof(&vmnet_write) write;
	typeof(&vmnet_start_interface) start;
	typeof(&vmnet_interface_set_event_callback) set_event_callback;
	typeof(&xpc_dictionary_create) dictionary;
	typeof(&xpc_dictionary_set_uint64) set_uint64;
	typeof(&xpc_dictionary_get_uint64) get_uint64;
	typeof(&dispatch_queue_create) queue;
	void *global_block;
	const char *mode_key, *max_packet_key, *read_max_key;
} lib;

// A client is an interface with what is needed to read from it and to write to it, and who it is for.
struct client {
	interface_ref ref;
	dispatch_queue_t queue;
	size_t max_packet; // bytes
	int slots;         // packets that one read takes at most
	struct vmpktdesc in[MAX_SLOTS], out[MAX_SLOTS];
	struct iovec in_iov[MAX_SLOTS], out_iov[MAX_SLOTS];
	uint8_t *slot; // memory of the slots
	sem_t started;
	int fd;
	bool gone; // used on the interface's queue
};

static _Noreturn void fail(const char *what)
{
	fprintf(stderr, "vmnet: %s\n", what);
	exit(2);
}

static void *find(const char *name)
{
	void *p = dlsym(RTLD_DEFAULT, name);
	if (p == NULL)
		fail(dlerror());
	return p;
}

static void open_library(const char *path)
{
	if (dlopen(path, RTLD_NOW | RTLD_GLOBAL) == NULL)
		fail(dlerror());
	typeof(&vmnetsim_open) open_simulator = find("vmnetsim_open");
	if (open_simulator(NULL) != 0)
		fail("vmnetsim_open failed");
	lib = (struct library){
		.read = find("vmnet_read"), .write = find("vmnet_write"), .start = find("vmnet_start_interface"),
		.set_event_callback = find("vmnet_interface_set_event_callback"),
		.dictionary = find("xpc_dictionary_create"), .set_uint64 = find("xpc_dictionary_set_uint64"),
		.get_uint64 = find("xpc_dictionary_get_uint64"), .queue = find("dispatch_queue_create"),
		.global_block = find("_NSConcreteGlobalBlock"),
		.mode_key = *(const char **)find("vmnet_operation_mode_key"),
		.max_packet_key = *(const char **)find("vmnet_max_packet_size_key"),
		.read_max_key = *(const char **)find("vmnet_read_max_packets_key"),
	};
}

// A client_block is a global block with one captured word.
struct client_block {
	struct block b;
	struct client *client;
};

// new_block is as long as the process.
static struct block *new_block(struct client *c, void (*invoke)(void))
{
	static struct block_descriptor descriptor = {.size = sizeof(struct client_block)};
	struct client_block *b = calloc(1, sizeof *b);
	b->b = (struct block){.isa = lib.global_block, .flags = BLOCK_IS_GLOBAL, .invoke = invoke, .descriptor = &descriptor};
	b->client = c;
	return &b->b;
}

static void started(struct client_block *b, vmnet_return_t st, xpc_object_t params)
{
	struct client *c = b->client;
	if (st != VMNET_SUCCESS)
		fail("an interface could not be started");
	c->max_packet = lib.get_uint64(params, lib.max_packet_key);
	c->slots = (int)lib.get_uint64(params, lib.read_max_key);
	sem_post(&c->started);
}

// ready_slots readies the first n slots for another read.
static void ready_slots(struct client *c, int n)
{
	for (int k = 0; k < n; k++) {
		c->in[k] = (struct vmpktdesc){.vm_pkt_size = c->max_packet, .vm_pkt_iov = &c->in_iov[k], .vm_pkt_iovcnt = 1};
		c->in_iov[k].iov_len = c->max_packet;
	}
}

// make_client starts an interface.
static struct client *make_client(void)
{
	struct client *c = calloc(1, sizeof *c); // as long as the process
	sem_init(&c->started, 0, 0);
	c->queue = lib.queue("vmnet", NULL);
	xpc_object_t description = lib.dictionary(NULL, NULL, 0);
	lib.set_uint64(description, lib.mode_key, VMNET_SHARED_MODE);
	c->ref = lib.start(description, c->queue, new_block(c, (void (*)(void))started));
	if (c->ref == NULL)
		fail("vmnet_start_interface returned NULL");
	sem_wait(&c->started);
	if ((size_t)c->slots > MAX_READ_BYTES / c->max_packet)
		c->slots = (int)(MAX_READ_BYTES / c->max_packet);
	if (c->slots < 1 || c->slots > MAX_SLOTS)
		fail("the interface takes no packets, or too many");
	c->slot = calloc((size_t)c->slots, PREFIX_LEN + c->max_packet);
	for (int k = 0; k < c->slots; k++)
		c->in_iov[k].iov_base = c->slot + (size_t)k * (PREFIX_LEN + c->max_packet) + PREFIX_LEN;
	ready_slots(c, c->slots);
	return c;
}

// read_packets offers n slots, which must be ready, and returns how many packets came.
static int read_packets(struct client *c, int n)
{
	if (lib.read(c->ref, c->in, &n) != VMNET_SUCCESS)
		fail("vmnet_read failed");
	return n;
}

// make_batch puts the n packets that were read into wire form, without gaps, and returns its length.
static size_t make_batch(struct client *c, int n)
{
	size_t end = 0;
	for (int k = 0; k < n; k++) {
		uint8_t *whole = (uint8_t *)c->in_iov[k].iov_base - PREFIX_LEN;
		size_t size = PREFIX_LEN + c->in[k].vm_pkt_size;
		put_prefix(whole, (uint32_t)c->in[k].vm_pkt_size);
		if (whole != c->slot + end)
			memmove(c->slot + end, whole, size);
		end += size;
	}
	return end;
}

static void write_packets(struct client *c, int n)
{
	int count = n;
	if (n > 0 && (lib.write(c->ref, c->out, &count) != VMNET_SUCCESS || count != n))
		fail("vmnet_write failed");
}

// forward writes the whole frames in buf and returns how many bytes they are, or -1 when the framing is lost.
static ssize_t forward(void *to, const uint8_t *buf, size_t len)
{
	struct client *c = to;
	size_t off = 0, bytes = 0;
	int n = 0;
	while (len - off >= PREFIX_LEN) {
		uint32_t size = get_prefix(buf + off);
		if (size < ETHER_HEADER_LEN || size > c->max_packet)
			return -1;
		if (len - off < PREFIX_LEN + size)
			break;
		if (n == MAX_SLOTS || bytes + size > MAX_READ_BYTES) {
			write_packets(c, n);
			n = 0;
			bytes = 0;
		}
		c->out_iov[n] = (struct iovec){.iov_base = (void *)(buf + off + PREFIX_LEN), .iov_len = size};
		c->out[n] = (struct vmpktdesc){.vm_pkt_size = size, .vm_pkt_iov = &c->out_iov[n], .vm_pkt_iovcnt = 1};
		n++;
		bytes += size;
		off += PREFIX_LEN + size;
	}
	write_packets(c, n);
	return (ssize_t)off;
}

// arrived reads until nothing is left. Events are edge-triggered and never run at the same time: the queue is serial.
static void arrived(struct client_block *b, uint32_t mask, xpc_object_t event)
{
	struct client *c = b->client;
	(void)mask;
	(void)event;
	for (int n; !c->gone && (n = read_packets(c, c->slots)) > 0;) {
		size_t len = make_batch(c, n);
		ready_slots(c, n);
		c->gone = write_full(c->fd, c->slot, len) < 0;
	}
}

static void *serve(void *client)
{
	read_frames(((struct client *)client)->fd, forward, client);
	return NULL;
}

__attribute__((noreturn)) static void relay(const char *path)
{
	signal(SIGPIPE, SIG_IGN);
	for (int listener = bind_to(SOCK_STREAM, path, "");;) {
		int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
		if (fd < 0)
			die("accept");
		set_buffers(fd, SOCKET_BUFFER);
		struct client *c = make_client();
		c->fd = fd;
		struct block *b = new_block(c, (void (*)(void))arrived);
		if (lib.set_event_callback(c->ref, VMNET_INTERFACE_PACKETS_AVAILABLE, c->queue, b) != VMNET_SUCCESS)
			fail("vmnet_interface_set_event_callback failed");
		start_thread(serve, c);
	}
}

int main(int argc, char **argv)
{
	if (argc != 3)
		fail("usage: vmnet LIBRARY SOCKET");
	open_library(argv[1]);
	relay(argv[2]);
}
