// SPDX-License-Identifier: Apache-2.0

// What vmnet_read, vmnet_write and an event cost a C program: the measure for the Go program of the same name, which makes
// the same calls in the same order. Usage: vmnetcalls LIBRARY MILLISECONDS [event]. For each case it prints one JSON object:
// the CPU time of the whole process over so many calls and packets.
#define _GNU_SOURCE
#include "vmnetcalls.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

// CYCLE is how many frames are written before they are read: less than an interface's queue holds.
enum { CYCLE = 512 };

// PATIENCE_MS is how long the first event may take, on a machine that does other things.
enum { PATIENCE_MS = 10000 };

static struct port ports[2];
static int milliseconds;

static uint64_t clock_ns(clockid_t id)
{
	struct timespec t;
	clock_gettime(id, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static uint64_t cpu_ns(void) { return clock_ns(CLOCK_PROCESS_CPUTIME_ID); }

static void print(const char *op, int n, size_t len, uint64_t calls, uint64_t packets, uint64_t ns)
{
	printf("{\"op\":\"%s\",\"packets_per_call\":%d,\"frame_bytes\":%zu,\"calls\":%lu,\"packets\":%lu,\"cpu_ns\":%lu}\n", op, n,
	       len, calls, packets, ns);
}

// flow writes batches on one interface and reads them on the other; with batch, what was read is put into wire form as well.
static void flow(int n, size_t len, bool batch)
{
	uint8_t *frames = malloc((size_t)n * (PREFIX + len));
	fill_frames(frames, n, len, 1, 2);
	uint64_t calls = 0, writing = 0, reading = 0;
	uint64_t end = clock_ns(CLOCK_MONOTONIC) + (uint64_t)milliseconds * 1000000u;
	const int batches = CYCLE / n;
	for (uint64_t t0 = cpu_ns(), t1, t2; clock_ns(CLOCK_MONOTONIC) < end; t0 = cpu_ns()) {
		for (int k = 0; k < batches; k++)
			write_packets(&ports[0], frames, n, len);
		t1 = cpu_ns();
		for (int k = 0; k < batches; k++) {
			if (read_packets(&ports[1], n) != n)
				fail("a batch did not arrive");
			if (batch)
				make_batch(&ports[1], n);
			ready_slots(&ports[1], n);
		}
		t2 = cpu_ns();
		writing += t1 - t0;
		reading += t2 - t1;
		calls += (uint64_t)batches;
	}
	if (!batch)
		print("write", n, len, calls, calls * (uint64_t)n, writing);
	print(batch ? "read-batch" : "read", n, len, calls, calls * (uint64_t)n, reading);
	free(frames);
}

// empty reads where there is nothing.
static void empty(void)
{
	uint64_t calls = 0, end = clock_ns(CLOCK_MONOTONIC) + (uint64_t)milliseconds * 1000000u, begin = cpu_ns();
	for (; clock_ns(CLOCK_MONOTONIC) < end; calls += CYCLE)
		for (int k = 0; k < CYCLE; k++)
			if (read_packets(&ports[1], ports[1].slots) != 0)
				fail("a packet that nobody sent");
	print("empty", ports[1].slots, 0, calls, 0, cpu_ns() - begin);
}

static atomic_bool ended;
static _Atomic uint64_t events;

// answer is one side of the ping-pong: at each event it reads until nothing is left, and writes one frame for each.
static void *answer(void *arg)
{
	struct port *p = arg;
	int self = (int)(p - ports);
	uint8_t frame[PREFIX + SHORT_LEN];
	fill_frames(frame, 1, SHORT_LEN, 1 + self, 2 - self);
	for (;;) {
		sem_wait(&p->event);
		if (atomic_load(&ended))
			return NULL;
		atomic_fetch_add(&events, 1);
		for (int n; (n = read_packets(p, p->slots)) > 0;) {
			ready_slots(p, n);
			while (n-- > 0)
				write_packets(p, frame, 1, SHORT_LEN);
		}
	}
}

// ping_pong keeps one small frame under way between the interfaces.
static void ping_pong(void)
{
	pthread_t threads[2];
	uint8_t frame[PREFIX + SHORT_LEN];
	fill_frames(frame, 1, SHORT_LEN, 1, 2);
	listen_port(&ports[0]);
	listen_port(&ports[1]);
	write_packets(&ports[0], frame, 1, SHORT_LEN);
	for (int i = 0; i < 2; i++)
		pthread_create(&threads[i], NULL, answer, &ports[i]);
	struct timespec pause = {milliseconds / 1000, milliseconds % 1000 * 1000000L};
	uint64_t count = atomic_load(&events), begin = cpu_ns();
	for (int waited = 0; waited == 0 || (atomic_load(&events) == count && waited < PATIENCE_MS); waited += milliseconds)
		nanosleep(&pause, NULL); // on a busy machine the first event may take a while
	uint64_t ns = cpu_ns() - begin;
	count = atomic_load(&events) - count;
	print("event", 1, SHORT_LEN, count, count, ns);
	atomic_store(&ended, true);
	for (int i = 0; i < 2; i++) {
		sem_post(&ports[i].event);
		pthread_join(threads[i], NULL);
	}
}

int main(int argc, char **argv)
{
	if (argc < 3 || (milliseconds = atoi(argv[2])) < 1)
		fail("usage: vmnetcalls LIBRARY MILLISECONDS [event]");
	open_library(argv[1]);
	open_port(&ports[0]);
	open_port(&ports[1]);
	const int sizes[] = {1, 32, ports[1].slots};
	empty();
	for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
		flow(sizes[k], ports[1].max_packet, false);
		flow(sizes[k], SHORT_LEN, false);
		flow(sizes[k], SHORT_LEN, true);
	}
	if (argc > 3 && strcmp(argv[3], "event") == 0)
		ping_pong();
	return 0;
}
