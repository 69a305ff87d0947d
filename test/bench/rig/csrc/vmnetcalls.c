// SPDX-License-Identifier: Apache-2.0

// What vmnet_read and vmnet_write cost a C program: the measure for the Go program of the same name, which makes the same
// calls in the same order. Usage: vmnetcalls LIBRARY MILLISECONDS. For each case it prints one JSON object: the CPU time of the
// whole process over so many packets.
#define _GNU_SOURCE
#include "vmnetcalls.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

// CYCLE is how many frames are written before they are read: less than an interface's queue holds.
enum { CYCLE = 512, HEADER = 14 };

static struct port ports[2];

static uint64_t clock_ns(clockid_t id)
{
	struct timespec t;
	clock_gettime(id, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static uint64_t cpu_ns(void) { return clock_ns(CLOCK_PROCESS_CPUTIME_ID); }

static void fill_frames(uint8_t *frames, int n, size_t len)
{
	for (int k = 0; k < n; k++) {
		uint8_t *p = frames + (size_t)k * (PREFIX + len);
		memset(p, 0x5a, PREFIX + len);
		const uint8_t head[PREFIX + HEADER] = {0, 0, (uint8_t)(len >> 8), (uint8_t)len, 2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x88, 0xb5};
		memcpy(p, head, sizeof head);
	}
}

// write_packets writes n frames of len bytes that lie in wire form.
static void write_packets(struct port *p, uint8_t *frames, int n, size_t len)
{
	for (int k = 0; k < n; k++) {
		p->out_iov[k].iov_base = frames + (size_t)k * (PREFIX + len) + PREFIX;
		p->out[k].vm_pkt_size = p->out_iov[k].iov_len = len;
		p->out[k].vm_pkt_iovcnt = 1;
		p->out[k].vm_flags = 0;
	}
	int count = n;
	if (lib.write(p->ref, p->out, &count) != VMNET_SUCCESS || count != n)
		fail("vmnet_write failed");
}

static void print(const char *op, int n, uint64_t packets, uint64_t ns)
{
	printf("{\"op\":\"%s\",\"packets_per_call\":%d,\"packets\":%lu,\"cpu_ns\":%lu}\n", op, n, packets, ns);
}

// flow writes batches on one interface and reads them on the other.
static void flow(int n, int milliseconds)
{
	const size_t len = ports[1].max_packet;
	uint8_t *frames = malloc((size_t)n * (PREFIX + len));
	fill_frames(frames, n, len);
	uint64_t calls = 0, writing = 0, reading = 0;
	uint64_t end = clock_ns(CLOCK_MONOTONIC) + (uint64_t)milliseconds * 1000000u;
	const int batches = CYCLE / n;
	for (uint64_t t0 = cpu_ns(), t1; clock_ns(CLOCK_MONOTONIC) < end; t0 = cpu_ns()) {
		for (int k = 0; k < batches; k++)
			write_packets(&ports[0], frames, n, len);
		t1 = cpu_ns();
		for (int k = 0; k < batches; k++) {
			if (read_packets(&ports[1], n) != n)
				fail("a batch did not arrive");
			ready_slots(&ports[1], n);
		}
		writing += t1 - t0;
		reading += cpu_ns() - t1;
		calls += (uint64_t)batches;
	}
	print("write", n, calls * (uint64_t)n, writing);
	print("read", n, calls * (uint64_t)n, reading);
	free(frames);
}

int main(int argc, char **argv)
{
	if (argc != 3 || atoi(argv[2]) < 1)
		fail("usage: vmnetcalls LIBRARY MILLISECONDS");
	open_library(argv[1]);
	open_port(&ports[0]);
	open_port(&ports[1]);
	const int sizes[] = {1, 32, ports[1].slots};
	for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++)
		flow(sizes[k], atoi(argv[2]));
	return 0;
}
