// SPDX-License-Identifier: Apache-2.0

// The load generator: connects clients to a relay's sockets, runs a windowed flow or a ping-pong between some of
// them, and prints what came out as one JSON object per line: {"event":"begin"} when the measurement starts, a "slot" with the
// figures of each part of it, "measured" when it is over and the clients are still there, and an "end" with the figures. After
// "begin" and "measured" it waits for a byte on its standard input, or for the end of that. Each active client is a process of its
// own, as guests are.
#include "load.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
	READY_MS = 60000,   // how long until all clients know each other
	FRAMES_MS = 60000   // the end of the patience with --frames
};

struct options opt;
struct shared *shm;
struct conn conns[MAX_CLIENTS];

static pid_t children[MAX_CLIENTS];
static int child_count;

// A snapshot is what the measurement is the difference of two of.
struct snapshot {
	uint64_t wall_ns, cpu_ns;
	unsigned long received, lost, round_trips;
};

static void parse_options(int argc, char **argv)
{
	int *numbers[] = {
		&opt.relay, &opt.clients, &opt.pairs, &opt.batch, &opt.frame_len, &opt.window, &opt.frames, &opt.warm_ms, &opt.time_ms, &opt.slots,
		&opt.echo, &opt.fan,
	};
	enum { NUMBERS = sizeof numbers / sizeof *numbers };
	if (argc != 3 + NUMBERS) {
		fprintf(stderr, "usage: load SOCKET KINDS RELAY CLIENTS PAIRS BATCH FRAME_LEN WINDOW FRAMES WARM_MS TIME_MS SLOTS ECHO FAN\n");
		exit(2);
	}
	opt.socket = argv[1];
	opt.kinds = argv[2];
	for (int i = 0; i < NUMBERS; i++)
		*numbers[i] = atoi(argv[3 + i]);
	if (!opt.kinds[0] || opt.clients > MAX_CLIENTS || 2 * opt.pairs > opt.clients || opt.batch < 1 || opt.batch > MAX_BATCH ||
	    (opt.window && opt.batch > opt.window) || opt.slots < 1 || opt.frame_len < SMALL_FRAME_LEN || opt.frame_len > MAX_FRAME_LEN) {
		fprintf(stderr, "load: options that do not fit together\n");
		exit(2);
	}
}

static void close_conn(int i)
{
	close(conns[i].fd);
	if (conns[i].lifeline >= 0)
		close(conns[i].lifeline);
}

// start_child forks and reports whether this is the child. A child keeps the connections first to last only, so that its end
// is seen by the relay.
static bool start_child(int first, int last)
{
	pid_t pid = fork();
	if (pid < 0)
		die("fork");
	if (pid > 0) {
		children[child_count++] = pid;
		return false;
	}
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	signal(SIGPIPE, SIG_IGN);
	for (int i = 0; i < opt.clients; i++)
		if (i < first || i > last)
			close_conn(i);
	return true;
}

static void start_clients(void)
{
	int last = opt.clients - 1;
	for (int i = 0; opt.fan && i <= last; i++) {
		if (!start_child(i, i))
			continue;
		if (i == last)
			run_receiver(i, 0, i - 1);
		run_sender(i, last);
	}
	for (int i = 0; i < 2 * opt.pairs; i += 2) {
		if (start_child(i + 1, i + 1)) {
			if (opt.echo && i == 0)
				run_echoer(i + 1, i);
			run_receiver(i + 1, i, i);
		}
		if (start_child(i, i)) {
			if (opt.echo && i == 0)
				run_pinger(i, i + 1);
			run_sender(i, i + 1);
		}
	}
	if (!opt.fan && 2 * opt.pairs < opt.clients && start_child(2 * opt.pairs, opt.clients - 1))
		run_bystanders(2 * opt.pairs, opt.clients - 1);
}

static void stop_clients(void)
{
	for (int i = 0; i < child_count; i++)
		kill(children[i], SIGKILL);
	while (wait(NULL) > 0)
		;
	for (int i = 0; i < opt.clients; i++)
		if (conns[i].own.sun_path[0])
			unlink(conns[i].own.sun_path);
}

// check_clients ends the run if a client process has ended: the relay closed its connection or garbled its stream.
static void check_clients(void)
{
	if (waitpid(-1, NULL, WNOHANG) == 0)
		return;
	fprintf(stderr, "load: a client has ended\n");
	stop_clients();
	exit(3);
}

