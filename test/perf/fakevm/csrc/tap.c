// SPDX-License-Identifier: Apache-2.0

// The kernel's side of a fake VM: a TAP device with an address.
#include "fakevm.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <net/if_arp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

int open_tap(const char *name, bool nonblocking, bool offload)
{
	int fd = open("/dev/net/tun", O_RDWR | O_CLOEXEC | (nonblocking ? O_NONBLOCK : 0));
	if (fd < 0)
		die("/dev/net/tun");
	struct ifreq r = {.ifr_flags = (short)(IFF_TAP | IFF_NO_PI | (offload ? IFF_VNET_HDR : 0))};
	snprintf(r.ifr_name, sizeof(r.ifr_name), "%s", name);
	if (ioctl(fd, TUNSETIFF, &r) < 0)
		die("TUNSETIFF");
	if (offload && ioctl(fd, TUNSETOFFLOAD, TUN_F_CSUM | TUN_F_TSO4) < 0)
		die("TUNSETOFFLOAD");
	return fd;
}

static void control(int fd, unsigned long request, struct ifreq *r, const char *what)
{
	if (ioctl(fd, request, r) < 0)
		die(what);
}

// set_up gives the interface its MAC address, its MTU and an address with a /24, and starts it.
void set_up(const char *name, const uint8_t mac[MAC_LEN], const uint8_t address[4], int mtu)
{
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		die("socket");
	struct ifreq r = {.ifr_hwaddr.sa_family = ARPHRD_ETHER};
	snprintf(r.ifr_name, sizeof(r.ifr_name), "%s", name);
	memcpy(r.ifr_hwaddr.sa_data, mac, MAC_LEN);
	control(fd, SIOCSIFHWADDR, &r, "set the MAC address");
	r.ifr_mtu = mtu;
	control(fd, SIOCSIFMTU, &r, "set the MTU");
	struct sockaddr_in a = {.sin_family = AF_INET};
	memcpy(&a.sin_addr, address, sizeof(a.sin_addr));
	memcpy(&r.ifr_addr, &a, sizeof(a));
	control(fd, SIOCSIFADDR, &r, "set the address");
	a.sin_addr.s_addr = htonl(0xffffff00);
	memcpy(&r.ifr_netmask, &a, sizeof(a));
	control(fd, SIOCSIFNETMASK, &r, "set the netmask");
	control(fd, SIOCGIFFLAGS, &r, "get the flags");
	r.ifr_flags |= IFF_UP;
	control(fd, SIOCSIFFLAGS, &r, "start the interface");
	close(fd);
}

static void wait_for(int fd, short events)
{
	struct pollfd p = {.fd = fd, .events = events};
	while (poll(&p, 1, -1) < 0)
		if (errno != EINTR)
			die("poll");
}

void tap_wait(int tap) { wait_for(tap, POLLIN); }
void tap_wait_writable(int tap) { wait_for(tap, POLLOUT); }

long tap_read(int tap, uint8_t *buf, size_t n)
{
	for (;;) {
		ssize_t got = read(tap, buf, n);
		if (got > 0)
			return got;
		if (got < 0 && errno == EAGAIN)
			return 0;
		if (got < 0 && errno != EINTR)
			die("read from the TAP device");
	}
}

// tap_write loses a frame that the kernel does not want, as a network card would.
void tap_write(int tap, const uint8_t *frame, size_t n)
{
	while (write(tap, frame, n) < 0) {
		if (errno == EAGAIN)
			tap_wait_writable(tap);
		else if (errno != EINTR && errno != ENOBUFS && errno != ENOMEM && errno != EINVAL)
			die("write to the TAP device");
		else if (errno != EINTR)
			return;
	}
}
