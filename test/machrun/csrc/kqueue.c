// SPDX-License-Identifier: Apache-2.0

// kqueue on epoll, as far as Go's runtime uses it; the rest is refused. A descriptor is registered with one epoll for both
// filters, edge-triggered where EV_CLEAR was asked for; EVFILT_USER is an eventfd.
#include "darwin.h"
#include <poll.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <time.h>

enum { ADD = 1, DELETE = 2, CLEAR = 0x20, RECEIPT = 0x40, EV_ERR = 0x4000, EV_END = 0x8000 };
enum { F_READ = -1, F_WRITE = -2, F_USER = -10 };
enum { NOTE_TRIGGER = 0x1000000 };
enum { MAX_FD = 1 << 16, MAX_EVENTS = 128 };

// A knote is what is registered for a descriptor, or a user event, with one kqueue.
struct knote {
	struct knote *next; // of the same descriptor
	int kq;
	int fd;             // for epoll
	uint64_t ident;
	bool user, active;
	struct half {
		bool on, clear;
		void *udata;
	} read, write; // a user event's is in read
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct knote *notes[MAX_FD]; // by fd; the memory of one is used again and never freed, as an epoll_wait may still name it
static struct knote *unused;

static struct knote *find(int kq, int fd)
{
	for (struct knote *k = notes[fd]; k != NULL; k = k->next)
		if (k->kq == kq)
			return k;
	return NULL;
}

static struct knote *find_user(int kq, uint64_t ident)
{
	for (int fd = 0; fd < MAX_FD; fd++) // there is one for each kqueue, low
		for (struct knote *k = notes[fd]; k != NULL; k = k->next)
			if (k->user && k->kq == kq && k->ident == ident)
				return k;
	return NULL;
}

static struct knote *add(int kq, int fd, uint64_t ident)
{
	struct knote *k = unused;
	if (k != NULL)
		unused = k->next;
	else if ((k = malloc(sizeof *k)) == NULL)
		abort();
	*k = (struct knote){.next = notes[fd], .kq = kq, .fd = fd, .ident = ident, .active = true};
	return notes[fd] = k;
}

static void drop(struct knote *k)
{
	struct knote **at = &notes[k->fd];
	while (*at != k)
		at = &(*at)->next;
	*at = k->next;
	k->active = false;
	k->next = unused;
	unused = k;
}

// kqueue_forget is called before fd is closed: kqueue knows descriptors, epoll knows files.
void kqueue_forget(int fd)
{
	if (fd < 0 || fd >= MAX_FD || __atomic_load_n(&notes[fd], __ATOMIC_ACQUIRE) == NULL)
		return;
	pthread_mutex_lock(&lock);
	while (notes[fd] != NULL) {
		epoll_ctl(notes[fd]->kq, EPOLL_CTL_DEL, fd, NULL);
		drop(notes[fd]);
	}
	pthread_mutex_unlock(&lock);
}

static void before_fork(void) { pthread_mutex_lock(&lock); }
static void after_fork(void) { pthread_mutex_unlock(&lock); }

// kqueue(2): a kqueue is not inherited by fork. An epoll is, and what a child took out would be gone for its parent as well.
static void in_child(void)
{
	for (int fd = 0; fd < MAX_FD; fd++)
		if (notes[fd] != NULL)
			notes[fd] = NULL;
	pthread_mutex_unlock(&lock);
}

__attribute__((constructor)) static void init(void) { pthread_atfork(before_fork, after_fork, in_child); }

long s_kqueue(void) { return ret(epoll_create1(0)); }

static int update(struct knote *k, int op)
{
	struct epoll_event e = {.data.ptr = k};
	if (k->user)
		e.events = EPOLLIN | EPOLLET;
	else {
		e.events = (k->read.on ? EPOLLIN | EPOLLRDHUP : 0) | (k->write.on ? EPOLLOUT : 0);
		if ((k->read.on && k->read.clear) || (k->write.on && k->write.clear))
			e.events |= EPOLLET;
	}
	return epoll_ctl(k->kq, op, k->fd, &e) == 0 ? 0 : errno;
}

static void ask(struct half *h, const struct d_kevent *c) { *h = (struct half){true, c->flags & CLEAR, c->udata}; }

static int change_user(int kq, const struct d_kevent *c)
{
	struct knote *k = find_user(kq, c->ident);
	if (k == NULL && c->flags & ADD) {
		int fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
		if (fd < 0)
			return errno;
		k = add(kq, fd, c->ident);
		k->user = true;
		int e = update(k, EPOLL_CTL_ADD);
		if (e != 0)
			return e;
	}
	if (k == NULL)
		return ENOENT;
	if (c->flags & ADD)
		ask(&k->read, c);
	if (c->fflags & NOTE_TRIGGER) {
		uint64_t one = 1;
		if (write(k->fd, &one, sizeof one) < 0)
			return errno;
	}
	return 0;
}

static bool known(const struct d_kevent *c)
{
	bool user = c->filter == F_USER;
	return (user || c->filter == F_READ || c->filter == F_WRITE) && (c->flags & ~(ADD | DELETE | CLEAR | RECEIPT)) == 0 &&
		(c->fflags & ~(user ? NOTE_TRIGGER : 0)) == 0 && !(user && c->flags & DELETE);
}

static int change(int kq, const struct d_kevent *c)
{
	if (!known(c)) {
		TRACE("kevent: filter %d with flags %#x and fflags %#x is not known", c->filter, c->flags, c->fflags);
		return EINVAL;
	}
	if (c->filter == F_USER)
		return change_user(kq, c);
	if (c->ident >= MAX_FD)
		return EBADF;
	int fd = (int)c->ident;
	struct knote *k = find(kq, fd);
	bool is_new = k == NULL;
	if (is_new) {
		if (!(c->flags & ADD))
			return ENOENT;
		k = add(kq, fd, c->ident);
	}
	struct half *half = c->filter == F_READ ? &k->read : &k->write;
	if (c->flags & ADD)
		ask(half, c);
	if (c->flags & DELETE)
		half->on = false;
	if (!k->read.on && !k->write.on) {
		epoll_ctl(kq, EPOLL_CTL_DEL, fd, NULL);
		drop(k);
		return 0;
	}
	int e = update(k, is_new ? EPOLL_CTL_ADD : EPOLL_CTL_MOD);
	if (e != 0 && is_new)
		drop(k);
	return e == EPERM ? EINVAL : e; // a file that cannot be waited for
}

// occurs makes kevents of what epoll reported for k.
static int occurs(struct knote *k, uint32_t events, struct d_kevent *out, int room)
{
	int n = 0;
	if (k->user) {
		uint64_t count;
		if (read(k->fd, &count, sizeof count) < 0)
			return 0;
		out[n++] = (struct d_kevent){.ident = k->ident, .filter = F_USER, .flags = k->read.clear ? CLEAR : 0, .udata = k->read.udata};
		return n;
	}
	bool ends = events & (EPOLLHUP | EPOLLERR);
	if (k->read.on && events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR) && n < room) {
		int waits = 0;
		ioctl(k->fd, FIONREAD, &waits);
		out[n++] = (struct d_kevent){.ident = k->ident, .filter = F_READ, .data = waits, .udata = k->read.udata,
			.flags = (uint16_t)((k->read.clear ? CLEAR : 0) | (ends || events & EPOLLRDHUP ? EV_END : 0))};
	}
	if (k->write.on && events & (EPOLLOUT | EPOLLHUP | EPOLLERR) && n < room)
		out[n++] = (struct d_kevent){.ident = k->ident, .filter = F_WRITE, .udata = k->write.udata,
			.flags = (uint16_t)((k->write.clear ? CLEAR : 0) | (ends ? EV_END : 0))};
	return n;
}

