// SPDX-License-Identifier: Apache-2.0

// Round trips of one byte over TCP.
//
//	echo serve PORT                       answers one client and ends with it
//	echo ask ADDRESS PORT MILLISECONDS    prints the round trips: count, length of all, and quantiles in ns
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { WARM = 20, MAX_TRIPS = 4 * 1000 * 1000 };

_Noreturn static void die(const char *what)
{
	fprintf(stderr, "echo: %s: %s\n", what, strerror(errno));
	exit(1);
}

static int64_t now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static int tcp_socket(void)
{
	int one = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		die("socket");
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)); // an accepted socket has it from the listener
	return fd;
}

static int serve(int port)
{
	int listener = tcp_socket();
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
	if (bind(listener, (struct sockaddr *)&a, sizeof(a)) < 0 || listen(listener, 1) < 0)
		die("listen");
	int fd = accept(listener, NULL, NULL);
	if (fd < 0)
		die("accept");
	char byte;
	while (read(fd, &byte, 1) == 1)
		if (write(fd, &byte, 1) != 1)
			break;
	return 0;
}

static int compare(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
	return (x > y) - (x < y);
}

static int64_t trip(int fd)
{
	char byte = 0;
	int64_t begin = now();
	if (write(fd, &byte, 1) != 1 || read(fd, &byte, 1) != 1)
		die("round trip");
	return now() - begin;
}

static int ask(const char *address, int port, int milliseconds)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
	int fd = tcp_socket();
	if (inet_pton(AF_INET, address, &a.sin_addr) != 1 || connect(fd, (struct sockaddr *)&a, sizeof(a)) < 0)
		die(address);
	int64_t *trips = malloc(MAX_TRIPS * sizeof(*trips));
	if (!trips)
		die("malloc");
	for (int i = 0; i < WARM; i++)
		trip(fd);
	size_t n = 0;
	int64_t begin = now(), end = begin + (int64_t)milliseconds * 1000000;
	while (now() < end && n < MAX_TRIPS)
		trips[n++] = trip(fd);
	int64_t length = now() - begin;
	qsort(trips, n, sizeof(*trips), compare);
	printf("{\"trips\":%zu,\"ns\":%lld,\"p50\":%lld,\"p99\":%lld,\"p999\":%lld}\n", n, (long long)length,
		(long long)trips[n / 2], (long long)trips[n * 99 / 100], (long long)trips[n * 999 / 1000]);
	return 0;
}

int main(int argc, char **argv)
{
	if (argc == 3 && strcmp(argv[1], "serve") == 0)
		return serve(atoi(argv[2]));
	if (argc == 5 && strcmp(argv[1], "ask") == 0)
		return ask(argv[2], atoi(argv[3]), atoi(argv[4]));
	fprintf(stderr, "usage: echo serve PORT | ask ADDRESS PORT MILLISECONDS\n");
	return 2;
}
