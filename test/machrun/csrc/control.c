// SPDX-License-Identifier: Apache-2.0

// The control file: mapping it, and what the switches do that are not for one file of the shims alone.
#include "control.h"
#include "darwin.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>

struct control *the_control;

static const char *const names[RECORDS] = {
#define CALL(f) "fail." #f, "slow." #f, "stop." #f,
#define SWITCH(name) #name,
#define GAUGE(name) #name,
#include "switches.h"
};

static bool is_ours(const struct control *c)
{
	if (strncmp(c->magic, CONTROL_MAGIC, sizeof c->magic) != 0 || c->records != RECORDS)
		return false;
	for (int i = 0; i < RECORDS; i++)
		if (strncmp(c->record[i].name, names[i], sizeof c->record[i].name) != 0)
			return false;
	return true;
}

void control_open(const char *dir)
{
	the_control = NULL;
	if (dir == NULL)
		return;
	char path[4096];
	snprintf(path, sizeof path, "%s/machrun.control", dir);
	int fd = open(path, O_RDWR | O_CLOEXEC);
	struct stat st;
	if (fd < 0 || fstat(fd, &st) != 0)
		die(OUR_FAULT, "MACHRUN_DIR: %s: %s", path, strerror(errno));
	struct control *c = MAP_FAILED;
	if (st.st_size == sizeof *c)
		c = mmap(NULL, sizeof *c, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	if (c == MAP_FAILED || !is_ours(c))
		die(OUR_FAULT, "MACHRUN_DIR: %s is no control file of this version", path);
	the_control = c;
}

// take lowers a counter that is above zero, and tells whether it was.
static bool take(_Atomic int64_t *c)
{
	int64_t n = atomic_load(c);
	while (n > 0)
		if (n == INT64_MAX || atomic_compare_exchange_weak(c, &n, n - 1))
			return true;
	return false;
}

int64_t switch_at(int i)
{
	if (the_control == NULL)
		return 0;
	struct record *r = &the_control->record[i];
	int64_t v = atomic_load_explicit(&r->value, memory_order_acquire);
	if (v == 0 || take(&r->skip) || !take(&r->count))
		return 0;
	return v;
}

int64_t switch_value(const char *name)
{
	for (int i = 0; the_control != NULL && i < RECORDS; i++)
		if (strcmp(names[i], name) == 0)
			return switch_at(i);
	return 0;
}

void gauge_add(int i, int64_t n)
{
	if (the_control != NULL)
		atomic_fetch_add(&the_control->record[i].value, n);
}

static void sleep_ms(int64_t ms)
{
	struct timespec t = {ms / 1000, ms % 1000 * 1000000};
	while (nanosleep(&t, &t) != 0 && errno == EINTR) {
	}
}

static void stopped_ms(int64_t ms)
{
	sigset_t all, before;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	sleep_ms(ms);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
}

int call_error(int fail_record)
{
	int64_t ms = switch_at(fail_record + 1);
	if (ms > 0)
		sleep_ms(ms);
	if ((ms = switch_at(fail_record + 2)) > 0)
		stopped_ms(ms);
	return (int)switch_at(fail_record);
}

static _Atomic int forks; // of this process

static void after_fork(void)
{
	atomic_fetch_add(&forks, 1);
	gauge_add(GAUGE_forks, 1);
}

__attribute__((constructor)) static void init(void) { pthread_atfork(NULL, after_fork, NULL); }

void control_received(int fd)
{
	(void)fd;
	int seen = atomic_load(&forks);
	for (int64_t left = switch_at(SWITCH_fork_gap); left > 0 && atomic_load(&forks) == seen; left--)
		sleep_ms(1);
}
