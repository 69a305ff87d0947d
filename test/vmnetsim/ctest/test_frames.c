// SPDX-License-Identifier: Apache-2.0

// vmnet_read, vmnet_write and the bridge.
#include "harness.h"

static vmnet_return_t write_all(struct nic *n, struct packets *p)
{
	int count = p->count;
	vmnet_return_t st = vmnet_write(n->ref, p->d, &count);
	EQUAL(st == VMNET_SUCCESS ? p->count : 0, count);
	return st;
}

// Spoils one field of the second of two packets at a time.
CASE(calls_check_their_arguments)
{
	struct nic n;
	nic_open(&n, NULL, describe(VMNET_SHARED_MODE));
	vmnet_return_t (*const calls[])(interface_ref, struct vmpktdesc *, int *) = {vmnet_write, vmnet_read};
	for (int read = 0; read < 2; read++) {
		struct packets p;
		packets_make(&p, 2, read ? 1514 : 100);
		EQUAL(VMNET_INVALID_ARGUMENT, calls[read](NULL, p.d, &(int){1}));
		EQUAL(VMNET_INVALID_ARGUMENT, calls[read](n.ref, NULL, &(int){1}));
		EQUAL(VMNET_INVALID_ARGUMENT, calls[read](n.ref, p.d, NULL));
		EQUAL(VMNET_INVALID_ARGUMENT, calls[read](n.ref, p.d, &(int){0}));
		EQUAL(VMNET_INVALID_ARGUMENT, calls[read](n.ref, p.d, &(int){-1}));
		const struct vmpktdesc good = p.d[1];
		struct vmpktdesc bad[] = {good, good, good, good, good};
		bad[0].vm_pkt_iovcnt = 2;
		bad[1].vm_pkt_iovcnt = 0;
		bad[2].vm_flags = 1;
		bad[3].vm_pkt_size--;
		bad[4].vm_pkt_iov = NULL;
		for (int i = 0; i < 5; i++) {
			int count = 2;
			p.d[1] = bad[i];
			EQUAL(VMNET_INVALID_ARGUMENT, calls[read](n.ref, p.d, &count));
			EQUAL(0, count);
		}
		p.d[1] = good;
		p.v[1].iov_len--;
		EQUAL(VMNET_INVALID_ARGUMENT, calls[read](n.ref, p.d, &(int){2}));
		p.v[1].iov_len++;
		EQUAL(VMNET_SUCCESS, calls[read](n.ref, p.d, &(int){2}));
		packets_free(&p);
	}
	struct frame f;
	frame_make(&f, ALL, 1, 13);
	EQUAL(VMNET_INVALID_ARGUMENT, nic_send(&n, &f));
	nic_close(&n);
}

CASE(write_limits)
{
	struct nic a, b;
	struct packets p;
	two(&a, &b);
	packets_make(&p, 1, 1515);
	EQUAL(VMNET_PACKET_TOO_BIG, write_all(&a, &p));
	packets_free(&p);
	packets_make(&p, MAX_PACKETS + 1, 60);
	EQUAL(VMNET_TOO_MANY_PACKETS, write_all(&a, &p));
	p.count = MAX_PACKETS;
	EQUAL(VMNET_SUCCESS, write_all(&a, &p));
	packets_free(&p);
	packets_make(&p, 174, 1514); // 263,436 bytes
	EQUAL(VMNET_TOO_MANY_PACKETS, write_all(&a, &p));
	p.count = 173;
	EQUAL(VMNET_SUCCESS, write_all(&a, &p));
	packets_free(&p);
	close_two(&a, &b);
}

// One bad packet among many: nothing of the call is written.
CASE(write_is_all_or_nothing)
{
	struct nic a, b;
	struct packets p;
	two(&a, &b);
	packets_make(&p, 5, 100);
	p.v[4].iov_len = p.d[4].vm_pkt_size = 1515;
	EQUAL(VMNET_PACKET_TOO_BIG, write_all(&a, &p));
	nic_silent(&b);
	EQUAL(0, gauge(GAUGE_frames_in));
	packets_free(&p);
	close_two(&a, &b);
}

static vmnet_return_t read_some(struct nic *n, struct packets *p, int *count)
{
	*count = p->count;
	return vmnet_read(n->ref, p->d, count);
}

// Sizes come back in the descriptor and the vector, so both have to be set again.
CASE(read_needs_fresh_descriptors)
{
	struct nic a, b;
	struct packets p;
	struct frame f;
	int count;
	two(&a, &b);
	frame_make(&f, ALL, 1, 60);
	EQUAL(VMNET_SUCCESS, nic_send(&a, &f));
	packets_make(&p, 1, 1514);
	EQUAL(VMNET_SUCCESS, read_some(&b, &p, &count));
	EQUAL(1, count);
	EQUAL(60, p.d[0].vm_pkt_size);
	EQUAL(60, p.v[0].iov_len);
	EQUAL(VMNET_INVALID_ARGUMENT, read_some(&b, &p, &count));
	packets_free(&p);
	close_two(&a, &b);
}

