// SPDX-License-Identifier: Apache-2.0

// The calls of vmnet.framework as a C program makes them: interfaces by hand-made blocks, and descriptors that are laid out once.
#define _GNU_SOURCE
#include "vmnetcalls.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct library lib;

_Noreturn void fail(const char *what)
{
	fprintf(stderr, "vmnetcalls: %s\n", what);
	exit(2);
}

static void *handle;

static void *find(const char *name)
{
	void *p = dlsym(handle, name);
	if (p == NULL)
		fail(dlerror());
	return p;
}

void open_library(const char *path)
{
	handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (handle == NULL)
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

// A port_block is a global block with one captured word.
struct port_block {
	struct block b;
	struct port *port;
};

static struct block_descriptor descriptor = {.size = sizeof(struct port_block)};

static void started(struct port_block *b, vmnet_return_t st, xpc_object_t params)
{
	struct port *p = b->port;
	if (st != VMNET_SUCCESS)
		fail("an interface could not be started");
	p->max_packet = lib.get_uint64(params, lib.max_packet_key);
	p->slots = (int)lib.get_uint64(params, lib.read_max_key);
	sem_post(&p->started);
}

void open_port(struct port *p)
{
	sem_init(&p->started, 0, 0);
	p->queue = lib.queue("vmnetcalls", NULL);
	xpc_object_t description = lib.dictionary(NULL, NULL, 0);
	lib.set_uint64(description, lib.mode_key, VMNET_SHARED_MODE);
	struct port_block *b = calloc(1, sizeof *b); // as long as the process
	*b = (struct port_block){
		.b = {.isa = lib.global_block, .flags = BLOCK_IS_GLOBAL, .invoke = (void (*)(void))started, .descriptor = &descriptor},
		.port = p,
	};
	p->ref = lib.start(description, p->queue, &b->b);
	if (p->ref == NULL)
		fail("vmnet_start_interface returned NULL");
	sem_wait(&p->started);
	if ((size_t)p->slots > MAX_READ_BYTES / p->max_packet)
		p->slots = (int)(MAX_READ_BYTES / p->max_packet);
	if (p->slots < 1 || p->slots > MAX_SLOTS)
		fail("the interface takes no packets, or too many");
	p->slot = calloc((size_t)p->slots, PREFIX + p->max_packet);
	for (int k = 0; k < MAX_SLOTS; k++) {
		p->in[k].vm_pkt_iov = &p->in_iov[k];
		p->out[k].vm_pkt_iov = &p->out_iov[k];
		p->in_iov[k].iov_base = p->slot + (size_t)(k % p->slots) * (PREFIX + p->max_packet) + PREFIX;
	}
	ready_slots(p, MAX_SLOTS);
}

int read_packets(struct port *p, int n)
{
	int count = n;
	if (lib.read(p->ref, p->in, &count) != VMNET_SUCCESS)
		fail("vmnet_read failed");
	return count;
}

size_t make_batch(struct port *p, int n)
{
	size_t end = 0;
	for (int k = 0; k < n; k++) {
		uint8_t *whole = (uint8_t *)p->in_iov[k].iov_base - PREFIX;
		uint32_t size = (uint32_t)p->in[k].vm_pkt_size, prefix = __builtin_bswap32(size);
		memcpy(whole, &prefix, sizeof prefix);
		if (whole != p->slot + end)
			memmove(p->slot + end, whole, PREFIX + size);
		end += PREFIX + size;
	}
	return end;
}

void ready_slots(struct port *p, int n)
{
	for (int k = 0; k < n; k++) {
		p->in[k].vm_pkt_size = p->in_iov[k].iov_len = p->max_packet;
		p->in[k].vm_pkt_iovcnt = 1;
		p->in[k].vm_flags = 0;
	}
}