long s_kevent(int kq, const struct d_kevent *changes, int nchanges, struct d_kevent *out, int nout, const struct d_timespec *timeout)
{
	int n = 0;
	pthread_mutex_lock(&lock);
	for (int i = 0; i < nchanges; i++) {
		int e = change(kq, &changes[i]);
		if (e == 0 && !(changes[i].flags & RECEIPT))
			continue;
		if (n == nout) {
			pthread_mutex_unlock(&lock);
			return e != 0 ? fail(errno_to_darwin(e)) : n;
		}
		out[n] = changes[i];
		out[n].flags |= EV_ERR;
		out[n++].data = e != 0 ? errno_to_darwin(e) : 0;
	}
	pthread_mutex_unlock(&lock);
	if (nout == 0 || n > 0)
		return n;
	if (nout == 1) {
		TRACE("kevent: room for %d event only, and one of epoll can be two", nout);
		return fail(D_EINVAL);
	}
	struct epoll_event events[MAX_EVENTS];
	int most = nout / 2 < MAX_EVENTS ? nout / 2 : MAX_EVENTS;
	struct timespec ts;
	if (timeout != NULL)
		ts = (struct timespec){timeout->sec, timeout->nsec};
	int got = epoll_pwait2(kq, events, most, timeout != NULL ? &ts : NULL, NULL);
	if (got < 0)
		return ret(-1);
	pthread_mutex_lock(&lock);
	for (int i = 0; i < got; i++) {
		struct knote *k = events[i].data.ptr;
		if (k->active && k->kq == kq)
			n += occurs(k, events[i].events, out + n, nout - n);
	}
	pthread_mutex_unlock(&lock);
	return n;
}
