// SPDX-License-Identifier: Apache-2.0

// Starting and stopping interfaces.
#include "harness.h"

#include <unistd.h>

// Descriptions that the framework refuses.
static void refuse(xpc_object_t desc)
{
	struct nic n;
	EQUAL(VMNET_INVALID_ARGUMENT, nic_try(&n, NULL, desc));
	CHECK(n.ref == NULL);
}

static void refuse_range(const char *start, const char *end, const char *mask)
{
	refuse(describe_range(VMNET_SHARED_MODE, start, end, mask));
}

static xpc_object_t with_string(xpc_object_t d, const char *key, const char *value)
{
	xpc_dictionary_set_string(d, key, value);
	return d;
}

static xpc_object_t with_number(xpc_object_t d, const char *key, uint64_t value)
{
	xpc_dictionary_set_uint64(d, key, value);
	return d;
}

static xpc_object_t with_id(xpc_object_t d, const char *key, uint8_t byte)
{
	const uint8_t id[16] = {byte, 1, 2, 3};
	xpc_dictionary_set_uuid(d, key, id);
	return d;
}

CASE(start_refuses_bad_addresses)
{
	refuse_range("192.168.105.1", "192.168.105.254", NULL);
	refuse_range("192.168.105.1", NULL, "255.255.255.0");
	refuse_range(NULL, "192.168.105.254", "255.255.255.0");
	refuse_range("192.168.105.1.", "192.168.105.254", "255.255.255.0");
	refuse_range("192.168.105.1", "192.168.105.254", "255.0.255.0");
	refuse_range("192.168.105.1", "192.168.106.254", "255.255.255.0");
	refuse_range("192.168.105.100", "192.168.105.99", "255.255.255.0");
	refuse_range("192.168.105.0", "192.168.105.99", "255.255.255.0");
	refuse_range("192.168.105.1", "192.168.105.255", "255.255.255.0");
	refuse_range("8.8.8.1", "8.8.8.254", "255.255.255.0");
	refuse_range("172.32.0.1", "172.32.0.254", "255.255.255.0");
	refuse(describe_range(VMNET_BRIDGED_MODE, "192.168.105.1", "192.168.105.254", "255.255.255.0"));
}

CASE(start_refuses_bad_settings)
{
	refuse(describe(999));
	refuse(with_number(describe(VMNET_SHARED_MODE), vmnet_mtu_key, 100));
	refuse(with_number(describe(VMNET_SHARED_MODE), vmnet_mtu_key, 70000));
	refuse(with_number(with_string(describe(VMNET_BRIDGED_MODE), vmnet_shared_interface_name_key, "en0"), vmnet_mtu_key, 1500));
	refuse(with_string(describe(VMNET_SHARED_MODE), vmnet_nat66_prefix_key, "2001:db8::"));
	refuse(with_string(describe(VMNET_SHARED_MODE), vmnet_nat66_prefix_key, "fd00::1:0:0:0:1"));
	refuse(with_string(describe(VMNET_SHARED_MODE), vmnet_enable_isolation_key, "yes"));
	refuse(with_string(describe(VMNET_SHARED_MODE), vmnet_interface_id_key, "no uuid"));
#ifndef NO_MACOS15
	xpc_object_t virtio = describe(VMNET_SHARED_MODE);
	xpc_dictionary_set_bool(virtio, vmnet_enable_virtio_header_key, true);
	refuse(virtio);
#endif
}

static void param(struct nic *n, const char *key, const char *want)
{
	if (strcmp(nic_param(n, key), want) != 0)
		failed(__FILE__, __LINE__, "%s is %s, want %s", key, nic_param(n, key), want);
}

static void addresses(struct nic *n, const char *start, const char *end, const char *mask)
{
	param(n, vmnet_start_address_key, start);
	param(n, vmnet_end_address_key, end);
	param(n, vmnet_subnet_mask_key, mask);
}

CASE(default_subnets)
{
	struct nic shared, host, third, other;
	nic_open(&third, NULL, describe_range(VMNET_HOST_MODE, "192.168.64.1", "192.168.64.254", "255.255.255.0"));
	nic_open(&shared, NULL, describe(VMNET_SHARED_MODE));
	addresses(&shared, "192.168.65.1", "192.168.65.254", "255.255.255.0"); // 64 is taken
	nic_open(&host, NULL, describe(VMNET_HOST_MODE));
	addresses(&host, "192.168.128.1", "192.168.128.254", "255.255.255.0");
	nic_open(&other, NULL, describe(VMNET_SHARED_MODE)); // joins
	addresses(&other, "192.168.65.1", "192.168.65.254", "255.255.255.0");
	nic_close(&shared);
	nic_close(&host);
	nic_close(&third);
	nic_close(&other);
	nic_open(&shared, NULL, describe(VMNET_SHARED_MODE));
	addresses(&shared, "192.168.64.1", "192.168.64.254", "255.255.255.0");
	nic_close(&shared);
}

