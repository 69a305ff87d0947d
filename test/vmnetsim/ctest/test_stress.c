// SPDX-License-Identifier: Apache-2.0

// Everything at once, for the sanitizers.
#include "harness.h"

#include <stdlib.h>
#include <unistd.h>

enum { NICS = 4, WRITES = 1500, CYCLES = 40 };

struct traffic {
	struct nic *nic;
	_Atomic bool *stop;
};

static void *writes(void *p)
{
	struct traffic *t = p;
	struct packets out;
	packets_make(&out, 8, 200);
	for (int i = 0; i < WRITES; i++) {
		int count = out.count;
		EQUAL(VMNET_SUCCESS, vmnet_write(t->nic->ref, out.d, &count));
	}
	packets_free(&out);
	return NULL;
}

static void *reads(void *p)
{
	struct traffic *t = p;
	struct frame *f = malloc(sizeof *f);
	while (!atomic_load(t->stop))
		nic_receive(t->nic, f);
	free(f);
	return NULL;
}

static void *starts_and_stops(void *p)
{
	(void)p;
	for (int i = 0; i < CYCLES; i++) {
		struct nic n;
		nic_open(&n, NULL, describe(VMNET_SHARED_MODE));
		nic_events(&n);
		nic_close(&n);
	}
	return NULL;
}

CASE(stress)
{
	struct nic n[NICS];
	struct traffic t[NICS];
	pthread_t writer[NICS], reader[NICS], cycler[2];
	_Atomic bool stop = false;
	for (int i = 0; i < NICS; i++) {
		nic_open(&n[i], NULL, describe(VMNET_SHARED_MODE));
		nic_events(&n[i]);
		t[i] = (struct traffic){&n[i], &stop};
	}
	for (int i = 0; i < NICS; i++) {
		CHECK(pthread_create(&writer[i], NULL, writes, &t[i]) == 0);
		CHECK(pthread_create(&reader[i], NULL, reads, &t[i]) == 0);
	}
	for (int i = 0; i < 2; i++)
		CHECK(pthread_create(&cycler[i], NULL, starts_and_stops, NULL) == 0);
	for (int i = 0; i < NICS; i++)
		pthread_join(writer[i], NULL);
	for (int i = 0; i < 2; i++)
		pthread_join(cycler[i], NULL);
	atomic_store(&stop, true);
	for (int i = 0; i < NICS; i++)
		pthread_join(reader[i], NULL);
	for (int i = 0; i < NICS; i++)
		nic_close(&n[i]);
	EQUAL((int64_t)NICS * WRITES * 8, gauge(GAUGE_frames_in));
}

static void *writes_until_refused(void *p)
{
	struct traffic *t = p;
	struct packets out;
	vmnet_return_t st;
	packets_make(&out, 8, 200);
	do {
		int count = out.count;
		st = vmnet_write(t->nic->ref, out.d, &count);
	} while (st == VMNET_SUCCESS);
	EQUAL(VMNET_INVALID_ACCESS, st);
	packets_free(&out);
	return NULL;
}

// A caller that still writes while the interface is stopped is refused and does no harm.
CASE(stop_under_way)
{
	for (int i = 0; i < 20; i++) {
		struct nic n;
		pthread_t w;
		struct traffic t = {&n, NULL};
		nic_open(&n, NULL, describe(VMNET_SHARED_MODE));
		CHECK(pthread_create(&w, NULL, writes_until_refused, &t) == 0);
		usleep(500);
		EQUAL(VMNET_SUCCESS, vmnet_stop_interface(n.ref, n.queue, &n.stopped.b));
		pthread_join(w, NULL);
		WAIT(&n.stopped, 1);
		nic_forget(&n);
	}
}
