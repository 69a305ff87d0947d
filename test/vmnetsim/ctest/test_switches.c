// SPDX-License-Identifier: Apache-2.0

// What each switch does.
#include "harness.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

static vmnet_return_t send_one(struct nic *n)
{
	struct frame f;
	frame_make(&f, ALL, 1, 60);
	return nic_send(n, &f);
}

CASE(faults_count_and_skip)
{
	struct nic n;
	nic_open(&n, NULL, describe(VMNET_SHARED_MODE));
	flip(FAULT_result_vmnet_write, VMNET_FAILURE, 2, 1);
	EQUAL(VMNET_SUCCESS, send_one(&n));
	EQUAL(VMNET_FAILURE, send_one(&n));
	EQUAL(VMNET_FAILURE, send_one(&n));
	EQUAL(VMNET_SUCCESS, send_one(&n));
	flip(FAULT_result_vmnet_write, VMNET_MEM_FAILURE, INT64_MAX, 0);
	for (int i = 0; i < 5; i++)
		EQUAL(VMNET_MEM_FAILURE, send_one(&n));
	flip(FAULT_result_vmnet_write, 0, 0, 0);
	EQUAL(VMNET_SUCCESS, send_one(&n));
	nic_close(&n);
}

CASE(an_interface_dies)
{
	struct nic a, b;
	struct packets p;
	two(&a, &b);
	nic_events(&b);
	SET(die_status, VMNET_SETUP_INCOMPLETE);
	SET(die_ordinal, 2);
	EQUAL(VMNET_SETUP_INCOMPLETE, send_one(&b));
	SET(die_ordinal, 0); // what is dead stays so
	packets_make(&p, 1, 1514);
	EQUAL(VMNET_SETUP_INCOMPLETE, vmnet_read(b.ref, p.d, &p.count));
	packets_free(&p);
	EQUAL(VMNET_SETUP_INCOMPLETE, vmnet_interface_set_event_callback(b.ref, 0, NULL, NULL));
	EQUAL(VMNET_SUCCESS, send_one(&a)); // the other lives
	NO_MORE(&b.events, 1);
	EQUAL(VMNET_SETUP_INCOMPLETE, vmnet_stop_interface(b.ref, b.queue, &b.stopped.b));
	NO_MORE(&b.stopped, 1);
	EQUAL(1, live(LIVE_interfaces));
	nic_forget(&b);
	SET(die_ordinal, -1);
	EQUAL(VMNET_SETUP_INCOMPLETE, vmnet_stop_interface(a.ref, a.queue, &a.stopped.b));
	nic_forget(&a);
}

CASE(no_unicast_between_interfaces)
{
	struct nic a, b;
	struct frame f;
	two(&a, &b);
	SET(no_unicast, 1);
	nic_broadcast(&a, 1);
	EQUAL(1, nic_receive(&b, &f));
	frame_make(&f, 2, 1, 60);
	EQUAL(VMNET_SUCCESS, nic_send(&a, &f)); // unknown
	nic_silent(&b);
	EQUAL(2, gauge(GAUGE_frames_to_host)); // the host may have it
	frame_make(&f, 1, 2, 60);
	EQUAL(VMNET_SUCCESS, nic_send(&b, &f)); // known
	nic_silent(&a);
	close_two(&a, &b);
}