CASE(same_settings_share_a_bridge)
{
	struct {
		xpc_object_t a, b;
		bool same;
	} pairs[] = {
		{describe_range(1001, "10.1.0.1", "10.1.0.9", "255.255.255.0"), describe_range(1001, "10.1.0.1", "10.1.0.9", "255.255.255.0"), true},
		{describe_range(1001, "10.1.0.1", "10.1.0.9", "255.255.255.0"), describe_range(1001, "10.2.0.1", "10.2.0.9", "255.255.255.0"), false},
		{describe(1001), describe(1001), true},
		{describe(1000), describe(1001), false},
		{with_id(describe(1000), vmnet_network_identifier_key, 1), with_id(describe(1000), vmnet_network_identifier_key, 1), true},
		{with_id(describe(1000), vmnet_network_identifier_key, 1), with_id(describe(1000), vmnet_network_identifier_key, 2), false},
		{with_id(describe(1000), vmnet_network_identifier_key, 1), describe(1000), false},
		{with_id(describe(1001), vmnet_network_identifier_key, 1), describe(1001), true}, // for host mode only
		{with_string(describe(1002), vmnet_shared_interface_name_key, "en0"), with_string(describe(1002), vmnet_shared_interface_name_key, "en0"), true},
		{with_string(describe(1002), vmnet_shared_interface_name_key, "en0"), with_string(describe(1002), vmnet_shared_interface_name_key, "en1"), false},
	};
	struct frame f;
	frame_make(&f, ALL, 1, 60);
	for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
		struct nic a, b;
		nic_open(&a, NULL, pairs[i].a);
		nic_open(&b, NULL, pairs[i].b);
		EQUAL(VMNET_SUCCESS, nic_send(&a, &f));
		if (pairs[i].same)
			nic_expect(&b, &f);
		nic_silent(&b);
		close_two(&a, &b);
	}
}

// The four calls that need an interface, and what they return.
static void all_return(struct nic *n, vmnet_return_t want)
{
	struct packets p;
	packets_make(&p, 1, 1514);
	int count = 1;
	EQUAL(want, vmnet_write(n->ref, p.d, &count));
	EQUAL(0, count);
	count = 1;
	EQUAL(want, vmnet_read(n->ref, p.d, &count));
	EQUAL(0, count);
	EQUAL(want, vmnet_interface_set_event_callback(n->ref, 1, n->queue, &n->events.b));
	EQUAL(want, vmnet_stop_interface(n->ref, n->queue, &n->stopped.b));
	packets_free(&p);
}

static void slow_start(struct nic *n)
{
	SET(start_delay_ms, 3600000);
	n->queue = dispatch_queue_create("q", NULL);
	waiter_start(&n->started);
	waiter_event(&n->events);
	waiter_status(&n->stopped);
	xpc_object_t d = describe(VMNET_SHARED_MODE);
	n->ref = vmnet_start_interface(d, n->queue, &n->started.b);
	xpc_release(d);
}

CASE(before_the_start_handler)
{
	struct nic n;
	slow_start(&n);
	all_return(&n, VMNET_SETUP_INCOMPLETE);
	EQUAL(0, n.started.calls);
	SET(start_delay_ms, 0); // ends the wait
	WAIT(&n.started, 1);
	EQUAL(VMNET_SUCCESS, n.started.status);
	nic_close(&n);
}

CASE(after_a_failed_start)
{
	struct nic n;
	flip(FAULT_handler_vmnet_start_interface, VMNET_MEM_FAILURE, 1, 0);
	slow_start(&n);
	SET(start_delay_ms, 0);
	WAIT(&n.started, 1);
	EQUAL(VMNET_MEM_FAILURE, n.started.status);
	all_return(&n, VMNET_SETUP_INCOMPLETE);
	nic_forget(&n);
}

CASE(after_stop)
{
	struct nic n;
	nic_open(&n, NULL, describe(VMNET_SHARED_MODE));
	EQUAL(VMNET_SUCCESS, vmnet_stop_interface(n.ref, n.queue, &n.stopped.b));
	all_return(&n, VMNET_INVALID_ACCESS); // already before the handler has run
	WAIT(&n.stopped, 1);
	all_return(&n, VMNET_INVALID_ACCESS);
	nic_forget(&n);
}
