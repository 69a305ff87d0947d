// SPDX-License-Identifier: Apache-2.0

// What the parts of fakevm share.
#ifndef FAKEVM_H
#define FAKEVM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/un.h>

enum {
	PREFIX_LEN = 4, // big-endian length before each frame of a stream
	MAC_LEN = 6,
	MIN_FRAME = 14,
	MAX_FRAME = 65550, // what the daemon takes
	SLOT = 65536 + 64, // of a datagram
	BATCH = 64, // frames a write of a batching sender
	WRITE_SIZE = 128 * 1024, // a batching sender stops collecting beyond
	DATAGRAMS = 32 // a system call
};

struct vm {
	int tap, sock;
	bool datagrams;
	bool batch; // as many frames a system call as there are; else one, as QEMU does
	bool offload; // see offload.c
	bool unconnected; // datagrams go to peer
	struct sockaddr_un peer;
	socklen_t peer_len;
};

_Noreturn void die(const char *what);

// tap.c
int open_tap(const char *name, bool nonblocking, bool offload);
void set_up(const char *name, const uint8_t mac[MAC_LEN], const uint8_t address[4], int mtu);
long tap_read(int tap, uint8_t *buf, size_t n); // 0 when a non-blocking TAP has nothing
void tap_wait(int tap);
void tap_wait_writable(int tap);
void tap_write(int tap, const uint8_t *frame, size_t n);

// pump.c
uint8_t *buffer(size_t n);
void write_full(int fd, const uint8_t *buf, size_t n);
size_t whole_frame(const uint8_t *buf, size_t n); // the length of the frame that buf begins with, or 0 when it has not all come
void announce(struct vm *vm, const uint8_t mac[MAC_LEN], const uint8_t address[4]);
// These never return.
void *stream_out(void *vm);
void stream_in(struct vm *vm);
void *datagrams_out(void *vm);
void datagrams_in(struct vm *vm);

// offload.c: the first never returns
void *offload_out(void *vm);
size_t take_offloaded(int tap, const uint8_t *buf, size_t n);

#endif
