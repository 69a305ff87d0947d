// SPDX-License-Identifier: Apache-2.0

// Port forwarding of plain interfaces, datagrams in bulk, sockets from launchd.
#include "harness.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

static vmnet_return_t forward(struct nic *n, uint8_t proto, uint16_t external, uint8_t family, const void *address,
	struct waiter *w)
{
	return vmnet_interface_add_ip_port_forwarding_rule(n->ref, proto, external, family, address, 22, &w->b);
}

CASE(port_forwarding)
{
	struct nic n;
	static struct waiter w; // its handlers run on no queue of ours
	struct in_addr in, out;
	inet_pton(AF_INET, "192.168.64.7", &in);
	inet_pton(AF_INET, "192.168.65.7", &out);
	waiter_status(&w);
	nic_open(&n, NULL, describe(VMNET_SHARED_MODE));
	EQUAL(VMNET_INVALID_ARGUMENT, forward(&n, 1, 2222, DARWIN_AF_INET, &in, &w));
	EQUAL(VMNET_INVALID_ARGUMENT, forward(&n, 6, 0, DARWIN_AF_INET, &in, &w));
	EQUAL(VMNET_INVALID_ARGUMENT, forward(&n, 6, 2222, 10, &in, &w));
	EQUAL(VMNET_INVALID_ARGUMENT, forward(&n, 6, 2222, DARWIN_AF_INET, NULL, &w));
	EQUAL(VMNET_SUCCESS, forward(&n, 6, 2222, DARWIN_AF_INET, &in, &w));
	WAIT(&w, 1);
	EQUAL(VMNET_SUCCESS, w.status);
	EQUAL(VMNET_SUCCESS, forward(&n, 6, 2222, DARWIN_AF_INET, &in, &w)); // taken
	WAIT(&w, 2);
	EQUAL(VMNET_FAILURE, w.status);
	EQUAL(VMNET_SUCCESS, forward(&n, 17, 2222, DARWIN_AF_INET, &out, &w)); // not of this subnet
	WAIT(&w, 3);
	EQUAL(VMNET_INVALID_ARGUMENT, w.status);
	nic_close(&n);
	nic_open(&n, NULL, describe(VMNET_SHARED_MODE)); // the rule went with the interface
	EQUAL(VMNET_SUCCESS, forward(&n, 6, 2222, DARWIN_AF_INET, &in, &w));
	WAIT(&w, 4);
	EQUAL(VMNET_SUCCESS, w.status);
	flip("handler.vmnet_interface_add_ip_port_forwarding_rule", VMNET_NOT_AUTHORIZED, 1, 0);
	EQUAL(VMNET_SUCCESS, forward(&n, 6, 2223, DARWIN_AF_INET, &in, &w));
	WAIT(&w, 5);
	EQUAL(VMNET_NOT_AUTHORIZED, w.status);
	flip("result.vmnet_interface_add_ip_port_forwarding_rule", VMNET_MEM_FAILURE, 1, 0);
	EQUAL(VMNET_MEM_FAILURE, forward(&n, 6, 2223, DARWIN_AF_INET, &in, &w));
	flip("silent.vmnet_interface_add_ip_port_forwarding_rule", 1, 1, 0);
	EQUAL(VMNET_SUCCESS, forward(&n, 6, 2223, DARWIN_AF_INET, &in, &w));
	NO_MORE(&w, 6);
	nic_close(&n);
	xpc_object_t d = describe(VMNET_BRIDGED_MODE);
	xpc_dictionary_set_string(d, vmnet_shared_interface_name_key, "en0");
	nic_open(&n, NULL, d);
	EQUAL(VMNET_SUCCESS, forward(&n, 6, 2224, DARWIN_AF_INET, &in, &w));
	WAIT(&w, 6);
	EQUAL(VMNET_INVALID_ARGUMENT, w.status);
	nic_close(&n);
	waiter_free(&w);
}

