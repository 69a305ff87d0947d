// SPDX-License-Identifier: Apache-2.0

// What the C tests share: cases, blocks that can be waited for, and a correct caller's habits.
#ifndef CTEST_HARNESS_H
#define CTEST_HARNESS_H

#include "check.h"
#include "internal.h"

#include <stdio.h>
#include <sys/uio.h>
#include <unistd.h>

// A waiter is a global block of any of the three signatures.
struct waiter {
	struct block b;
	pthread_mutex_t lock;
	pthread_cond_t more;
	int calls;
	vmnet_return_t status;
	uint64_t estimate;
	struct xpc *params; // of a start, with a reference of ours
	void (*hook)(struct waiter *);
	void *context;
};

enum { SOON_MS = 30 };

void waiter_start(struct waiter *);
void waiter_status(struct waiter *);
void waiter_event(struct waiter *);
void waiter_free(struct waiter *);
bool waiter_within(struct waiter *, int calls, int ms);
#define WAIT(w, n) CHECK(waiter_within(w, n, PATIENCE_MS))
#define NO_MORE(w, n) CHECK(!waiter_within(w, n, SOON_MS)) // not n calls soon

// Switches of this process's control block.
void flip(int i, int64_t value, int64_t count, int64_t skip);
#define SET(name, value) flip(SWITCH_##name, value, INT64_MAX, 0)
int64_t gauge(int i);
int64_t live(int i);
void reset(void);
void settle(void); // waits until nothing lives, and fails if something stays

// A nic is an interface with a serial queue, as a program has one.
struct nic {
	interface_ref ref;
	dispatch_queue_t queue;
	struct waiter started, events, stopped;
};

void queue_close(dispatch_queue_t); // waits until it is through, so that no block on it is in use, and releases it
xpc_object_t describe(uint32_t mode);
xpc_object_t describe_range(uint32_t mode, const char *start, const char *end, const char *mask);
vmnet_return_t nic_try(struct nic *, vmnet_network_ref, xpc_object_t desc); // releases desc
void nic_open(struct nic *, vmnet_network_ref, xpc_object_t desc);          // must succeed
void nic_events(struct nic *);
void two(struct nic *, struct nic *); // shared ones
void close_two(struct nic *, struct nic *);
void nic_close(struct nic *);
void nic_forget(struct nic *); // one that has no interface any more
const char *nic_param(struct nic *, const char *key);

struct frame {
	uint8_t bytes[65552];
	size_t len;
};

enum { HOST = 0xff, ALL = 0xfe }; // numbers of stations
void frame_make(struct frame *, uint8_t to, uint8_t from, size_t len);
void frame_ipv4(struct frame *, const char *source);
vmnet_return_t nic_send(struct nic *, const struct frame *);
void nic_broadcast(struct nic *, int frames);
int nic_receive(struct nic *, struct frame *); // 1 for a frame, 0 for none: it is there once vmnet_write has returned
void nic_expect(struct nic *, const struct frame *);
void nic_silent(struct nic *);

// Packets for one call.
struct packets {
	struct vmpktdesc d[300];
	struct iovec v[300];
	uint8_t *buf;
	int count;
};
void packets_make(struct packets *, int n, size_t size);
void packets_free(struct packets *);

#endif
