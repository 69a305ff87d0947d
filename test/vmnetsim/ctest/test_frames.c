// SPDX-License-Identifier: Apache-2.0

// vmnet_read, vmnet_write and the bridge.
#include "harness.h"

#include <arpa/inet.h>

static void two(struct nic *a, struct nic *b)
{
	nic_open(a, NULL, describe(VMNET_SHARED_MODE));
	nic_open(b, NULL, describe(VMNET_SHARED_MODE));
}

static void close_two(struct nic *a, struct nic *b)
{
	nic_close(a);
	nic_close(b);
}

static vmnet_return_t write_all(struct nic *n, struct packets *p)
{
	int count = p->count;
	vmnet_return_t st = vmnet_write(n->ref, p->d, &count);
	EQUAL(st == VMNET_SUCCESS ? p->count : 0, count);
	return st;
}

CASE(write_checks_its_arguments)
{
	struct nic n;
	struct packets p;
	int count = 1;
	nic_open(&n, NULL, describe(VMNET_SHARED_MODE));
	packets_make(&p, 2, 100);
	EQUAL(VMNET_INVALID_ARGUMENT, vmnet_write(NULL, p.d, &count));
	EQUAL(VMNET_INVALID_ARGUMENT, vmnet_write(n.ref, NULL, &(int){1}));
	EQUAL(VMNET_INVALID_ARGUMENT, vmnet_write(n.ref, p.d, NULL));
	EQUAL(VMNET_INVALID_ARGUMENT, vmnet_write(n.ref, p.d, &(int){0}));
	EQUAL(VMNET_INVALID_ARGUMENT, vmnet_write(n.ref, p.d, &(int){-1}));
	p.d[1].vm_pkt_iovcnt = 2;
	EQUAL(VMNET_INVALID_ARGUMENT, write_all(&n, &p));
	p.d[1].vm_pkt_iovcnt = 0;
	EQUAL(VMNET_INVALID_ARGUMENT, write_all(&n, &p));
	p.d[1].vm_pkt_iovcnt = 1;
	p.d[1].vm_flags = 1;
	EQUAL(VMNET_INVALID_ARGUMENT, write_all(&n, &p));
	p.d[1].vm_flags = 0;
	p.v[1].iov_len = 101;
	EQUAL(VMNET_INVALID_ARGUMENT, write_all(&n, &p));
	p.v[1].iov_len = p.d[1].vm_pkt_size = 13;
	EQUAL(VMNET_INVALID_ARGUMENT, write_all(&n, &p));
	p.v[1].iov_len = p.d[1].vm_pkt_size = 14;
	EQUAL(VMNET_SUCCESS, write_all(&n, &p));
	packets_free(&p);
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

CASE(read_checks_its_arguments)
{
	struct nic n;
	struct packets p;
	int count = 1;
	nic_open(&n, NULL, describe(VMNET_SHARED_MODE));
	packets_make(&p, 2, 1514);
	EQUAL(VMNET_INVALID_ARGUMENT, vmnet_read(NULL, p.d, &count));
	EQUAL(VMNET_INVALID_ARGUMENT, vmnet_read(n.ref, NULL, &(int){1}));
	EQUAL(VMNET_INVALID_ARGUMENT, vmnet_read(n.ref, p.d, NULL));
	EQUAL(VMNET_INVALID_ARGUMENT, vmnet_read(n.ref, p.d, &(int){0}));
	p.v[1].iov_len = 1513;
	EQUAL(VMNET_INVALID_ARGUMENT, read_some(&n, &p, &count));
	p.v[1].iov_len = 1514;
	p.d[1].vm_pkt_size = 1513;
	EQUAL(VMNET_INVALID_ARGUMENT, read_some(&n, &p, &count));
	p.d[1].vm_pkt_size = 1514;
	p.d[1].vm_flags = 1;
	EQUAL(VMNET_INVALID_ARGUMENT, read_some(&n, &p, &count));
	p.d[1].vm_flags = 0;
	p.d[1].vm_pkt_iovcnt = 2;
	EQUAL(VMNET_INVALID_ARGUMENT, read_some(&n, &p, &count));
	p.d[1].vm_pkt_iovcnt = 1;
	EQUAL(VMNET_SUCCESS, read_some(&n, &p, &count));
	EQUAL(0, count);
	packets_free(&p);
	packets_make(&p, MAX_PACKETS + 1, 1514);
	EQUAL(VMNET_TOO_MANY_PACKETS, read_some(&n, &p, &count));
	packets_free(&p);
	nic_close(&n);
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

// Large frames, so that the bytes and not the packets bound a read.
CASE(read_returns_at_most_256_kilobytes)
{
	struct nic a, b;
	struct packets p;
	int count;
	xpc_object_t da = describe(VMNET_SHARED_MODE), db = describe(VMNET_SHARED_MODE);
	xpc_dictionary_set_bool(da, vmnet_enable_tso_key, true);
	xpc_dictionary_set_bool(db, vmnet_enable_tso_key, true);
	nic_open(&a, NULL, da);
	nic_open(&b, NULL, db);
	packets_make(&p, 3, 65550);
	EQUAL(VMNET_SUCCESS, write_all(&a, &p));
	EQUAL(VMNET_SUCCESS, write_all(&a, &p));
	packets_free(&p);
	packets_make(&p, 6, 65550);
	EQUAL(VMNET_SUCCESS, read_some(&b, &p, &count));
	EQUAL(3, count);
	packets_free(&p);
	close_two(&a, &b);
}

static void numbered(struct frame *f, int i) { frame_make(f, ALL, 1, (size_t)(14 + i * 501 % 1501)); }

// The reader lags behind by some frames, so that the ring goes around several times without ever being empty; or it keeps
// up, and the ring begins anew all the time.
CASE(frames_keep_order_and_content)
{
	enum { FRAMES = 4000 };
	for (int lag = 0; lag <= 5; lag += 5) {
		struct nic a, b;
		struct frame f;
		two(&a, &b);
		for (int i = 0; i < FRAMES; i++) {
			numbered(&f, i);
			EQUAL(VMNET_SUCCESS, nic_send(&a, &f));
			if (i < lag)
				continue;
			numbered(&f, i - lag);
			nic_expect(&b, &f);
		}
		for (int i = FRAMES - lag; i < FRAMES; i++) {
			numbered(&f, i);
			nic_expect(&b, &f);
		}
		nic_silent(&b);
		close_two(&a, &b);
	}
	EQUAL(2 * FRAMES, gauge(GAUGE_frames_in));
	EQUAL(2 * FRAMES, gauge(GAUGE_frames_out));
	EQUAL(0, gauge(GAUGE_frames_dropped));
}

// Small and the largest frames in turn, read at once and in pairs: none is dropped wherever the ring's end falls.
CASE(large_frames_keep_order)
{
	struct nic a, b;
	struct frame f, g;
	xpc_object_t da = describe(VMNET_SHARED_MODE), db = describe(VMNET_SHARED_MODE);
	xpc_dictionary_set_bool(da, vmnet_enable_tso_key, true);
	xpc_dictionary_set_bool(db, vmnet_enable_tso_key, true);
	nic_open(&a, NULL, da);
	nic_open(&b, NULL, db);
	for (int i = 0; i < 300; i++) {
		frame_make(&f, ALL, 1, i % 3 == 0 ? 60 : (size_t)(65550 - i));
		frame_make(&g, ALL, 1, (size_t)(14 + i * 200));
		EQUAL(VMNET_SUCCESS, nic_send(&a, &f));
		if (i % 2 == 0)
			nic_expect(&b, &f);
		EQUAL(VMNET_SUCCESS, nic_send(&a, &g));
		if (i % 2 != 0)
			nic_expect(&b, &f);
		nic_expect(&b, &g);
	}
	EQUAL(0, gauge(GAUGE_frames_dropped));
	close_two(&a, &b);
}

// A frame that the receiver does not take is the receiver's loss.
CASE(too_large_for_the_receiver)
{
	struct nic a, b;
	struct frame f;
	xpc_object_t d = describe(VMNET_SHARED_MODE);
	xpc_dictionary_set_bool(d, vmnet_enable_tso_key, true);
	nic_open(&a, NULL, d);
	nic_open(&b, NULL, describe(VMNET_SHARED_MODE));
	frame_make(&f, ALL, 1, 1515);
	EQUAL(VMNET_SUCCESS, nic_send(&a, &f));
	nic_silent(&b);
	EQUAL(1, gauge(GAUGE_frames_dropped));
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
	frame_make(&f, 2, 1, 60); // nobody knows 2: to all but the sender
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

// A flood of sources neither fills the table for good nor breaks it.
CASE(many_addresses)
{
	struct nic a, b;
	struct frame f;
	two(&a, &b);
	frame_make(&f, ALL, 1, 60);
	for (int i = 0; i < 5000; i++) {
		f.bytes[8] = (uint8_t)(i >> 8);
		f.bytes[9] = (uint8_t)i;
		EQUAL(VMNET_SUCCESS, nic_send(&a, &f));
	}
	for (int i = 0; i < 5000; i++)
		nic_receive(&b, &f, 0);
	frame_make(&f, 7, 8, 60);
	EQUAL(VMNET_SUCCESS, nic_send(&b, &f));
	nic_expect(&a, &f);
	close_two(&a, &b);
}

CASE(isolation)
{
	struct nic a, b, c;
	struct frame f, got;
	xpc_object_t d = describe(VMNET_SHARED_MODE);
	xpc_dictionary_set_bool(d, vmnet_enable_isolation_key, true);
	nic_open(&a, NULL, d);
	two(&b, &c);
	EQUAL(0, vmnetsim_host_read(0, got.bytes, sizeof got.bytes, 0));
	for (int unicast = 0; unicast < 2; unicast++) {
		frame_make(&f, unicast ? 2 : ALL, 1, 60);
		EQUAL(VMNET_SUCCESS, nic_send(&a, &f));
		nic_silent(&b);
		nic_silent(&c);
		EQUAL(unicast ? 0 : 60, vmnetsim_host_read(0, got.bytes, sizeof got.bytes, 0));
		frame_make(&f, unicast ? 1 : ALL, 2, 60);
		EQUAL(VMNET_SUCCESS, nic_send(&b, &f));
		nic_silent(&a);
		if (!unicast) {
			nic_expect(&c, &f);
			EQUAL(60, vmnetsim_host_read(0, got.bytes, sizeof got.bytes, 0));
		}
		nic_silent(&c);
	}
	frame_make(&f, 1, HOST, 60);
	EQUAL(0, vmnetsim_host_write(0, f.bytes, f.len));
	nic_expect(&a, &f);
	nic_close(&a);
	close_two(&b, &c);
}

CASE(host_port)
{
	struct nic a, b;
	struct frame f, got;
	uint32_t subnet = htonl(0xc0a84000);
	EQUAL(-1, vmnetsim_host_read(0, got.bytes, sizeof got.bytes, 0));
	EQUAL(-1, vmnetsim_host_write(0, got.bytes, 60));
	two(&a, &b);
	frame_make(&f, ALL, 1, 77);
	EQUAL(VMNET_SUCCESS, nic_send(&a, &f));
	nic_expect(&b, &f);
	EQUAL(77, vmnetsim_host_read(subnet, got.bytes, sizeof got.bytes, PATIENCE_MS));
	CHECK(memcmp(got.bytes, f.bytes, 77) == 0);
	EQUAL(0, vmnetsim_host_read(subnet, got.bytes, sizeof got.bytes, 5));
	EQUAL(-1, vmnetsim_host_read(htonl(0xc0a84100), got.bytes, sizeof got.bytes, 5));
	frame_make(&f, 1, HOST, 78); // 1 has been learned
	EQUAL(0, vmnetsim_host_write(subnet, f.bytes, 78));
	nic_expect(&a, &f);
	nic_silent(&b);
	frame_make(&f, HOST, 2, 79); // so has the host
	EQUAL(VMNET_SUCCESS, nic_send(&b, &f));
	nic_silent(&a);
	EQUAL(79, vmnetsim_host_read(0, got.bytes, 10, 0)); // the whole length of a frame that is cut
	EQUAL(-2, vmnetsim_host_write(0, f.bytes, 13));
	struct nic other;
	nic_open(&other, NULL, describe(VMNET_HOST_MODE));
	EQUAL(-1, vmnetsim_host_read(0, got.bytes, sizeof got.bytes, 0)); // which of the two?
	nic_close(&other);
	close_two(&a, &b);
}

static void *sends_later(void *p)
{
	struct frame f;
	frame_make(&f, ALL, 1, 60);
	EQUAL(VMNET_SUCCESS, nic_send(p, &f));
	return NULL;
}

CASE(host_read_waits)
{
	struct nic n;
	struct frame got;
	pthread_t t;
	nic_open(&n, NULL, describe(VMNET_SHARED_MODE));
	EQUAL(0, vmnetsim_host_read(0, got.bytes, sizeof got.bytes, 0));
	CHECK(pthread_create(&t, NULL, sends_later, &n) == 0);
	EQUAL(60, vmnetsim_host_read(0, got.bytes, sizeof got.bytes, PATIENCE_MS));
	pthread_join(t, NULL);
	nic_close(&n);
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
