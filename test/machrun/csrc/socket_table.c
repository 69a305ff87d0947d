// SPDX-License-Identifier: Apache-2.0

// The table of sockets that all machruns share, in a file in /dev/shm. Nothing is ever taken out: inodes of sockets do not
// come again before 2^32 others, and the entry of the one that was not used for longest is taken for a new one.
#include "socket.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>

enum { SOCKETS = 1 << 16, WINDOW = 16 };
static const uint64_t CLAIMED = UINT64_MAX; // in place of an inode

// Which socket is bound at a path. The time of birth is a part, as inodes of files do come again.
struct name { _Atomic uint64_t key, socket; };

struct table {
	struct sock sock[SOCKETS + WINDOW];
	struct name name[SOCKETS + WINDOW];
};

static struct table *table;
static _Atomic(struct sock *) cached[MAX_FD]; // by descriptor; NULL: not asked for yet
static _Atomic uint64_t inodes[MAX_FD];         // of those
static struct sock no_socket;

static void open_table(void)
{
	static const char path[] = "/dev/shm/machrun-sockets-2";
	int fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0 && (fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666)) >= 0)
		(void)!fchmod(fd, 0666); // for other users, whatever the umask
	void *m = MAP_FAILED;
	if (fd >= 0 && ftruncate(fd, sizeof *table) == 0)
		m = mmap(NULL, sizeof *table, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (m == MAP_FAILED) // each process then knows its own sockets only
		m = mmap(NULL, sizeof *table, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (m == MAP_FAILED)
		abort();
	table = m;
	if (fd >= 0)
		close(fd);
}

static void init(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	pthread_once(&once, open_table);
}

static uint64_t now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
	return (uint64_t)t.tv_sec;
}

struct sock *sock_by_inode(uint64_t inode)
{
	init();
	struct sock *at = &table->sock[inode % SOCKETS];
	for (struct sock *s = at; inode != 0 && s < at + WINDOW; s++)
		if (s->inode == inode)
			return s;
	return NULL;
}

// claim takes a place for a new socket: an empty one, or that of the one that was not used for longest. CLAIMED keeps other processes
// from taking the same one before it has its time; one that was taken since it was looked at has another inode.
static struct sock *claim(uint64_t inode)
{
	struct sock *at = &table->sock[inode % SOCKETS];
	for (;;) {
		struct sock *s = NULL;
		uint64_t before = CLAIMED, used = 0;
		for (int i = 0; i < WINDOW && before != 0; i++) {
			uint64_t its = at[i].inode, then = at[i].used;
			if (its != CLAIMED && (s == NULL || its == 0 || then < used))
				s = &at[i], before = its, used = then;
		}
		if (s != NULL && atomic_compare_exchange_strong(&s->inode, &before, CLAIMED))
			return s;
	}
}

static struct sock *entry(uint64_t inode, int family, int type)
{
	struct sock *s = sock_by_inode(inode);
	if (s == NULL)
		s = claim(inode);
	s->peer = 0;
	s->used = now();
	s->flags = 0;
	s->longest = DATAGRAM_LONGEST;
	s->room = DATAGRAM_ROOM;
	s->waiting = 0;
	s->named = UNNAMED;
	s->pid = 0;
	s->family = family, s->type = type;
	s->inode = inode;
	return s;
}

static int option(int fd, int which)
{
	int v = -1;
	socklen_t n = sizeof v;
	return getsockopt(fd, SOL_SOCKET, which, &v, &n) == 0 ? v : -1;
}

bool sock_is_datagram(const struct sock *s) { return s != NULL && s->family == AF_UNIX && s->type == SOCK_DGRAM; }

// foreign makes the entry of a socket that comes from a program for Linux. Buffers of other sizes than Linux gives were asked for.
static struct sock *foreign(int fd, uint64_t inode)
{
	enum { USUAL = 212992 }; // net.core.wmem_default and rmem_default; what was asked for is doubled by Linux
	int family = option(fd, SO_DOMAIN), type = option(fd, SO_TYPE), send = option(fd, SO_SNDBUF), receive = option(fd, SO_RCVBUF);
	struct sock *s = entry(inode, family, type);
	if (!sock_is_datagram(s))
		return s;
	union address a;
	socklen_t n = sizeof a;
	if (send > 0 && send != USUAL)
		s->longest = send / 2;
	if (receive > 0 && receive != USUAL)
		s->room = receive / 2;
	if (getsockname(fd, &a.sa, &n) == 0)
		s->named = address_cost(&a, n);
	n = sizeof a;
	if (getpeername(fd, &a.sa, &n) == 0) {
		int64_t peer = diag_peer(inode);
		s->flags |= CONNECTED | (address_cost(&a, n) == UNNAMED ? PAIR : 0);
		s->peer = peer > 0 ? (uint64_t)peer : 0;
	}
	return s;
}

struct sock *sock_of(int fd)
{
	if (fd < 0 || fd >= MAX_FD)
		return NULL;
	struct sock *s = atomic_load(&cached[fd]);
	if (s != NULL && s != &no_socket && s->inode != inodes[fd]) // its place was taken
		s = NULL;
	if (s == NULL) {
		struct stat st;
		if (fstat(fd, &st) != 0)
			return NULL;
		if (!S_ISSOCK(st.st_mode))
			s = &no_socket;
		else if ((s = sock_by_inode(st.st_ino)) == NULL)
			s = foreign(fd, st.st_ino);
		inodes[fd] = st.st_ino;
		atomic_store(&cached[fd], s);
	}
	if (s == &no_socket)
		return NULL;
	s->used = now();
	return s;
}

struct sock *sock_made(int fd, int family, int type)
{
	struct stat st;
	init();
	if (fstat(fd, &st) != 0 || fd >= MAX_FD)
		return &no_socket;
	struct sock *s = entry(st.st_ino, family, type);
	s->pid = getpid();
	inodes[fd] = st.st_ino;
	atomic_store(&cached[fd], s);
	return s;
}

void socket_forget(int fd)
{
	if (fd >= 0 && fd < MAX_FD)
		atomic_store(&cached[fd], NULL);
}

// ---- names ----

static uint64_t key_of(const char *path)
{
	struct statx x;
	if (statx(AT_FDCWD, path, 0, STATX_INO | STATX_BTIME, &x) != 0)
		return 0;
	uint64_t k = x.stx_ino;
	const uint64_t parts[] = {(uint64_t)x.stx_dev_major << 32 | x.stx_dev_minor, (uint64_t)x.stx_btime.tv_sec, x.stx_btime.tv_nsec};
	for (int i = 0; i < 3; i++)
		k = (k ^ parts[i]) * 0x9e3779b97f4a7c15u, k ^= k >> 29;
	return k != 0 ? k : 1;
}

void sock_name(struct sock *s, const char *path)
{
	uint64_t key = key_of(path);
	struct name *at = &table->name[key % SOCKETS];
	struct name *n = at;
	for (int i = 0; i < WINDOW; i++)
		if (at[i].key == 0 || at[i].key == key) {
			n = &at[i];
			break;
		}
	n->key = 0;
	n->socket = s->inode;
	n->key = key;
}

struct sock *sock_at(const char *path)
{
	init();
	uint64_t key = key_of(path);
	struct name *at = &table->name[key % SOCKETS];
	for (struct name *n = at; key != 0 && n < at + WINDOW; n++)
		if (n->key == key)
			return sock_by_inode(n->socket);
	return NULL;
}
