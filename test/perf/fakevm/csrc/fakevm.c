// SPDX-License-Identifier: Apache-2.0

// A fake VM: joins a TAP device in its network namespace with a client socket of a relay. The kernel's TCP/IP stack behind the
// device is the guest, this program is the VMM.
//
//	fakevm stream SENDER MTU ADDRESS MAC SOCKET
//	fakevm path SENDER MTU ADDRESS MAC SOCKET LOCAL   unix datagrams from the path LOCAL, the socket's name with each of them
//	fakevm passed SENDER MTU ADDRESS MAC SOCKET       a connected datagram socket that the relay passes, see attach
//
// SENDER is single, a frame a system call as QEMU does, batch, or for a stream offload (see offload.c). "ready" on standard output says that all is set up.
#include "fakevm.h"

#include <arpa/inet.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static const char tap_name[] = "eth0";

enum {
	CONNECT_TRIES = 5000, // of a millisecond: as long as a relay may take to start
	DATAGRAM_BUFFER = 1024 * 1024,
	REPLY_SIZE = 4096
};

_Noreturn void die(const char *what)
{
	fprintf(stderr, "fakevm: %s: %s\n", what, strerror(errno));
	_exit(1); // the other thread may be anywhere
}

_Noreturn static void usage(void)
{
	fprintf(stderr, "usage: fakevm stream|path|passed single|batch|offload MTU ADDRESS MAC SOCKET [LOCAL]\n");
	exit(2);
}

static socklen_t unix_address(struct sockaddr_un *a, const char *path)
{
	*a = (struct sockaddr_un){.sun_family = AF_UNIX};
	if (strlen(path) >= sizeof(a->sun_path)) {
		errno = ENAMETOOLONG;
		die(path);
	}
	strcpy(a->sun_path, path);
	return sizeof(*a);
}

// connect_to connects to a relay that may not be there yet.
static void connect_to(int fd, const struct sockaddr_un *a)
{
	for (int i = 0; connect(fd, (const struct sockaddr *)a, sizeof(*a)) < 0; i++) {
		if ((errno != ENOENT && errno != ECONNREFUSED && errno != EAGAIN) || i == CONNECT_TRIES)
			die(a->sun_path);
		usleep(1000);
	}
}

static int new_socket(int type)
{
	int fd = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);
	if (fd < 0)
		die("socket");
	return fd;
}

static void set_buffers(int fd)
{
	int size = DATAGRAM_BUFFER;
	setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
	setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof(size));
}

// attach asks the relay for a connected datagram socket. The connection to ask by stays open: it is the lifeline.
static int attach(const struct sockaddr_un *a)
{
	static const char request[] = "{\"version\":1,\"transport\":\"dgram\"}\n";
	char reply[REPLY_SIZE];
	union {
		struct cmsghdr header;
		char space[CMSG_SPACE(sizeof(int))];
	} control;
	struct iovec part = {reply, sizeof(reply) - 1};
	struct msghdr msg = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control)};
	int lifeline = new_socket(SOCK_STREAM), fd;
	connect_to(lifeline, a);
	if (write(lifeline, request, sizeof(request) - 1) < 0)
		die("ask for a descriptor");
	ssize_t n = recvmsg(lifeline, &msg, MSG_CMSG_CLOEXEC);
	if (n <= 0 || msg.msg_controllen < CMSG_LEN(sizeof(int))) {
		fprintf(stderr, "fakevm: no descriptor came: %.*s\n", n > 0 ? (int)n : 0, reply);
		exit(1);
	}
	memcpy(&fd, CMSG_DATA(&control.header), sizeof(fd));
	return fd;
}

// open_socket connects to the relay by the transport.
static void open_socket(struct vm *vm, const char *transport, const char *path, const char *local)
{
	vm->peer_len = unix_address(&vm->peer, path);
	if (strcmp(transport, "passed") == 0) {
		vm->sock = attach(&vm->peer);
		set_buffers(vm->sock);
		return;
	}
	vm->sock = new_socket(vm->datagrams ? SOCK_DGRAM : SOCK_STREAM);
	if (!vm->datagrams) {
		connect_to(vm->sock, &vm->peer);
		return;
	}
	struct sockaddr_un a;
	socklen_t n = unix_address(&a, local);
	if (bind(vm->sock, (struct sockaddr *)&a, n) < 0)
		die(local);
	set_buffers(vm->sock);
	int probe = new_socket(SOCK_DGRAM); // waits for the relay
	connect_to(probe, &vm->peer);
	close(probe);
}

static bool parse_mac(const char *text, uint8_t m[MAC_LEN])
{
	return sscanf(text, "%hhx:%hhx:%hhx:%hhx:%hhx:%hhx", m, m + 1, m + 2, m + 3, m + 4, m + 5) == MAC_LEN;
}

int main(int argc, char **argv)
{
	if (argc < 7)
		usage();
	const char *transport = argv[1];
	bool stream = strcmp(transport, "stream") == 0;
	struct vm vm = {.datagrams = !stream, .batch = strcmp(argv[2], "batch") == 0, .unconnected = strcmp(transport, "path") == 0};
	if ((!stream && !vm.unconnected && strcmp(transport, "passed") != 0) || argc != (vm.unconnected ? 8 : 7))
		usage();
	vm.offload = stream && strcmp(argv[2], "offload") == 0;
	if (!vm.batch && !vm.offload && strcmp(argv[2], "single") != 0)
		usage();
	uint8_t mac[MAC_LEN], address[4];
	if (inet_pton(AF_INET, argv[4], address) != 1 || !parse_mac(argv[5], mac))
		usage();
	vm.tap = open_tap(tap_name, vm.batch || vm.offload, vm.offload);
	open_socket(&vm, transport, argv[6], vm.unconnected ? argv[7] : NULL);
	set_up(tap_name, mac, address, atoi(argv[3]));
	announce(&vm, mac, address);
	pthread_t thread;
	errno = pthread_create(&thread, NULL, vm.offload ? offload_out : stream ? stream_out : datagrams_out, &vm);
	if (errno)
		die("start a thread");
	puts("ready");
	fflush(stdout);
	if (stream)
		stream_in(&vm);
	else
		datagrams_in(&vm);
}
