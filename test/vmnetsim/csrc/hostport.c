// SPDX-License-Identifier: Apache-2.0

// The host's own port on a network's bridge, for the simulator's user.
#include "internal.h"

#include <errno.h>
#include <time.h>

// Waits for a frame, with the host lock held.
static const uint8_t *wait_frame(struct net *n, uint32_t *len, int timeout_ms)
{
	struct timespec until;
	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += timeout_ms / 1000;
	until.tv_nsec += timeout_ms % 1000 * 1000000L;
	if (until.tv_nsec >= 1000000000) {
		until.tv_nsec -= 1000000000;
		until.tv_sec++;
	}
	const uint8_t *frame;
	while ((frame = ring_peek(&n->host, len)) == NULL && timeout_ms > 0)
		if (pthread_cond_timedwait(&n->host_more, &n->host_lock, &until) == ETIMEDOUT)
			break;
	return frame != NULL ? frame : ring_peek(&n->host, len);
}

static void begin_reading(struct net *n)
{
	net_host_reads();
	if (atomic_load(&n->reading))
		return;
	pthread_mutex_lock(&n->lock);
	if (n->host.memory == NULL)
		ring_open(&n->host, RING_BYTES_TSO);
	atomic_store(&n->reading, true);
	pthread_mutex_unlock(&n->lock);
}

long vmnetsim_host_read(uint32_t subnet_be, void *buf, size_t cap, int timeout_ms)
{
	net_host_reads();
	struct net *n = net_with_subnet(subnet_be);
	if (n == NULL)
		return -1;
	begin_reading(n);
	uint32_t len = 0;
	pthread_mutex_lock(&n->host_lock);
	const uint8_t *frame = wait_frame(n, &len, timeout_ms);
	if (frame != NULL) {
		memcpy(buf, frame, len < cap ? len : cap);
		ring_next(&n->host, len);
	}
	pthread_mutex_unlock(&n->host_lock);
	object_unref(n);
	return frame == NULL ? 0 : (long)len;
}

int vmnetsim_host_write(uint32_t subnet_be, const void *buf, size_t len)
{
	struct net *n = net_with_subnet(subnet_be);
	if (n == NULL)
		return -1;
	bool fits = len >= MIN_FRAME && len <= 65550;
	if (fits) {
		struct batch b;
		bridge_begin(&b, n, HOST_PORT);
		bridge_forward(&b, buf, (uint32_t)len);
		bridge_end(&b);
		gauge_add(GAUGE_frames_from_host, 1);
	}
	object_unref(n);
	return fits ? 0 : -2;
}
