// SPDX-License-Identifier: Apache-2.0

// Port forwarding of plain interfaces, and datagrams in bulk.
#include "harness.h"

#include <arpa/inet.h>
#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

CASE(port_forwarding)
{
	enum { TAKEN = VMNET_FAILURE, BAD = VMNET_INVALID_ARGUMENT, OK = VMNET_SUCCESS };
	struct in_addr in = {htonl(0xc0a84007)}, out = {htonl(0xc0a84107)}, *none = NULL;
	const struct {
		uint8_t protocol, family;
		uint16_t external;
		struct in_addr *address;
		vmnet_return_t result, status;
	} cases[] = {
		{1, DARWIN_AF_INET, 2222, &in, BAD, 0}, {6, DARWIN_AF_INET, 0, &in, BAD, 0}, {6, 10, 2222, &in, BAD, 0},
		{6, DARWIN_AF_INET, 2222, none, BAD, 0}, {6, DARWIN_AF_INET, 2222, &in, OK, OK},
		{6, DARWIN_AF_INET, 2222, &in, OK, TAKEN}, {17, DARWIN_AF_INET, 2222, &out, OK, BAD}, // not of this subnet
	};
	static struct waiter w; // its handlers run on no queue of ours
	struct nic n;
	int calls = 0;
	waiter_status(&w);
	for (int round = 0; round < 2; round++) { // the rule goes with the interface
		nic_open(&n, NULL, describe(VMNET_SHARED_MODE));
		for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
			EQUAL(cases[i].result, vmnet_interface_add_ip_port_forwarding_rule(n.ref, cases[i].protocol, cases[i].external,
				cases[i].family, cases[i].address, 22, &w.b));
			if (cases[i].result != OK)
				continue;
			WAIT(&w, ++calls);
			EQUAL(cases[i].status, w.status);
		}
		nic_close(&n);
	}
	xpc_object_t d = describe(VMNET_BRIDGED_MODE); // which has no addresses of its own
	xpc_dictionary_set_string(d, vmnet_shared_interface_name_key, "en0");
	nic_open(&n, NULL, d);
	EQUAL(OK, vmnet_interface_add_ip_port_forwarding_rule(n.ref, 6, 2224, DARWIN_AF_INET, &in, 22, &w.b));
	WAIT(&w, ++calls);
	EQUAL(BAD, w.status);
	nic_close(&n);
	waiter_free(&w);
}

CASE(datagrams_are_checked)
{
	int fd[2];
	char b[20];
	struct iovec v = {b, sizeof b};
	const struct msghdr_x good = {.msg_iov = &v, .msg_iovlen = 1};
	struct msghdr_x name = good, length = good, m = good;
	CHECK(socketpair(AF_UNIX, SOCK_DGRAM, 0, fd) == 0);
	name.msg_name = b;
	length.msg_controllen = 1;
	const struct {
		struct msghdr_x *m;
		unsigned count;
		int flags;
	} bad[] = {{&m, 1, MSG_PEEK}, {&m, 0, 0}, {NULL, 1, 0}, {&name, 1, 0}, {&length, 1, 0}};
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		errno = 0;
		EQUAL(-1, sendmsg_x(fd[0], bad[i].m, bad[i].count, bad[i].flags));
		EQUAL(EINVAL, errno);
		errno = 0;
		EQUAL(-1, recvmsg_x(fd[1], bad[i].m, bad[i].count, bad[i].flags));
		EQUAL(EINVAL, errno);
	}
	EQUAL(-1, recvmsg_x(fd[0], &m, 1, 0x80)); // darwin's MSG_DONTWAIT
	EQUAL(EAGAIN, errno);
	close(fd[0]);
	close(fd[1]);
}