struct bulk {
	struct msghdr_x m[300];
	struct iovec v[300];
	char bytes[300][64];
};

static void bulk_make(struct bulk *b, size_t len)
{
	memset(b, 0, sizeof *b);
	for (int i = 0; i < 300; i++) {
		snprintf(b->bytes[i], sizeof b->bytes[i], "datagram %d", i);
		b->v[i] = (struct iovec){b->bytes[i], len};
		b->m[i].msg_iov = &b->v[i];
		b->m[i].msg_iovlen = 1;
	}
}

static void pair(int fd[2]) { CHECK(socketpair(AF_UNIX, SOCK_DGRAM, 0, fd) == 0); }

CASE(datagrams_in_bulk)
{
	int fd[2];
	static struct bulk out, in;
	pair(fd);
	bulk_make(&out, 20);
	bulk_make(&in, 64);
	int sent = (int)sendmsg_x(fd[0], out.m, 5, 0);
	EQUAL(5, sent);
	memset(in.bytes, 0, sizeof in.bytes);
	EQUAL(5, recvmsg_x(fd[1], in.m, 300, 0)); // waits for one only
	for (int i = 0; i < 5; i++) {
		EQUAL(20, in.m[i].msg_datalen);
		CHECK(strcmp(in.bytes[i], out.bytes[i]) == 0);
	}
	EQUAL(-1, recvmsg_x(fd[1], in.m, 1, 0x80));
	EQUAL(EAGAIN, errno);
	do
		sent = (int)sendmsg_x(fd[0], out.m, 300, 0); // does not block
	while (sent > 0);
	EQUAL(ENOBUFS, errno);
	close(fd[0]);
	close(fd[1]);
}

CASE(datagrams_are_checked)
{
	int fd[2];
	static struct bulk b;
	pair(fd);
	bulk_make(&b, 20);
	EQUAL(-1, sendmsg_x(fd[0], b.m, 1, MSG_PEEK));
	EQUAL(EINVAL, errno);
	EQUAL(-1, sendmsg_x(fd[0], b.m, 0, 0));
	EQUAL(-1, sendmsg_x(fd[0], NULL, 1, 0));
	b.m[0].msg_name = b.bytes;
	EQUAL(-1, sendmsg_x(fd[0], b.m, 1, 0));
	EQUAL(EINVAL, errno);
	b.m[0].msg_name = NULL;
	b.m[0].msg_controllen = 1;
	EQUAL(-1, sendmsg_x(fd[0], b.m, 1, 0));
	EQUAL(-1, recvmsg_x(fd[0], b.m, 1, 0x80));
	EQUAL(EINVAL, errno);
	close(fd[0]);
	close(fd[1]);
	int lone = socket(AF_UNIX, SOCK_DGRAM, 0);
	b.m[0].msg_controllen = 0;
	EQUAL(-1, sendmsg_x(lone, b.m, 1, 0));
	EQUAL(ENOTCONN, errno);
	close(lone);
}

static void socket_named(int i, const char *name, int fd)
{
	struct launch *l = &control()->launch[i];
	snprintf(l->name, sizeof l->name, "%s", name);
	atomic_store(&l->fd_plus_1, fd + 1);
}

CASE(launchd_sockets)
{
	int *fds;
	size_t n;
	EQUAL(ESRCH, launch_activate_socket("Listeners", &fds, &n));
	socket_named(0, "Listeners", 3);
	socket_named(1, "Other", 4);
	socket_named(2, "Listeners", 5);
	EQUAL(ENOENT, launch_activate_socket("None", &fds, &n));
	EQUAL(0, launch_activate_socket("Listeners", &fds, &n));
	EQUAL(2, n);
	EQUAL(3, fds[0]);
	EQUAL(5, fds[1]);
	free(fds);
	EQUAL(EALREADY, launch_activate_socket("Listeners", &fds, &n));
	EQUAL(0, launch_activate_socket("Other", &fds, &n));
	EQUAL(4, fds[0]);
	free(fds);
}