static uint64_t clock_ns(clockid_t id)
{
	struct timespec t;
	if (clock_gettime(id, &t) < 0) {
		stop_clients();
		fprintf(stderr, "load: the relay has ended\n");
		exit(3);
	}
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static struct snapshot take_snapshot(clockid_t relay_clock)
{
	struct snapshot s = {.wall_ns = clock_ns(CLOCK_MONOTONIC)};
	for (int i = 0; i < opt.clients; i++) {
		s.received += atomic_load(&shm->client[i].received);
		s.lost += atomic_load(&shm->client[i].lost);
	}
	s.round_trips = atomic_load(&shm->round_trips);
	s.cpu_ns = opt.relay ? clock_ns(relay_clock) : 0;
	return s;
}

static int compare_ns(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
	return (x > y) - (x < y);
}

static uint32_t quantile(const uint32_t *sorted, unsigned long n, unsigned permille)
{
	return n ? sorted[n * permille / 1000] : 0;
}

// print_slot prints the figures of a part of the measurement; the caller ends the line.
static void print_slot(const char *event, const struct snapshot *a, const struct snapshot *b)
{
	printf("{\"event\":\"%s\",\"wall_ns\":%lu,\"relay_cpu_ns\":%lu,\"received\":%lu", event, b->wall_ns - a->wall_ns,
	       b->cpu_ns - a->cpu_ns, b->received - a->received);
}

static void print_result(const struct snapshot *a, const struct snapshot *b)
{
	unsigned long corrupt = 0, trips = b->round_trips - a->round_trips;
	for (int i = 0; i < opt.clients; i++)
		corrupt += atomic_load(&shm->client[i].corrupt);
	uint32_t *sorted = shm->round_trip_ns + a->round_trips;
	qsort(sorted, trips, sizeof *sorted, compare_ns);
	print_slot("end", a, b);
	printf(",\"corrupt\":%lu,\"lost\":%lu,\"round_trips\":%lu,\"rtt_p50_ns\":%u,\"rtt_p99_ns\":%u}\n", corrupt, b->lost - a->lost, trips,
	       quantile(sorted, trips, 500), quantile(sorted, trips, 990));
}

static void wait_ready(void)
{
	for (int waited = 0; atomic_load(&shm->ready) < opt.clients; waited++) {
		check_clients();
		if (waited >= READY_MS) {
			fprintf(stderr, "load: only %d of %d clients are ready\n", atomic_load(&shm->ready), opt.clients);
			stop_clients();
			exit(3);
		}
		sleep_ms(1);
	}
}

// tell_event waits until its reader has done what belongs to that moment.
static void tell_event(const char *event)
{
	char byte;
	printf("{\"event\":\"%s\"}\n", event);
	fflush(stdout);
	while (read(STDIN_FILENO, &byte, 1) < 0 && errno == EINTR)
		;
}

// is_enough tells whether as many frames and round trips have been counted as were asked for.
static bool is_enough(const struct snapshot *a, const struct snapshot *b)
{
	int flows = opt.pairs + opt.fan - opt.echo;
	return (!flows || (long)(b->received - a->received) >= opt.frames) &&
	       (!opt.echo || (long)(b->round_trips - a->round_trips) >= opt.frames);
}

static void measure(void)
{
	clockid_t relay_clock = CLOCK_MONOTONIC;
	if (opt.relay && clock_getcpuclockid(opt.relay, &relay_clock) != 0)
		die("clock of the relay");
	wait_ready();
	atomic_store(&shm->go, 1);
	sleep_ms(opt.warm_ms);
	tell_event("begin");
	struct snapshot a = take_snapshot(relay_clock), b = a;
	for (int i = 0; i < opt.slots; i++) {
		struct snapshot before = b;
		sleep_ms(opt.time_ms / opt.slots);
		b = take_snapshot(relay_clock);
		if (opt.slots > 1) {
			print_slot("slot", &before, &b);
			puts("}");
		}
	}
	for (int waited = 0; !is_enough(&a, &b) && waited < FRAMES_MS; waited += 10) {
		check_clients();
		sleep_ms(10);
		b = take_snapshot(relay_clock);
	}
	tell_event("measured");
	check_clients();
	stop_clients();
	print_result(&a, &b);
}

int main(int argc, char **argv)
{
	parse_options(argc, argv);
	shm = mmap(NULL, sizeof *shm, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (shm == MAP_FAILED)
		die("mmap");
	for (int i = 0; i < opt.clients; i++)
		open_conn(i);
	start_clients();
	for (int i = 0; i < opt.clients; i++)
		close_conn(i);
	measure();
	return 0;
}
