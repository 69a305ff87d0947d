// SPDX-License-Identifier: Apache-2.0

// A fake VM: joins a TAP device in its network namespace with a client socket of a relay. The kernel's TCP/IP stack behind the
// device is the guest, this program is the VMM.
//
//	fakevm stream SENDER MTU ADDRESS MAC SOCKET
//	fakevm connected SENDER MTU ADDRESS MAC SOCKET LOCAL   unix datagrams from the path LOCAL over a connected socket
//	fakevm path SENDER MTU ADDRESS MAC SOCKET LOCAL        the same, the socket's name with each datagram
//	fakevm passed SENDER MTU ADDRESS MAC                   a connected datagram socket, inherited as descriptor 3
//
// SENDER is single, a frame a system call as QEMU does, or batch. "ready" on standard output says that all is set up.
#include "fakevm.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static const char tap_name[] = "eth0";

enum {
	PASSED_FD = 3,
	CONNECT_TRIES = 5000, // of a millisecond: as long as a relay may take to start
	DATAGRAM_BUFFER = 1024 * 1024
};

_Noreturn void die(const char *what)
{
	fprintf(stderr, "fakevm: %s: %s\n", what, strerror(errno));
	_exit(1); // the other thread may be anywhere
}

_Noreturn static void usage(void)
{
	fprintf(stderr, "usage: fakevm stream|connected|path|passed single|batch MTU ADDRESS MAC [SOCKET [LOCAL]]\n");
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

// open_socket connects to path. The relay may not be there yet.
static void open_socket(struct vm *vm, const char *path, const char *local)
{
	vm->sock = socket(AF_UNIX, (vm->datagrams ? SOCK_DGRAM : SOCK_STREAM) | SOCK_CLOEXEC, 0);
	if (vm->sock < 0)
		die("socket");
	struct sockaddr_un a;
	if (local) {
		socklen_t n = unix_address(&a, local);
		if (bind(vm->sock, (struct sockaddr *)&a, n) < 0)
			die(local);
		int size = DATAGRAM_BUFFER;
		setsockopt(vm->sock, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
		setsockopt(vm->sock, SOL_SOCKET, SO_RCVBUF, &size, sizeof(size));
	}
	vm->peer_len = unix_address(&vm->peer, path);
	for (int i = 0;; i++) {
		if (vm->unconnected ? access(path, F_OK) == 0 : connect(vm->sock, (struct sockaddr *)&vm->peer, vm->peer_len) == 0)
			return;
		if ((errno != ENOENT && errno != ECONNREFUSED && errno != EAGAIN) || i == CONNECT_TRIES)
			die(path);
		usleep(1000);
	}
}

int main(int argc, char **argv)
{
	if (argc < 6)
		usage();
	const char *transport = argv[1];
	bool stream = strcmp(transport, "stream") == 0, passed = strcmp(transport, "passed") == 0;
	struct vm vm = {.datagrams = !stream, .batch = strcmp(argv[2], "batch") == 0, .unconnected = strcmp(transport, "path") == 0};
	bool local = vm.unconnected || strcmp(transport, "connected") == 0;
	if ((!stream && !passed && !local) || argc != 6 + (passed ? 0 : 1) + (local ? 1 : 0))
		usage();
	if (!vm.batch && strcmp(argv[2], "single") != 0)
		usage();
	vm.tap = open_tap(tap_name, vm.batch);
	if (passed)
		vm.sock = PASSED_FD;
	else
		open_socket(&vm, argv[6], local ? argv[7] : NULL);
	set_up(tap_name, argv[5], argv[4], atoi(argv[3]));
	pthread_t thread;
	errno = pthread_create(&thread, NULL, stream ? stream_out : datagrams_out, &vm);
	if (errno)
		die("start a thread");
	puts("ready");
	fflush(stdout);
	if (stream)
		stream_in(&vm);
	else
		datagrams_in(&vm);
}
