// SPDX-License-Identifier: Apache-2.0

// Events, and their order with handlers.
#include "harness.h"

#include <unistd.h>

// Holds the queue up, so that what is behind it on the queue waits.
struct gate {
	_Atomic bool entered, open;
};

static void pass(void *p)
{
	struct gate *g = p;
	atomic_store(&g->entered, true);
	while (!atomic_load(&g->open))
		usleep(100);
}

static void shut(struct nic *n, struct gate *g)
{
	*g = (struct gate){0};
	queue_work(n->queue, g, pass);
	while (!atomic_load(&g->entered))
		usleep(100);
}

CASE(events_coalesce)
{
	struct nic a, b;
	struct gate g;
	two(&a, &b);
	nic_events(&b);
	shut(&b, &g);
	nic_broadcast(&a, 10);
	atomic_store(&g.open, true);
	WAIT(&b.events, 1);
	EQUAL(VMNET_INTERFACE_PACKETS_AVAILABLE, b.events.status);
	EQUAL(1, b.events.estimate); // from when the event was due, and nine came since
	NO_MORE(&b.events, 2);       // although nothing was read
	nic_broadcast(&a, 1);
	WAIT(&b.events, 2);
	EQUAL(11, b.events.estimate);
	close_two(&a, &b);
}

// Frames from before the callback was set do not bring an event.
CASE(no_event_for_old_frames)
{
	struct nic a, b;
	two(&a, &b);
	nic_broadcast(&a, 1);
	nic_events(&b);
	NO_MORE(&b.events, 1);
	nic_broadcast(&a, 1);
	WAIT(&b.events, 1);
	close_two(&a, &b);
}

static void sends_one(struct waiter *w)
{
	if (w->calls == 0)
		nic_broadcast(w->context, 1);
}

// A frame that comes while the callback runs brings another event.
CASE(event_during_callback)
{
	struct nic a, b;
	two(&a, &b);
	b.events.hook = sends_one;
	b.events.context = &a;
	nic_events(&b);
	nic_broadcast(&a, 1);
	WAIT(&b.events, 2);
	NO_MORE(&b.events, 3);
	close_two(&a, &b);
}

// Taking the callback off does not call back an event that is under way; the stop handler comes behind it.
CASE(late_event_before_stop_handler)
{
	struct nic a, b;
	struct gate g;
	two(&a, &b);
	nic_events(&b);
	shut(&b, &g);
	nic_broadcast(&a, 1);
	EQUAL(VMNET_SUCCESS, vmnet_interface_set_event_callback(b.ref, 0, NULL, NULL));
	EQUAL(VMNET_SUCCESS, vmnet_stop_interface(b.ref, b.queue, &b.stopped.b));
	nic_broadcast(&a, 1);
	atomic_store(&g.open, true);
	WAIT(&b.stopped, 1);
	EQUAL(1, b.events.calls);
	nic_forget(&b);
	nic_close(&a);
}

CASE(no_event_after_taking_off)
{
	struct nic a, b;
	two(&a, &b);
	nic_events(&b);
	EQUAL(VMNET_SUCCESS, vmnet_interface_set_event_callback(b.ref, 0, NULL, NULL));
	UNTIL(live(LIVE_blocks) == 0); // the start handler's goes as well
	nic_broadcast(&a, 1);
	NO_MORE(&b.events, 1);
	close_two(&a, &b);
}
