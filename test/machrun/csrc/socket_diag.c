// SPDX-License-Identifier: Apache-2.0

// Who a socket's peer is, from Linux's kernel (sock_diag(7)), which does not tell getpeername that a datagram socket's peer has gone.
#include "socket.h"

#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sock_diag.h>
#include <linux/unix_diag.h>
#include <pthread.h>

void refused(const char *what, int64_t value)
{
	if (machrun_trace)
		fprintf(stderr, "machrun: the model of sockets has no %s %#llx\n", what, (long long)value);
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int link_fd = -1, link_pid;

static int64_t parse(const char *answer, ssize_t n)
{
	const struct nlmsghdr *h = (const void *)answer;
	if (n < (ssize_t)NLMSG_LENGTH(sizeof(struct unix_diag_msg)) || h->nlmsg_type != SOCK_DIAG_BY_FAMILY)
		return -1;
	const struct unix_diag_msg *m = NLMSG_DATA(h);
	const struct rtattr *a = (const void *)(m + 1);
	int left = (int)(h->nlmsg_len - NLMSG_LENGTH(sizeof *m));
	for (; RTA_OK(a, left); a = RTA_NEXT(a, left))
		if (a->rta_type == UNIX_DIAG_PEER)
			return *(const uint32_t *)RTA_DATA(a);
	return -1;
}

int64_t diag_peer(uint64_t inode)
{
	struct {
		struct nlmsghdr h;
		struct unix_diag_req r;
	} q = {
		.h = {.nlmsg_len = sizeof q, .nlmsg_type = SOCK_DIAG_BY_FAMILY, .nlmsg_flags = NLM_F_REQUEST},
		.r = {.sdiag_family = AF_UNIX, .udiag_states = ~0u, .udiag_ino = (uint32_t)inode, .udiag_show = UDIAG_SHOW_PEER,
			.udiag_cookie = {~0u, ~0u}},
	};
	char answer[1024] __attribute__((aligned(8)));
	ssize_t n = -1;
	pthread_mutex_lock(&lock);
	if (link_pid != getpid()) { // a child must not take its parent's answers
		if (link_fd >= 0)
			close(link_fd);
		link_fd = socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
		link_pid = getpid();
	}
	if (send(link_fd, &q, sizeof q, 0) == sizeof q)
		n = recv(link_fd, answer, sizeof answer, 0);
	pthread_mutex_unlock(&lock);
	return parse(answer, n);
}

static void before_fork(void) { pthread_mutex_lock(&lock); }
static void after_fork(void) { pthread_mutex_unlock(&lock); }
__attribute__((constructor)) static void init(void) { pthread_atfork(before_fork, after_fork, after_fork); }
