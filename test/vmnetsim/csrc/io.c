// SPDX-License-Identifier: Apache-2.0

// vmnet_read and vmnet_write.
#include "internal.h"

#include <sys/uio.h>

_Static_assert(sizeof(struct iovec) == 16, "Linux's iovec is darwin's");

// Each buffer holds the largest packet, and the caller has set sizes and flags again since the last read.
static vmnet_return_t check_read(const struct iface *i, const struct vmpktdesc *p, int n)
{
	if (n > MAX_PACKETS)
		return VMNET_TOO_MANY_PACKETS;
	for (int k = 0; k < n; k++) {
		const struct vmpktdesc *d = &p[k];
		if (d->vm_pkt_iovcnt != 1 || d->vm_pkt_iov == NULL || d->vm_flags != 0 || d->vm_pkt_size < i->max_packet ||
			d->vm_pkt_iov->iov_base == NULL || d->vm_pkt_iov->iov_len < i->max_packet)
			return VMNET_INVALID_ARGUMENT;
	}
	return VMNET_SUCCESS;
}

static int take(struct iface *i, struct vmpktdesc *p, int n)
{
	size_t bytes = 0;
	int k = 0;
	for (uint32_t len; k < n; k++) {
		const uint8_t *frame = ring_peek(&i->ring, &len);
		if (frame == NULL || bytes + len > MAX_BYTES)
			break;
		memcpy(p[k].vm_pkt_iov->iov_base, frame, len);
		ring_next(&i->ring, len);
		p[k].vm_pkt_size = len;
		p[k].vm_pkt_iov->iov_len = len;
		bytes += len;
	}
	return k;
}

static vmnet_return_t read_packets(struct iface *i, struct vmpktdesc *p, int *count)
{
	vmnet_return_t st = check_read(i, p, *count);
	if (st != VMNET_SUCCESS)
		return st;
	int n = *count;
	int64_t most = SWITCH_VALUE(read_max);
	if (most > 0 && n > most)
		n = (int)most;
	pthread_mutex_lock(&i->read_lock);
	*count = take(i, p, n);
	pthread_mutex_unlock(&i->read_lock);
	gauge_add(GAUGE_frames_out, *count);
	return VMNET_SUCCESS;
}

static vmnet_return_t check_write(const struct iface *i, const struct vmpktdesc *p, int n)
{
	size_t bytes = 0;
	if (n > MAX_PACKETS)
		return VMNET_TOO_MANY_PACKETS;
	for (int k = 0; k < n; k++) {
		const struct vmpktdesc *d = &p[k];
		if (d->vm_pkt_iovcnt != 1 || d->vm_pkt_iov == NULL || d->vm_flags != 0 || d->vm_pkt_iov->iov_base == NULL ||
			d->vm_pkt_iov->iov_len != d->vm_pkt_size || d->vm_pkt_size < MIN_FRAME)
			return VMNET_INVALID_ARGUMENT;
		if (d->vm_pkt_size > i->max_packet)
			return VMNET_PACKET_TOO_BIG;
		bytes += d->vm_pkt_size;
	}
	return bytes > MAX_BYTES ? VMNET_TOO_MANY_PACKETS : VMNET_SUCCESS;
}

static vmnet_return_t write_packets(struct iface *i, struct vmpktdesc *p, int *count)
{
	vmnet_return_t st = check_write(i, p, *count);
	if (st != VMNET_SUCCESS)
		return st;
	struct batch b;
	bridge_begin(&b, i->net, i);
	for (int k = 0; k < *count; k++)
		bridge_forward(&b, p[k].vm_pkt_iov->iov_base, (uint32_t)p[k].vm_pkt_size);
	bridge_end(&b);
	gauge_add(GAUGE_frames_in, *count);
	return VMNET_SUCCESS;
}

// What both calls do around their work.
static inline vmnet_return_t transfer(struct iface *i, struct vmpktdesc *p, int *count, int fault,
	vmnet_return_t (*packets)(struct iface *, struct vmpktdesc *, int *))
{
	if (p == NULL || count == NULL || *count < 1)
		return VMNET_INVALID_ARGUMENT;
	vmnet_return_t st = (vmnet_return_t)fault_at(fault);
	if (st == 0)
		st = iface_enter(i);
	if (st == VMNET_SUCCESS) {
		st = packets(i, p, count);
		iface_leave(i);
	}
	if (st != VMNET_SUCCESS)
		*count = 0;
	return st;
}

vmnet_return_t vmnet_read(interface_ref i, struct vmpktdesc *p, int *count)
{
	COUNT(vmnet_read);
	return transfer(i, p, count, FAULT_result_vmnet_read, read_packets);
}

vmnet_return_t vmnet_write(interface_ref i, struct vmpktdesc *p, int *count)
{
	COUNT(vmnet_write);
	return transfer(i, p, count, FAULT_result_vmnet_write, write_packets);
}
