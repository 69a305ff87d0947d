// SPDX-License-Identifier: Apache-2.0

// What each switch does.
#include "harness.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

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

static vmnet_return_t send_one(struct nic *n)
{
	struct frame f;
	frame_make(&f, ALL, 1, 60);
	return nic_send(n, &f);
}

static int64_t clock_ms(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

// The control block may change while nothing lives.
CASE(open_again)
{
	struct nic n;
	char dir[] = "/tmp/vmnetsim-XXXXXX", file[64];
	CHECK(mkdtemp(dir) != NULL);
	nic_open(&n, NULL, describe(VMNET_SHARED_MODE));
	EQUAL(EBUSY, vmnetsim_open(dir));
	nic_close(&n);
	settle();
	EQUAL(0, vmnetsim_open(dir));
	EQUAL(0, vmnetsim_open(dir));
	EQUAL(ENOENT, vmnetsim_open("/none"));
	nic_open(&n, NULL, describe(VMNET_SHARED_MODE));
	EQUAL(1, gauge(GAUGE_interfaces_started));
	nic_close(&n);
	settle();
	EQUAL(0, vmnetsim_open(NULL));
	snprintf(file, sizeof file, "%s/control", dir);
	EQUAL(0, unlink(file));
	EQUAL(0, rmdir(dir));
}

CASE(faults_count_and_skip)
{
	struct nic n;
	nic_open(&n, NULL, describe(VMNET_SHARED_MODE));
	flip("result.vmnet_write", VMNET_FAILURE, 2, 1);
	EQUAL(VMNET_SUCCESS, send_one(&n));
	EQUAL(VMNET_FAILURE, send_one(&n));
	EQUAL(VMNET_FAILURE, send_one(&n));
	EQUAL(VMNET_SUCCESS, send_one(&n));
	SET("result.vmnet_write", VMNET_MEM_FAILURE);
	for (int i = 0; i < 5; i++)
		EQUAL(VMNET_MEM_FAILURE, send_one(&n));
	SET("result.vmnet_write", 0);
	EQUAL(VMNET_SUCCESS, send_one(&n));
	nic_close(&n);
}

CASE(results)
{
	struct nic n;
	struct packets p;
	int count = 1;
	nic_open(&n, NULL, describe(VMNET_SHARED_MODE));
	packets_make(&p, 1, 1514);
	flip("result.vmnet_read", VMNET_NOT_AUTHORIZED, 1, 0);
	EQUAL(VMNET_NOT_AUTHORIZED, vmnet_read(n.ref, p.d, &count));
	EQUAL(0, count);
	flip("result.vmnet_interface_set_event_callback", VMNET_SETUP_INCOMPLETE, 1, 0);
	EQUAL(VMNET_SETUP_INCOMPLETE, vmnet_interface_set_event_callback(n.ref, 1, n.queue, &n.events.b));
	flip("result.vmnet_stop_interface", VMNET_FAILURE, 1, 0);
	EQUAL(VMNET_FAILURE, vmnet_stop_interface(n.ref, n.queue, &n.stopped.b));
	NO_MORE(&n.stopped, 1);
	EQUAL(VMNET_SUCCESS, send_one(&n)); // as if it had not been called
	packets_free(&p);
	nic_close(&n);
}

CASE(handler_statuses)
{
	struct nic n;
	flip("handler.vmnet_start_interface", VMNET_NOT_AUTHORIZED, 1, 0);
	EQUAL(VMNET_NOT_AUTHORIZED, nic_try(&n, NULL, describe(VMNET_SHARED_MODE)));
	CHECK(n.ref != NULL);
	EQUAL(0, live(LIVE_interfaces));
	nic_open(&n, NULL, describe(VMNET_SHARED_MODE));
	flip("handler.vmnet_stop_interface", VMNET_FAILURE, 1, 0);
	EQUAL(VMNET_SUCCESS, vmnet_stop_interface(n.ref, n.queue, &n.stopped.b));
	WAIT(&n.stopped, 1);
	EQUAL(VMNET_FAILURE, n.stopped.status);
	EQUAL(0, live(LIVE_interfaces)); // stopped all the same
	nic_forget(&n);
}

CASE(null_references)
{
	struct waiter w;
	waiter_start(&w);
	dispatch_queue_t q = dispatch_queue_create("q", NULL);
	xpc_object_t d = describe(VMNET_SHARED_MODE);
	flip("null.vmnet_start_interface", 1, 1, 0);
	CHECK(vmnet_start_interface(d, q, &w.b) == NULL);
	WAIT(&w, 1);
	EQUAL(VMNET_FAILURE, w.status);
	flip("null.vmnet_start_interface", 1, 1, 0);
	flip("handler.vmnet_start_interface", VMNET_MEM_FAILURE, 1, 0);
	CHECK(vmnet_start_interface(d, q, &w.b) == NULL);
	WAIT(&w, 2);
	EQUAL(VMNET_MEM_FAILURE, w.status);
	flip("null.vmnet_start_interface", 2, 1, 0);
	CHECK(vmnet_start_interface(d, q, &w.b) == NULL);
	NO_MORE(&w, 3);
	xpc_release(d);
	queue_close(q);
	waiter_free(&w);
}

CASE(silent_handlers)
{
	struct waiter w;
	struct nic n;
	waiter_start(&w);
	dispatch_queue_t q = dispatch_queue_create("q", NULL);
	xpc_object_t d = describe(VMNET_SHARED_MODE);
	flip("silent.vmnet_start_interface", 1, 1, 0);
	interface_ref i = vmnet_start_interface(d, q, &w.b);
	CHECK(i != NULL);
	NO_MORE(&w, 1);
	EQUAL(VMNET_SETUP_INCOMPLETE, vmnet_stop_interface(i, q, &w.b));
	xpc_release(d);
	queue_close(q);
	waiter_free(&w);
	nic_open(&n, NULL, describe(VMNET_SHARED_MODE));
	flip("silent.vmnet_stop_interface", 1, 1, 0);
	EQUAL(VMNET_SUCCESS, vmnet_stop_interface(n.ref, n.queue, &n.stopped.b));
	NO_MORE(&n.stopped, 1);
	EQUAL(0, live(LIVE_interfaces));
	nic_forget(&n);
}

CASE(an_interface_dies)
{
	struct nic a, b;
	struct frame f;
	two(&a, &b);
	nic_events(&b);
	SET("die_status", VMNET_SETUP_INCOMPLETE);
	SET("die_ordinal", 2);
	EQUAL(VMNET_SETUP_INCOMPLETE, send_one(&b));
	SET("die_ordinal", 0); // what is dead stays so
	EQUAL(VMNET_SETUP_INCOMPLETE, send_one(&b));
	struct packets p;
	packets_make(&p, 1, 1514);
	EQUAL(VMNET_SETUP_INCOMPLETE, vmnet_read(b.ref, p.d, &p.count));
	packets_free(&p);
	EQUAL(VMNET_SETUP_INCOMPLETE, vmnet_interface_set_event_callback(b.ref, 0, NULL, NULL));
	EQUAL(VMNET_SUCCESS, send_one(&a)); // the others live
	NO_MORE(&b.events, 1);
	EQUAL(VMNET_SETUP_INCOMPLETE, vmnet_stop_interface(b.ref, b.queue, &b.stopped.b));
	NO_MORE(&b.stopped, 1);
	EQUAL(1, live(LIVE_interfaces));
	nic_forget(&b);
	nic_open(&b, NULL, describe(VMNET_SHARED_MODE)); // the third
	frame_make(&f, ALL, 2, 60);
	EQUAL(VMNET_SUCCESS, nic_send(&b, &f));
	nic_expect(&a, &f);
	SET("die_ordinal", -1);
	SET("die_status", VMNET_INVALID_ACCESS);
	EQUAL(VMNET_INVALID_ACCESS, send_one(&a));
	EQUAL(VMNET_INVALID_ACCESS, send_one(&b));
	EQUAL(VMNET_INVALID_ACCESS, vmnet_stop_interface(a.ref, a.queue, &a.stopped.b));
	EQUAL(VMNET_INVALID_ACCESS, vmnet_stop_interface(b.ref, b.queue, &b.stopped.b));
	nic_forget(&a);
	nic_forget(&b);
}

CASE(slow_start_and_stop)
{
	struct nic n;
	int64_t begin = clock_ms();
	SET("start_delay_ms", 40);
	SET("stop_delay_ms", 50);
	nic_open(&n, NULL, describe(VMNET_SHARED_MODE));
	CHECK(clock_ms() - begin >= 40);
	begin = clock_ms();
	nic_close(&n);
	CHECK(clock_ms() - begin >= 50);
}

CASE(slow_events)
{
	struct nic a, b;
	two(&a, &b);
	nic_events(&b);
	SET("event_delay_us", 30000);
	int64_t begin = clock_ms();
	EQUAL(VMNET_SUCCESS, send_one(&a));
	WAIT(&b.events, 1);
	CHECK(clock_ms() - begin >= 30);
	SET("event_delay_us", 3600000000);
	EQUAL(VMNET_SUCCESS, send_one(&a));
	SET("event_delay_us", 0); // also for one under way
	WAIT(&b.events, 2);
	close_two(&a, &b);
}

CASE(lost_events)
{
	struct nic a, b;
	two(&a, &b);
	nic_events(&b);
	SET("event_lose_every", 2);
	for (int i = 0; i < 20; i++) {
		int events = b.events.calls;
		int64_t lost = gauge(GAUGE_events_lost);
		EQUAL(VMNET_SUCCESS, send_one(&a));
		if (gauge(GAUGE_events_lost) == lost)
			WAIT(&b.events, events + 1);
	}
	EQUAL(10, gauge(GAUGE_events_lost));
	EQUAL(10, b.events.calls);
	close_two(&a, &b);
}

CASE(short_reads)
{
	struct nic a, b;
	struct packets p;
	two(&a, &b);
	for (int i = 0; i < 5; i++)
		EQUAL(VMNET_SUCCESS, send_one(&a));
	SET("read_max", 2);
	packets_make(&p, 10, 1514);
	for (int want = 2; want >= 1; want--) {
		for (int i = 0; i < 10; i++)
			p.d[i].vm_pkt_size = p.v[i].iov_len = 1514;
		int count = 10;
		EQUAL(VMNET_SUCCESS, vmnet_read(b.ref, p.d, &count));
		EQUAL(2, count);
	}
	packets_free(&p);
	close_two(&a, &b);
}

CASE(exhausted_writes)
{
	struct nic a, b;
	int bad = 0;
	struct frame f;
	two(&a, &b);
	SET("write_exhaust_every", 3);
	for (int i = 0; i < 9; i++)
		bad += send_one(&a) == VMNET_BUFFER_EXHAUSTED;
	EQUAL(3, bad);
	for (int i = 0; i < 6; i++)
		EQUAL(1, nic_receive(&b, &f, 0));
	nic_silent(&b); // nothing of the others
	close_two(&a, &b);
}

CASE(subnet_stays_busy)
{
	struct nic n;
	SET("busy_ms", 100);
	nic_open(&n, NULL, describe_range(VMNET_SHARED_MODE, "192.168.105.1", "192.168.105.254", "255.255.255.0"));
	int64_t begin = clock_ms(); // before it is free
	nic_close(&n);
	vmnet_return_t st;
	while ((st = nic_try(&n, NULL,
			describe_range(VMNET_SHARED_MODE, "192.168.105.1", "192.168.105.254", "255.255.255.0"))) != VMNET_SUCCESS) {
		EQUAL(VMNET_SHARING_SERVICE_BUSY, st);
		usleep(5000);
	}
	CHECK(clock_ms() - begin >= 90);
	CHECK(clock_ms() - begin < PATIENCE_MS);
	nic_close(&n);
	SET("busy_ms", 0);
}

CASE(another_subnet)
{
	struct nic a, b;
	SET("other_subnet", 0xc0a84d00);
	nic_open(&a, NULL, describe_range(VMNET_SHARED_MODE, "192.168.105.1", "192.168.105.254", "255.255.255.0"));
	CHECK(strcmp(nic_param(&a, vmnet_start_address_key), "192.168.77.1") == 0);
	CHECK(strcmp(nic_param(&a, vmnet_end_address_key), "192.168.77.254") == 0);
	nic_open(&b, NULL, describe_range(VMNET_SHARED_MODE, "192.168.105.1", "192.168.105.254", "255.255.255.0"));
	struct frame f;
	frame_make(&f, ALL, 1, 60);
	EQUAL(VMNET_SUCCESS, nic_send(&a, &f));
	nic_expect(&b, &f); // they asked for the same
	close_two(&a, &b);
}

CASE(no_unicast_between_interfaces)
{
	struct nic a, b;
	struct frame f, got;
	two(&a, &b);
	EQUAL(0, vmnetsim_host_read(0, got.bytes, sizeof got.bytes, 0));
	SET("no_unicast", 1);
	frame_make(&f, ALL, 1, 60);
	EQUAL(VMNET_SUCCESS, nic_send(&a, &f));
	nic_expect(&b, &f);
	EQUAL(60, vmnetsim_host_read(0, got.bytes, sizeof got.bytes, 0));
	frame_make(&f, 2, 1, 60);
	EQUAL(VMNET_SUCCESS, nic_send(&a, &f)); // unknown
	nic_silent(&b);
	EQUAL(60, vmnetsim_host_read(0, got.bytes, sizeof got.bytes, 0)); // the host may have it
	frame_make(&f, 1, 2, 60);
	EQUAL(VMNET_SUCCESS, nic_send(&b, &f)); // known
	nic_silent(&a);
	frame_make(&f, 1, HOST, 60);
	EQUAL(0, vmnetsim_host_write(0, f.bytes, 60));
	nic_expect(&a, &f);
	close_two(&a, &b);
}

CASE(fewer_interfaces)
{
	struct nic a, b, c;
	SET("interfaces_max", 2);
	two(&a, &b);
	EQUAL(VMNET_FAILURE, nic_try(&c, NULL, describe(VMNET_SHARED_MODE)));
	SET("interfaces_max_status", VMNET_SHARING_SERVICE_BUSY);
	EQUAL(VMNET_SHARING_SERVICE_BUSY, nic_try(&c, NULL, describe(VMNET_SHARED_MODE)));
	close_two(&a, &b);
}

#ifndef NO_MACOS26

static vmnet_network_ref network(void)
{
	vmnet_return_t st;
	vmnet_network_configuration_ref c = vmnet_network_configuration_create(VMNET_SHARED_MODE, &st);
	vmnet_network_ref n = vmnet_network_create(c, &st);
	CFRelease(c);
	return n;
}

CASE(network_starts)
{
	struct nic a;
	vmnet_network_ref n = network();
	flip("handler.vmnet_interface_start_with_network", VMNET_MEM_FAILURE, 1, 0);
	EQUAL(VMNET_MEM_FAILURE, nic_try(&a, n, describe(0)));
	flip("null.vmnet_interface_start_with_network", 1, 1, 0);
	EQUAL(VMNET_FAILURE, nic_try(&a, n, describe(0)));
	CHECK(a.ref == NULL);
	struct waiter w;
	waiter_start(&w);
	dispatch_queue_t q = dispatch_queue_create("q", NULL);
	xpc_object_t d = describe(0);
	flip("silent.vmnet_interface_start_with_network", 1, 1, 0);
	CHECK(vmnet_interface_start_with_network(n, d, q, &w.b) != NULL);
	flip("null.vmnet_interface_start_with_network", 2, 1, 0);
	CHECK(vmnet_interface_start_with_network(n, d, q, &w.b) == NULL);
	NO_MORE(&w, 1);
	xpc_release(d);
	queue_close(q);
	waiter_free(&w);
	CFRelease(n);
}

CASE(network_results)
{
	vmnet_return_t st = 0;
	struct in_addr a = {htonl(0xc0a86900)}, m = {htonl(0xffffff00)};
	struct in6_addr p = {{{0xfd}}};
	const uint8_t mac[6] = {2};
#define FAILS(function, ...) \
	do { \
		flip("result.vmnet_network_configuration_" #function, VMNET_NOT_AUTHORIZED, 1, 0); \
		EQUAL(VMNET_NOT_AUTHORIZED, vmnet_network_configuration_##function(__VA_ARGS__)); \
		EQUAL(VMNET_SUCCESS, vmnet_network_configuration_##function(__VA_ARGS__)); \
	} while (0)
	flip("result.vmnet_network_configuration_create", VMNET_MEM_FAILURE, 1, 0);
	CHECK(vmnet_network_configuration_create(VMNET_SHARED_MODE, &st) == NULL);
	EQUAL(VMNET_MEM_FAILURE, st);
	vmnet_network_configuration_ref c = vmnet_network_configuration_create(VMNET_SHARED_MODE, &st);
	FAILS(set_external_interface, c, "en0");
	FAILS(set_ipv4_subnet, c, &a, &m);
	FAILS(set_ipv6_prefix, c, &p, 64);
	FAILS(set_mtu, c, 1500);
	a.s_addr = htonl(0xc0a86907);
	FAILS(add_dhcp_reservation, c, mac, &a);
	FAILS(add_port_forwarding_rule, c, 6, DARWIN_AF_INET, 22, 2222, &a);
	flip("result.vmnet_network_create", VMNET_FAILURE, 1, 0);
	CHECK(vmnet_network_create(c, &st) == NULL);
	EQUAL(VMNET_FAILURE, st);
	vmnet_network_ref n = vmnet_network_create(c, &st);
	EQUAL(VMNET_SUCCESS, st);
	CFRelease(c);
	CFRelease(n);
}

#endif
