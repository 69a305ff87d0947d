// SPDX-License-Identifier: Apache-2.0

// What crosses processes: who lives, who owns which subnet, how many interfaces there are.
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "internal.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

// Locks on these bytes of the control file tell which processes live. They lie behind its end. The kernel drops them when
// the process dies or executes another program.
#define LOCK_BYTE (1 << 30)

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic int own_fd = -1;
static _Atomic int own_index;

int process_index(void) { return atomic_load(&own_index); }

int64_t now_ms(void)
{
	struct timespec t;
	clock_gettime(CLOCK_REALTIME, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

void owners_lock(void)
{
	control();
	pthread_mutex_lock(&lock);
	int fd = atomic_load(&own_fd);
	if (fd >= 0)
		while (flock(fd, LOCK_EX) != 0 && errno == EINTR) {
		}
}

void owners_unlock(void)
{
	int fd = atomic_load(&own_fd);
	if (fd >= 0)
		flock(fd, LOCK_UN);
	pthread_mutex_unlock(&lock);
}

static struct flock byte_lock(int i)
{
	return (struct flock){.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = LOCK_BYTE + i, .l_len = 1};
}

static bool process_lives(int i)
{
	if (i == process_index())
		return true;
	struct flock l = byte_lock(i);
	int fd = atomic_load(&own_fd);
	return fd >= 0 && fcntl(fd, F_OFD_GETLK, &l) == 0 && l.l_type != F_UNLCK;
}

static void owner_freed(struct owner *o)
{
	atomic_store(&o->freed_ms, now_ms());
	atomic_store(&o->state, OWNER_FREED);
}

// Takes away what a dead process had: the system keeps a network object as an idle one, and no plain interface.
static void bury(struct control *c, int i)
{
	struct process *p = &c->processes[i];
	if (atomic_load(&p->pid) == 0)
		return;
	for (struct owner *o = c->owners; o < c->owners + OWNERS; o++)
		if (atomic_load(&o->state) == OWNER_OWNED && atomic_load(&o->process) == i) {
			owner_freed(o);
			if (atomic_load(&o->kind) == KIND_NETWORK)
				atomic_store(&o->state, OWNER_ORPHAN);
		}
	rules_free(c, i, -1);
	for (int k = 0; k < LIVES; k++)
		atomic_store(&p->live[k], 0);
	atomic_store(&p->pid, 0);
}

int process_enter(struct control *c, int fd)
{
	int found = fd < 0 ? 0 : -1;
	if (fd >= 0) {
		while (flock(fd, LOCK_EX) != 0 && errno == EINTR) {
		}
		for (int i = 0; i < PROCESSES && found < 0; i++) {
			struct flock l = byte_lock(i);
			if (fcntl(fd, F_OFD_SETLK, &l) == 0)
				found = i;
		}
		if (found >= 0)
			bury(c, found);
		flock(fd, LOCK_UN);
	}
	if (found < 0)
		return ENFILE;
	atomic_store(&c->processes[found].pid, getpid());
	pthread_mutex_lock(&lock);
	int old = atomic_exchange(&own_fd, fd);
	atomic_store(&own_index, found);
	pthread_mutex_unlock(&lock);
	if (old >= 0)
		close(old);
	return 0;
}

static void bury_dead(struct control *c)
{
	for (int i = 0; i < PROCESSES; i++)
		if (atomic_load(&c->processes[i].pid) != 0 && !process_lives(i))
			bury(c, i);
}

void live_add(int what, int n)
{
	struct control *c = control();
	atomic_fetch_add_explicit(&c->processes[process_index()].live[what], n, memory_order_relaxed);
}

int64_t live_sum(int what)
{
	struct control *c = control();
	int64_t sum = 0;
	for (int i = 0; i < PROCESSES; i++)
		sum += atomic_load(&c->processes[i].live[what]);
	return sum;
}

vmnet_return_t interface_count_up(void)
{
	vmnet_return_t st = VMNET_SUCCESS;
	owners_lock();
	bury_dead(control());
	if (live_sum(LIVE_interfaces) >= SWITCH_VALUE(interfaces_max))
		st = VMNET_FAILURE;
	else
		live_add(LIVE_interfaces, 1);
	owners_unlock();
	return st;
}

static bool overlaps(const struct owner *o, const struct settings *s)
{
	uint32_t subnet = (uint32_t)atomic_load(&o->subnet), mask = (uint32_t)atomic_load(&o->mask);
	uint32_t both = mask & s->mask;
	return (subnet & both) == (s->subnet & both);
}

// Plain interfaces of several processes may be on the same subnet if they agree on all of it.
static bool agree(const struct owner *o, const struct settings *s)
{
	return atomic_load(&o->process) != process_index() && s->kind == KIND_INTERFACE &&
		atomic_load(&o->kind) == KIND_INTERFACE && atomic_load(&o->mode) == s->mode &&
		atomic_load(&o->start) == s->start && atomic_load(&o->end) == s->end && atomic_load(&o->mask) == s->mask;
}

static bool busy(struct control *c, const struct settings *s)
{
	int64_t busy_ms = SWITCH_VALUE(busy_ms);
	for (int i = 0; i < OWNERS; i++) {
		struct owner *o = &c->owners[i];
		int64_t state = atomic_load(&o->state);
		if (state == OWNER_FREED && now_ms() - atomic_load(&o->freed_ms) >= busy_ms) {
			atomic_store(&o->state, OWNER_FREE);
			continue;
		}
		if (state != OWNER_FREE && overlaps(o, s) && (state != OWNER_OWNED || !agree(o, s)))
			return true;
	}
	return false;
}

// Chooses 192.168.64.0/24 in shared and 192.168.128.0/24 in host mode, or the next one that is free, of 64 each. The first address is
// the host's, the last usable one ends the DHCP range.
static bool choose(struct control *c, struct settings *s)
{
	uint32_t first = s->mode == VMNET_SHARED_MODE ? 64 : 128;
	for (uint32_t third = first; third < first + 64; third++) {
		s->subnet = 0xc0a80000 | third << 8;
		s->mask = 0xffffff00;
		s->start = s->subnet + 1;
		s->end = s->subnet + 254;
		if (!busy(c, s))
			return true;
	}
	return false;
}

static int record(struct control *c, const struct settings *s)
{
	for (int i = 0; i < OWNERS; i++) {
		struct owner *o = &c->owners[i];
		if (atomic_load(&o->state) != OWNER_FREE)
			continue;
		atomic_store(&o->process, process_index());
		atomic_store(&o->pid, getpid());
		atomic_store(&o->kind, s->kind);
		atomic_store(&o->mode, s->mode);
		atomic_store(&o->subnet, s->subnet);
		atomic_store(&o->mask, s->mask);
		atomic_store(&o->start, s->start);
		atomic_store(&o->end, s->end);
		atomic_store(&o->flags, s->flags);
		atomic_store(&o->mtu, s->mtu);
		uint64_t high = 0;
		for (int k = 0; k < 8; k++)
			high = high << 8 | s->prefix6[k];
		atomic_store(&o->prefix6_high, (int64_t)high);
		atomic_store(&o->prefix6_length, s->prefix6_length);
		memcpy(o->external, s->external, sizeof o->external);
		atomic_store(&o->state, OWNER_OWNED);
		return i;
	}
	return -1;
}

vmnet_return_t owner_claim(struct settings *s, int *index)
{
	vmnet_return_t st = VMNET_SUCCESS;
	owners_lock();
	struct control *c = control();
	bury_dead(c);
	if (s->asked ? busy(c, s) : !choose(c, s))
		st = s->kind == KIND_NETWORK ? VMNET_FAILURE : VMNET_SHARING_SERVICE_BUSY;
	else if ((*index = record(c, s)) < 0)
		st = VMNET_FAILURE;
	owners_unlock();
	return st;
}

void owner_free(int index)
{
	owners_lock();
	struct control *c = control();
	rules_free(c, process_index(), atomic_load(&c->owners[index].subnet));
	owner_freed(&c->owners[index]);
	owners_unlock();
}
