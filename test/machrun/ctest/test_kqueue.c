// SPDX-License-Identifier: Apache-2.0

#include "harness.h"

#include <sys/wait.h>
#include <unistd.h>

// Numbers of Apple's sys/event.h.
enum { ADD = 1, DELETE = 2, CLEAR = 0x20, RECEIPT = 0x40, EV_ERR = 0x4000, READ = -1, WRITE = -2, USER = -10 };

static struct d_kevent at(int ident, int filter, int flags)
{
	return (struct d_kevent){.ident = (uint64_t)ident, .filter = (int16_t)filter, .flags = (uint16_t)flags, .udata = &at};
}

static const struct d_timespec now, late = {30, 0};

CASE(changes_fail_one_by_one)
{
	int fds[2], kq = (int)s_kqueue();
	EQUAL(0, pipe(fds));
	struct d_kevent c[3] = {at(fds[0], READ, DELETE), at(fds[1], WRITE, ADD | RECEIPT), at(-1, READ, ADD)}, e[3];
	EQUAL(3, s_kevent(kq, c, 3, e, 3, NULL));
	CHECK(e[0].flags & EV_ERR && e[0].data == D_ENOENT);
	CHECK(e[1].flags & EV_ERR && e[1].data == 0);
	CHECK(e[2].flags & EV_ERR && e[2].data == D_EBADF);
	FAILS(D_ENOENT, s_kevent(kq, c, 1, NULL, 0, NULL));
}

CASE(a_closed_descriptor_is_forgotten)
{
	int fds[2], kq = (int)s_kqueue();
	struct d_kevent e = at(0, READ, ADD);
	EQUAL(0, pipe(fds));
	int copy = (int)s_dup(fds[0]);
	e.ident = (uint64_t)fds[0];
	EQUAL(0, s_kevent(kq, &e, 1, NULL, 0, NULL));
	EQUAL(0, s_close(fds[0]));
	EQUAL(1, s_write(fds[1], "x", 1)); // the copy could be read, but it was not asked for
	EQUAL(0, s_kevent(kq, NULL, 0, (struct d_kevent[2]){0}, 2, &now));
	s_close(copy);
}

CASE(a_child_leaves_its_parents_alone)
{
	int fds[2], kq = (int)s_kqueue();
	EQUAL(0, pipe(fds));
	struct d_kevent e = at(fds[0], READ, ADD | CLEAR);
	EQUAL(0, s_kevent(kq, &e, 1, NULL, 0, NULL));
	int child = (int)fork();
	if (child == 0) {
		s_close(fds[0]);
		_exit(0);
	}
	EQUAL(child, waitpid(child, NULL, 0));
	EQUAL(1, s_write(fds[1], "x", 1));
	EQUAL(1, s_kevent(kq, NULL, 0, (struct d_kevent[2]){0}, 2, &late));
}

CASE(a_pair_of_events)
{
	int fds[2], kq = (int)s_kqueue();
	EQUAL(0, s_socketpair(1, 1, 0, fds));
	EQUAL(1, s_write(fds[1], "x", 1));
	struct d_kevent e[2] = {at(fds[0], READ, ADD | CLEAR), at(fds[0], WRITE, ADD | CLEAR)};
	EQUAL(0, s_kevent(kq, e, 2, NULL, 0, NULL));
	FAILS(D_EINVAL, s_kevent(kq, NULL, 0, e, 1, &late)); // the second one would be lost
	EQUAL(2, s_kevent(kq, NULL, 0, e, 2, &late));
	CHECK(e[0].filter == READ && e[1].filter == WRITE);
}

CASE(what_is_not_modelled_is_refused)
{
	enum { DISABLE = 8, ONESHOT = 0x10, DISPATCH = 0x80, TIMER = -7, LOWAT = 1, COPY = (int)0xc0000000 };
	int kq = (int)s_kqueue();
	struct d_kevent e[] = {at(0, READ, ADD | DISABLE), at(0, WRITE, ADD | ONESHOT), at(0, READ, ADD | DISPATCH), at(0, TIMER, ADD),
		at(0, READ, ADD), at(7, USER, ADD), at(7, USER, DELETE)};
	e[4].fflags = LOWAT;
	e[5].fflags = (uint32_t)COPY;
	for (size_t i = 0; i < sizeof e / sizeof *e; i++)
		FAILS(D_EINVAL, s_kevent(kq, &e[i], 1, NULL, 0, NULL));
}