CASE(full_rings_drop)
{
	struct nic a, b;
	struct packets p;
	int count, total = 0;
	two(&a, &b);
	packets_make(&p, 100, 1514);
	for (int i = 0; i < 20; i++)
		EQUAL(VMNET_SUCCESS, write_all(&a, &p)); // a full receiver is not the sender's fault
	packets_free(&p);
	packets_make(&p, 100, 1514);
	do {
		for (int i = 0; i < 100; i++)
			p.d[i].vm_pkt_size = p.v[i].iov_len = 1514;
		EQUAL(VMNET_SUCCESS, read_some(&b, &p, &count));
		total += count;
	} while (count > 0);
	CHECK(total > 500);
	EQUAL(2000 - total, gauge(GAUGE_frames_dropped));
	packets_free(&p);
	close_two(&a, &b);
}

CASE(bridge_learns)
{
	struct nic n[3];
	struct frame f;
	for (int i = 0; i < 3; i++)
		nic_open(&n[i], NULL, describe(VMNET_SHARED_MODE));
	frame_make(&f, 2, 1, 60); // 2 is unknown: to all but the sender
	EQUAL(VMNET_SUCCESS, nic_send(&n[0], &f));
	nic_expect(&n[1], &f);
	nic_expect(&n[2], &f);
	nic_silent(&n[0]);
	frame_make(&f, 1, 2, 60); // 1 is known
	EQUAL(VMNET_SUCCESS, nic_send(&n[1], &f));
	nic_expect(&n[0], &f);
	nic_silent(&n[2]);
	frame_make(&f, 2, 1, 61); // so is 2 now
	EQUAL(VMNET_SUCCESS, nic_send(&n[0], &f));
	nic_expect(&n[1], &f);
	nic_silent(&n[2]);
	frame_make(&f, ALL, 2, 62); // 2 moves
	EQUAL(VMNET_SUCCESS, nic_send(&n[2], &f));
	nic_expect(&n[0], &f);
	nic_expect(&n[1], &f);
	frame_make(&f, 2, 1, 63);
	EQUAL(VMNET_SUCCESS, nic_send(&n[0], &f));
	nic_expect(&n[2], &f);
	nic_silent(&n[1]);
	nic_close(&n[2]); // and leaves
	EQUAL(VMNET_SUCCESS, nic_send(&n[0], &f));
	nic_expect(&n[1], &f);
	nic_close(&n[0]);
	nic_close(&n[1]);
}

// An isolated interface reaches the host alone.
CASE(isolation)
{
	struct nic a, b, c;
	struct frame f;
	xpc_object_t d = describe(VMNET_SHARED_MODE);
	xpc_dictionary_set_bool(d, vmnet_enable_isolation_key, true);
	nic_open(&a, NULL, d);
	two(&b, &c);
	for (int unicast = 0; unicast < 2; unicast++) {
		frame_make(&f, unicast ? 2 : ALL, 1, 60);
		EQUAL(VMNET_SUCCESS, nic_send(&a, &f));
		nic_silent(&b);
		nic_silent(&c);
		frame_make(&f, unicast ? 1 : ALL, 2, 60);
		EQUAL(VMNET_SUCCESS, nic_send(&b, &f));
		nic_silent(&a);
		if (!unicast)
			nic_expect(&c, &f);
		nic_silent(&c);
	}
	EQUAL(2, gauge(GAUGE_frames_to_host)); // both broadcasts; each unicast was for a known guest
	close_two(&b, &c);
	nic_close(&a);
}

CASE(foreign_sources_are_dropped)
{
	static const struct {
		uint32_t mode;
		const char *source;
		bool passes;
	} cases[] = {
		{VMNET_SHARED_MODE, "192.168.64.7", true}, {VMNET_SHARED_MODE, "0.0.0.0", true},
		{VMNET_SHARED_MODE, "192.168.65.7", false}, {VMNET_HOST_MODE, "8.8.8.8", false},
		{VMNET_HOST_MODE, "192.168.128.200", true}, {VMNET_BRIDGED_MODE, "8.8.8.8", true},
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct nic n[2];
		struct frame f;
		for (int k = 0; k < 2; k++) {
			xpc_object_t d = describe(cases[i].mode);
			xpc_dictionary_set_string(d, vmnet_shared_interface_name_key, "en0");
			nic_open(&n[k], NULL, d);
		}
		frame_make(&f, ALL, 1, 60);
		frame_ipv4(&f, cases[i].source);
		EQUAL(VMNET_SUCCESS, nic_send(&n[0], &f)); // silently
		if (cases[i].passes)
			nic_expect(&n[1], &f);
		nic_silent(&n[1]);
		close_two(&n[0], &n[1]);
	}
	EQUAL(2, gauge(GAUGE_frames_filtered));
}
