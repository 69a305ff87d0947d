// SPDX-License-Identifier: Apache-2.0

// What the programs vmnetc and vmnetcalls share: the library, and interfaces.
#ifndef VMNETCALLS_H
#define VMNETCALLS_H

#include "abi.h"

#include <semaphore.h>
#include <sys/uio.h>

enum { MAX_SLOTS = 256, MAX_READ_BYTES = 256 << 10, PREFIX = 4 };

// The functions of the library, called through pointers as a binding does.
struct library {
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
};

extern struct library lib;

// A port is an interface with what is needed to read from it and to write to it.
struct port {
	interface_ref ref;
	dispatch_queue_t queue;
	size_t max_packet; // bytes
	int slots;         // packets that one read takes at most
	struct vmpktdesc in[MAX_SLOTS], out[MAX_SLOTS];
	struct iovec in_iov[MAX_SLOTS], out_iov[MAX_SLOTS];
	uint8_t *slot; // memory of the slots
	sem_t started;
};

void open_library(const char *path);
void open_port(struct port *);

// read_packets offers n slots, which must be ready, and returns how many packets came.
int read_packets(struct port *, int n);

// make_batch puts the n packets that were read into wire form, without gaps, and returns its length.
size_t make_batch(struct port *, int n);

// ready_slots readies the first n slots for another read.
void ready_slots(struct port *, int n);

_Noreturn void fail(const char *what);

#endif
