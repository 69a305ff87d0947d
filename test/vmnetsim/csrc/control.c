// SPDX-License-Identifier: Apache-2.0

// The control file: making, mapping, faults.
#include "abi.h"
#include "control.h"
#include "internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

struct control *_Atomic the_control;

static pthread_mutex_t open_lock = PTHREAD_MUTEX_INITIALIZER;
static char open_dir[4096];

// Fills a zeroed control. The magic comes last, so that no reader takes half a file for a whole one.
static void fill(struct control *c)
{
	c->version = CONTROL_VERSION;
	c->size = sizeof *c;
#define PRESET(name, preset_) c->switches[SWITCH_##name].value = c->switches[SWITCH_##name].preset = preset_;
	SWITCH_TABLE(PRESET)
	memcpy(c->magic, CONTROL_MAGIC, sizeof c->magic);
}

static struct control *map_fd(int fd)
{
	int flags = fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED;
	void *p = mmap(NULL, sizeof(struct control), PROT_READ | PROT_WRITE, flags, fd, 0);
	return p == MAP_FAILED ? NULL : p;
}

// Makes the file if it is new, and refuses one of another version.
static int map_file(int fd, struct control **out)
{
	struct stat st;
	if (fstat(fd, &st) != 0)
		return errno;
	bool fresh = st.st_size == 0;
	if (fresh && ftruncate(fd, sizeof(struct control)) != 0)
		return errno;
	if (!fresh && st.st_size != (off_t)sizeof(struct control))
		return EINVAL;
	struct control *c = map_fd(fd);
	if (c == NULL)
		return errno;
	if (fresh)
		fill(c);
	if (memcmp(c->magic, CONTROL_MAGIC, sizeof c->magic) != 0 || c->version != CONTROL_VERSION || c->size != sizeof *c) {
		munmap(c, sizeof *c);
		return EINVAL;
	}
	*out = c;
	return 0;
}

static int open_file(const char *dir, struct control **out, int *fd)
{
	char path[4096];
	if (snprintf(path, sizeof path, "%s/control", dir) >= (int)sizeof path)
		return ENAMETOOLONG;
	*fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (*fd < 0)
		return errno;
	int err = flock(*fd, LOCK_EX) != 0 ? errno : map_file(*fd, out);
	flock(*fd, LOCK_UN);
	if (err != 0)
		close(*fd);
	return err;
}

static bool anything_lives(void)
{
	struct process *p = &control()->processes[process_index()];
	for (int i = 0; i < LIVES; i++)
		if (i != LIVE_threads && atomic_load(&p->live[i]) != 0)
			return true;
	return false;
}

// The former mapping stays, for a thread that is just leaving.
static int open_locked(const char *dir)
{
	if (atomic_load(&the_control) != NULL) {
		if (strcmp(open_dir, dir) == 0)
			return 0;
		if (anything_lives())
			return EBUSY;
	}
	struct control *c = NULL;
	int fd = -1;
	if (dir[0] == 0) {
		if ((c = map_fd(-1)) == NULL)
			return ENOMEM;
		fill(c);
	} else {
		int err = open_file(dir, &c, &fd);
		if (err != 0)
			return err;
	}
	int err = process_enter(c, fd);
	if (err != 0) {
		munmap(c, sizeof *c);
		if (fd >= 0)
			close(fd);
		return err;
	}
	snprintf(open_dir, sizeof open_dir, "%s", dir);
	atomic_store(&the_control, c);
	return 0;
}

const char *control_dir(void) { return open_dir; }

int vmnetsim_open(const char *dir)
{
	pthread_mutex_lock(&open_lock);
	int err = open_locked(dir == NULL ? "" : dir);
	pthread_mutex_unlock(&open_lock);
	return err;
}

struct control *control_private(void)
{
	pthread_mutex_lock(&open_lock);
	int err = atomic_load(&the_control) != NULL ? 0 : open_locked("");
	pthread_mutex_unlock(&open_lock);
	if (err != 0)
		die("no memory for the control block: error %d", err);
	return atomic_load(&the_control);
}

// Lowers a counter that is above zero, and tells whether it was.
static bool take(cell *c)
{
	int64_t n = atomic_load(c);
	while (n > 0)
		if (n == INT64_MAX || atomic_compare_exchange_weak(c, &n, n - 1))
			return true;
	return false;
}

int64_t fault_slow(struct record *r)
{
	int64_t v = atomic_load(&r->value);
	if (v == 0 || take(&r->skip) || !take(&r->count))
		return 0;
	return v;
}
