// SPDX-License-Identifier: Apache-2.0

// Interfaces and frames for the tests.
#include "harness.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <unistd.h>

xpc_object_t describe(uint32_t mode)
{
	xpc_object_t d = xpc_dictionary_create(NULL, NULL, 0);
	if (mode != 0)
		xpc_dictionary_set_uint64(d, vmnet_operation_mode_key, mode);
	return d;
}

xpc_object_t describe_range(uint32_t mode, const char *start, const char *end, const char *mask)
{
	xpc_object_t d = describe(mode);
	if (start != NULL)
		xpc_dictionary_set_string(d, vmnet_start_address_key, start);
	if (end != NULL)
		xpc_dictionary_set_string(d, vmnet_end_address_key, end);
	if (mask != NULL)
		xpc_dictionary_set_string(d, vmnet_subnet_mask_key, mask);
	return d;
}

vmnet_return_t nic_try(struct nic *n, vmnet_network_ref net, xpc_object_t desc)
{
	n->queue = dispatch_queue_create("test", NULL);
	waiter_start(&n->started);
	waiter_event(&n->events);
	waiter_status(&n->stopped);
	if (net == NULL)
		n->ref = vmnet_start_interface(desc, n->queue, &n->started.b);
#ifndef NO_MACOS26
	else
		n->ref = vmnet_interface_start_with_network(net, desc, n->queue, &n->started.b);
#endif
	xpc_release(desc);
	WAIT(&n->started, 1);
	if (n->started.status != VMNET_SUCCESS) {
		vmnet_return_t st = n->started.status;
		nic_forget(n);
		return st;
	}
	CHECK(n->ref != NULL);
	return VMNET_SUCCESS;
}

void nic_open(struct nic *n, vmnet_network_ref net, xpc_object_t desc) { EQUAL(VMNET_SUCCESS, nic_try(n, net, desc)); }

void nic_events(struct nic *n)
{
	EQUAL(VMNET_SUCCESS,
		vmnet_interface_set_event_callback(n->ref, VMNET_INTERFACE_PACKETS_AVAILABLE, n->queue, &n->events.b));
}

void nic_close(struct nic *n)
{
	EQUAL(VMNET_SUCCESS, vmnet_interface_set_event_callback(n->ref, 0, NULL, NULL));
	EQUAL(VMNET_SUCCESS, vmnet_stop_interface(n->ref, n->queue, &n->stopped.b));
	WAIT(&n->stopped, 1);
	EQUAL(VMNET_SUCCESS, n->stopped.status);
	nic_forget(n);
}

static void nothing(void *p) { atomic_store((_Atomic bool *)p, true); }

void queue_close(dispatch_queue_t q)
{
	_Atomic bool done = false;
	queue_work(q, &done, nothing);
	while (!atomic_load(&done))
		usleep(100);
	dispatch_release(q);
}

void two(struct nic *a, struct nic *b)
{
	nic_open(a, NULL, describe(VMNET_SHARED_MODE));
	nic_open(b, NULL, describe(VMNET_SHARED_MODE));
}

void close_two(struct nic *a, struct nic *b)
{
	nic_close(a);
	nic_close(b);
}

void nic_forget(struct nic *n)
{
	queue_close(n->queue);
	waiter_free(&n->started);
	waiter_free(&n->events);
	waiter_free(&n->stopped);
}

const char *nic_param(struct nic *n, const char *key)
{
	struct xpc *s = xpc_find(n->started.params, key, TYPE_STRING);
	return s == NULL ? "" : s->string;
}

static void station(uint8_t mac[6], uint8_t number)
{
	const uint8_t m[6] = {0x02, 0, 0, 0, 0, number};
	memcpy(mac, m, 6);
	if (number == ALL)
		memset(mac, 0xff, 6);
}

void frame_make(struct frame *f, uint8_t to, uint8_t from, size_t len)
{
	memset(f, 0, sizeof *f);
	for (size_t i = 14; i < len; i++)
		f->bytes[i] = (uint8_t)(i * 7 + len);
	station(f->bytes, to);
	station(f->bytes + 6, from);
	f->bytes[12] = 0x88;
	f->bytes[13] = 0xb5;
	f->len = len;
}

void frame_ipv4(struct frame *f, const char *source)
{
	struct in_addr a;
	inet_pton(AF_INET, source, &a);
	f->bytes[12] = 0x08;
	f->bytes[13] = 0x00;
	memcpy(f->bytes + 26, &a, 4);
}

vmnet_return_t nic_send(struct nic *n, const struct frame *f)
{
	struct iovec v = {(void *)(uintptr_t)f->bytes, f->len};
	struct vmpktdesc d = {f->len, &v, 1, 0};
	int count = 1;
	vmnet_return_t st = vmnet_write(n->ref, &d, &count);
	EQUAL(st == VMNET_SUCCESS, count);
	return st;
}

void nic_broadcast(struct nic *n, int frames)
{
	struct frame f;
	frame_make(&f, ALL, 1, 60);
	for (int i = 0; i < frames; i++)
		EQUAL(VMNET_SUCCESS, nic_send(n, &f));
}

int nic_receive(struct nic *n, struct frame *f)
{
	struct iovec v = {f->bytes, sizeof f->bytes};
	struct vmpktdesc d = {sizeof f->bytes, &v, 1, 0};
	int count = 1;
	EQUAL(VMNET_SUCCESS, vmnet_read(n->ref, &d, &count));
	f->len = d.vm_pkt_size;
	return count;
}

void nic_expect(struct nic *n, const struct frame *want)
{
	struct frame got;
	EQUAL(1, nic_receive(n, &got)); // it is there once vmnet_write has returned
	EQUAL(want->len, got.len);
	CHECK(memcmp(want->bytes, got.bytes, got.len) == 0);
}

void nic_silent(struct nic *n)
{
	struct frame got;
	EQUAL(0, nic_receive(n, &got));
}

void packets_make(struct packets *p, int n, size_t size)
{
	p->count = n;
	p->buf = calloc((size_t)n, size);
	for (int i = 0; i < n; i++) {
		struct frame f;
		frame_make(&f, ALL, 1, size);
		memcpy(p->buf + (size_t)i * size, f.bytes, size);
		p->v[i] = (struct iovec){p->buf + (size_t)i * size, size};
		p->d[i] = (struct vmpktdesc){size, &p->v[i], 1, 0};
	}
}

void packets_free(struct packets *p) { free(p->buf); }
