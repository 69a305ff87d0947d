// SPDX-License-Identifier: Apache-2.0

// Frames between a TAP device and a socket: one thread for each direction.
#define _GNU_SOURCE
#include "fakevm.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
	ARP_LEN = 60, // the shortest Ethernet frame
	READ_SIZE = 256 * 1024
};

uint8_t *buffer(size_t n)
{
	uint8_t *b = malloc(n);
	if (!b)
		die("malloc");
	return b;
}

void write_full(int fd, const uint8_t *buf, size_t n)
{
	while (n > 0) {
		ssize_t done = write(fd, buf, n);
		if (done < 0 && errno != EINTR)
			die("write to the socket");
		if (done > 0) {
			buf += done;
			n -= (size_t)done;
		}
	}
}

// put_frame reads a frame from the TAP device to behind its length. Returns the bytes of both, or 0 when there is none.
static size_t put_frame(int tap, uint8_t *at)
{
	long n = tap_read(tap, at + PREFIX_LEN, SLOT);
	if (n <= 0)
		return 0;
	uint32_t prefix = htonl((uint32_t)n);
	memcpy(at, &prefix, sizeof(prefix));
	return PREFIX_LEN + (size_t)n;
}

void *stream_out(void *arg)
{
	struct vm *vm = arg;
	uint8_t *buf = buffer(WRITE_SIZE + PREFIX_LEN + SLOT);
	for (;;) {
		size_t len = 0, more;
		int frames = 0;
		do {
			more = put_frame(vm->tap, buf + len);
			len += more;
		} while (vm->batch && more > 0 && ++frames < BATCH && len < WRITE_SIZE);
		if (len > 0)
			write_full(vm->sock, buf, len);
		else
			tap_wait(vm->tap);
	}
	return NULL;
}

size_t whole_frame(const uint8_t *buf, size_t len)
{
	uint32_t n;
	if (len < PREFIX_LEN)
		return 0;
	memcpy(&n, buf, sizeof(n));
	n = ntohl(n);
	if (n < MIN_FRAME || n > MAX_FRAME) {
		errno = EPROTO;
		die("the length of a frame");
	}
	return len < PREFIX_LEN + n ? 0 : n;
}

// take_frames writes the whole frames in buf to the TAP device and returns their bytes.
static size_t take_frames(int tap, const uint8_t *buf, size_t len)
{
	size_t off = 0, n;
	while ((n = whole_frame(buf + off, len - off)) > 0) {
		tap_write(tap, buf + off + PREFIX_LEN, n);
		off += PREFIX_LEN + n;
	}
	return off;
}

void stream_in(struct vm *vm)
{
	uint8_t *buf = buffer(READ_SIZE + PREFIX_LEN + MAX_FRAME);
	size_t have = 0;
	for (;;) {
		ssize_t n = read(vm->sock, buf + have, READ_SIZE);
		if (n == 0)
			errno = EPIPE;
		if (n == 0 || (n < 0 && errno != EINTR))
			die("read from the socket");
		if (n < 0)
			continue;
		have += (size_t)n;
		size_t done = vm->offload ? take_offloaded(vm->tap, buf, have) : take_frames(vm->tap, buf, have);
		have -= done;
		memmove(buf, buf + done, have);
	}
}

// Datagrams that move with one system call.
struct datagrams {
	struct mmsghdr msgs[DATAGRAMS];
	struct iovec iov[DATAGRAMS];
	uint8_t *slots;
};

static struct datagrams *new_datagrams(struct vm *vm)
{
	struct datagrams *d = (struct datagrams *)buffer(sizeof(*d));
	memset(d, 0, sizeof(*d));
	d->slots = buffer((size_t)DATAGRAMS * SLOT);
	for (int i = 0; i < DATAGRAMS; i++) {
		d->iov[i] = (struct iovec){d->slots + (size_t)i * SLOT, SLOT};
		d->msgs[i].msg_hdr = (struct msghdr){.msg_iov = &d->iov[i], .msg_iovlen = 1};
	}
	if (vm && vm->unconnected)
		for (int i = 0; i < DATAGRAMS; i++) {
			d->msgs[i].msg_hdr.msg_name = &vm->peer;
			d->msgs[i].msg_hdr.msg_namelen = vm->peer_len;
		}
	return d;
}

static void send_datagrams(struct vm *vm, struct datagrams *d, unsigned count)
{
	for (unsigned done = 0; done < count;) {
		int n = sendmmsg(vm->sock, d->msgs + done, count - done, 0);
		if (n > 0)
			done += (unsigned)n;
		else if (errno == ENOBUFS)
			usleep(50);
		else if (errno != EINTR)
			die("send to the socket");
	}
}

// announce sends an ARP announcement (RFC 5227), as guests do: relays learn by it where they are.
void announce(struct vm *vm, const uint8_t mac[MAC_LEN], const uint8_t address[4])
{
	uint8_t buf[PREFIX_LEN + ARP_LEN] = {0, 0, 0, ARP_LEN}, *f = buf + PREFIX_LEN;
	static const uint8_t fixed[] = {0x08, 0x06, 0, 1, 0x08, 0, MAC_LEN, 4, 0, 1}; // a request for Ethernet and IPv4
	memset(f, 0xff, MAC_LEN);
	memcpy(f + 6, mac, MAC_LEN);
	memcpy(f + 12, fixed, sizeof(fixed));
	memcpy(f + 22, mac, MAC_LEN);
	memcpy(f + 28, address, 4);
	memcpy(f + 38, address, 4);
	if (!vm->datagrams) {
		write_full(vm->sock, buf, sizeof(buf));
		return;
	}
	struct datagrams *d = new_datagrams(vm);
	memcpy(d->slots, f, ARP_LEN);
	d->iov[0].iov_len = ARP_LEN;
	send_datagrams(vm, d, 1);
	free(d->slots);
	free(d);
}

void *datagrams_out(void *arg)
{
	struct vm *vm = arg;
	struct datagrams *d = new_datagrams(vm);
	for (;;) {
		unsigned count = 0;
		do {
			long n = tap_read(vm->tap, d->slots + (size_t)count * SLOT, SLOT);
			if (n == 0)
				break;
			d->iov[count++].iov_len = (size_t)n;
		} while (vm->batch && count < DATAGRAMS);
		if (count > 0)
			send_datagrams(vm, d, count);
		else
			tap_wait(vm->tap);
	}
	return NULL;
}

void datagrams_in(struct vm *vm)
{
	struct datagrams *d = new_datagrams(NULL);
	for (;;) {
		int n = recvmmsg(vm->sock, d->msgs, vm->batch ? DATAGRAMS : 1, MSG_WAITFORONE, NULL);
		if (n < 0 && errno != EINTR)
			die("receive from the socket");
		for (int i = 0; i < n; i++)
			if (d->msgs[i].msg_len >= MIN_FRAME)
				tap_write(vm->tap, d->slots + (size_t)i * SLOT, d->msgs[i].msg_len);
	}
}
