// SPDX-License-Identifier: Apache-2.0

// tap SOCKET INTERFACE: a kernel's network as a client of the stream socket. It carries frames between the socket and a TAP interface, which
// is there already, until it is killed.
#include "wire.h"

#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { FRAMES = 64, ROOM = PREFIX_LEN + 1514, CONNECT_TRIES = 2000, RETRY_US = 5000 };

static int tap, client;

static ssize_t to_tap(void *unused, const uint8_t *buf, size_t len)
{
	size_t done = 0;
	(void)unused;
	while (len - done >= PREFIX_LEN) {
		size_t n = get_prefix(buf + done);
		if (n > MAX_FRAME_LEN)
			return -1;
		if (len - done < PREFIX_LEN + n)
			break;
		(void)!write(tap, buf + done + PREFIX_LEN, n); // the kernel counts what it drops
		done += PREFIX_LEN + n;
	}
	return (ssize_t)done;
}

static void *from_tap(void *unused)
{
	static uint8_t buf[FRAMES * ROOM];
	for (size_t len = 0;;) {
		ssize_t n = len + ROOM > sizeof buf ? 0 : read(tap, buf + len + PREFIX_LEN, ROOM - PREFIX_LEN);
		if (n > 0) {
			put_prefix(buf + len, (uint32_t)n);
			len += PREFIX_LEN + (size_t)n;
		} else if (len > 0) {
			if (write_full(client, buf, len))
				die("write to the socket");
			len = 0;
		} else {
			poll(&(struct pollfd){.fd = tap, .events = POLLIN}, 1, -1);
		}
	}
	return unused;
}

int main(int argc, char **argv)
{
	struct ifreq ifr = {.ifr_flags = IFF_TAP | IFF_NO_PI};
	if (argc != 3)
		die("want a socket and an interface");
	struct sockaddr_un to = address_of(argv[1], "");
	tap = open("/dev/net/tun", O_RDWR | O_NONBLOCK);
	snprintf(ifr.ifr_name, sizeof ifr.ifr_name, "%s", argv[2]);
	if (tap < 0 || ioctl(tap, TUNSETIFF, &ifr))
		die("open the TAP interface");
	client = make_socket(SOCK_STREAM);
	for (int waited = 0; connect(client, (struct sockaddr *)&to, sizeof to); waited++)
		if (waited == CONNECT_TRIES || usleep(RETRY_US))
			die("connect");
	start_thread(from_tap, NULL);
	read_frames(client, to_tap, NULL);
	die("read from the socket");
}
