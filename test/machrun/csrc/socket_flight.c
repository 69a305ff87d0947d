// SPDX-License-Identifier: Apache-2.0

// Switch gc_in_flight. uipc_usrreq.c, unp_gc: a unix socket whose only references are messages that nobody has received yet counts
// as garbage, since the receiver's own socket, which was never in a message, is no root of the search. It is flushed
// (sorflush): its new owner reads the end, and what its peer sends fails. macOS does that whenever some unix socket in
// the system is closed in that moment; with the switch on it happens always.
//
// The message has been received when Linux's kernel counts no bytes of the carrier on their way. Copies of the descriptor in
// other processes are not looked for.
#include "socket.h"

#include <linux/sockios.h>
#include <pthread.h>
#include <sys/ioctl.h>
#include <sys/stat.h>

struct flight {
	uint64_t inode, carrier; // sockets
	int carrier_fd;          // -1: closed while the message waited
	struct flight *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct flight *flights;

static uint64_t inode_of(int fd)
{
	const struct sock *s = sock_of(fd);
	return s != NULL && s->family == AF_UNIX ? (uint64_t)s->inode : 0;
}

void flight_sent(int carrier, const int *fds, size_t n)
{
	if (switch_at(SWITCH_gc_in_flight) == 0)
		return;
	for (size_t i = 0; i < n; i++) {
		struct flight *f = malloc(sizeof *f);
		if (f == NULL || inode_of(fds[i]) == 0) {
			free(f);
			continue;
		}
		*f = (struct flight){.inode = inode_of(fds[i]), .carrier = inode_of(carrier), .carrier_fd = carrier};
		pthread_mutex_lock(&lock);
		f->next = flights, flights = f;
		pthread_mutex_unlock(&lock);
	}
}

static bool waits(const struct flight *f)
{
	int out = 0;
	return f->carrier_fd < 0 || (ioctl(f->carrier_fd, SIOCOUTQ, &out) == 0 && out > 0);
}

// other_copy reports whether this process has the socket by another descriptor.
static bool other_copy(int fd, uint64_t inode)
{
	struct stat st;
	for (int i = 0; i < 4096; i++)
		if (i != fd && fstat(i, &st) == 0 && S_ISSOCK(st.st_mode) && st.st_ino == inode)
			return true;
	return false;
}

static void flush(int fd)
{
	char b[1];
	(void)!shutdown(fd, SHUT_RD);
	atomic_fetch_or(&sock_of(fd)->flags, SHUT_READ);
	while (recv(fd, b, sizeof b, MSG_DONTWAIT) > 0)
		;
}

// flight_closing is called before fd is closed.
void flight_closing(int fd)
{
	if (__atomic_load_n(&flights, __ATOMIC_RELAXED) == NULL)
		return;
	uint64_t inode = inode_of(fd);
	bool lost = false;
	pthread_mutex_lock(&lock);
	for (struct flight **at = &flights, *f; (f = *at) != NULL;) {
		bool over = !waits(f);
		if (!over && f->inode == inode && !other_copy(fd, inode))
			lost = over = true;
		if (!over && f->carrier == inode && f->carrier_fd == fd)
			f->carrier_fd = -1;
		if (over) {
			*at = f->next;
			free(f);
		} else {
			at = &f->next;
		}
	}
	pthread_mutex_unlock(&lock);
	if (lost)
		flush(fd);
}

static void before_fork(void) { pthread_mutex_lock(&lock); }
static void after_fork(void) { pthread_mutex_unlock(&lock); }
__attribute__((constructor)) static void init(void) { pthread_atfork(before_fork, after_fork, after_fork); }
