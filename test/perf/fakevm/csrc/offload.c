// SPDX-License-Identifier: Apache-2.0

// A fake VM whose network card cuts large TCP packets into segments and puts segments together again, in this program. On the
// wire there are frames of the MTU as from every other VM, but its stack is asked once for some 40 of them: TCP as fast as this
// makes the relay the narrow place, even on two cores.
//
// A packet of the TAP device has a struct virtio_net_hdr before it, which says what the card has to do.
#define _GNU_SOURCE
#include "fakevm.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/virtio_net.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

enum {
	ETHER = 14, IP = 20, TCP_AT = ETHER + IP, // no IP options: the kernel sends none
	IP_LENGTH = ETHER + 2, IP_ID = ETHER + 4, IP_SUM = ETHER + 10, IP_ADDRESSES = ETHER + 12,
	TCP_SEQUENCE = TCP_AT + 4, TCP_ACK = TCP_AT + 8, TCP_OFFSET = TCP_AT + 12, TCP_FLAGS = TCP_AT + 13, TCP_SUM_AT = 16,
	TCP_MIN = 20, TCP_MAX = 60,
	FLAG_FIN = 0x01, FLAG_PSH = 0x08, FLAG_ACK = 0x10, FLAG_CWR = 0x80,
	PACKET = 65536 + 64, // the longest that the kernel hands out
	CUT = 2 * PACKET, // what becomes of it in wire form is shorter
	PIECES = 60, // segments that are put together
	LARGEST = 65000 // bytes of them
};

static uint16_t get16(const uint8_t *p) { return (uint16_t)(p[0] << 8 | p[1]); }
static void put16(uint8_t *p, size_t v) { p[0] = (uint8_t)(v >> 8); p[1] = (uint8_t)v; }

static uint32_t get32(const uint8_t *p)
{
	uint32_t v;
	memcpy(&v, p, sizeof(v));
	return ntohl(v);
}

static void put32(uint8_t *p, uint32_t v)
{
	v = htonl(v);
	memcpy(p, &v, sizeof(v));
}

// sum adds n bytes to a checksum in the making: 16-bit words of the machine's byte order, eight bytes at a time.
static uint64_t sum(uint64_t s, const uint8_t *p, size_t n)
{
	for (; n >= 8; n -= 8, p += 8) {
		uint64_t w;
		memcpy(&w, p, sizeof(w));
		s += w;
		s += s < w;
	}
	uint64_t w = 0;
	memcpy(&w, p, n);
	s += w;
	return s + (s < w);
}

static uint16_t fold(uint64_t s)
{
	s = (s >> 32) + (s & 0xffffffff);
	s = (s >> 32) + (s & 0xffffffff);
	s = (s >> 16) + (s & 0xffff);
	s = (s >> 16) + (s & 0xffff);
	return (uint16_t)((s >> 16) + (s & 0xffff));
}

static void set_sum(uint8_t *at, uint16_t value) { memcpy(at, &value, sizeof(value)); }

// pseudo is the sum of TCP's pseudo header, for so many bytes of TCP.
static uint64_t pseudo(const uint8_t *frame, size_t tcp)
{
	return sum(0, frame + IP_ADDRESSES, 8) + htons(IPPROTO_TCP) + htons((uint16_t)tcp);
}

// set_length makes the IP header that of a frame of n bytes.
static void set_length(uint8_t *frame, size_t n)
{
	put16(frame + IP_LENGTH, n - ETHER);
	set_sum(frame + IP_SUM, 0);
	set_sum(frame + IP_SUM, (uint16_t)~fold(sum(0, frame + ETHER, IP)));
}

static size_t header_length(const uint8_t *frame) { return TCP_AT + (frame[TCP_OFFSET] >> 4) * 4u; }

static uint8_t *put_prefix(uint8_t *out, size_t n)
{
	put32(out, (uint32_t)n);
	return out + PREFIX_LEN;
}

// cut makes frames of a TCP packet, each with so much payload, and returns their bytes in wire form.
static size_t cut(const uint8_t *packet, size_t n, size_t payload, uint8_t *out)
{
	size_t header = header_length(packet), len = 0;
	uint32_t sequence = get32(packet + TCP_SEQUENCE);
	uint16_t id = get16(packet + IP_ID);
	for (size_t off = 0, i = 0; header + off < n; off += payload, i++) {
		size_t part = n - header - off < payload ? n - header - off : payload;
		uint8_t *f = put_prefix(out + len, header + part);
		memcpy(f, packet, header);
		memcpy(f + header, packet + header + off, part);
		put16(f + IP_ID, (uint16_t)(id + i));
		set_length(f, header + part);
		put32(f + TCP_SEQUENCE, sequence + (uint32_t)off);
		if (header + off + part < n)
			f[TCP_FLAGS] &= (uint8_t)~(FLAG_FIN | FLAG_PSH);
		if (off > 0)
			f[TCP_FLAGS] &= (uint8_t)~FLAG_CWR;
		size_t tcp = header + part - TCP_AT;
		set_sum(f + TCP_AT + TCP_SUM_AT, 0);
		set_sum(f + TCP_AT + TCP_SUM_AT, (uint16_t)~fold(sum(pseudo(f, tcp), f + TCP_AT, tcp)));
		len += PREFIX_LEN + header + part;
	}
	return len;
}

// send_packet does what a card does with a packet and returns the bytes in wire form.
static size_t send_packet(const uint8_t *buf, size_t n, uint8_t *out)
{
	struct virtio_net_hdr h;
	memcpy(&h, buf, sizeof(h));
	const uint8_t *packet = buf + sizeof(h);
	n -= sizeof(h);
	if (h.gso_type != VIRTIO_NET_HDR_GSO_NONE)
		return cut(packet, n, h.gso_size, out);
	uint8_t *f = put_prefix(out, n);
	memcpy(f, packet, n);
	if (h.flags & VIRTIO_NET_HDR_F_NEEDS_CSUM)
		set_sum(f + h.csum_start + h.csum_offset, (uint16_t)~fold(sum(0, f + h.csum_start, n - h.csum_start)));
	return PREFIX_LEN + n;
}

void *offload_out(void *arg)
{
	struct vm *vm = arg;
	uint8_t *in = buffer(PACKET), *out = buffer(WRITE_SIZE + CUT);
	for (;;) {
		size_t len = 0;
		do {
			long n = tap_read(vm->tap, in, PACKET);
			if (n == 0)
				break;
			len += send_packet(in, (size_t)n, out + len);
		} while (len < WRITE_SIZE);
		if (len > 0)
			write_full(vm->sock, out, len);
		else
			tap_wait(vm->tap);
	}
	return NULL;
}

// A train is segments that follow each other and are handed to the kernel as one packet.
struct train {
	struct virtio_net_hdr h;
	uint8_t header[TCP_AT + TCP_MAX];
	struct iovec parts[2 + PIECES]; // h, header, payloads
	const uint8_t *first;
	size_t first_len, payload, header_len, bytes; // of the first frame; of each segment; of its headers; of all payloads
	uint32_t next; // sequence number
	int count;
};

static void hand_over(int tap, const struct iovec *parts, int n)
{
	while (writev(tap, parts, n) < 0) {
		if (errno == EAGAIN)
			tap_wait_writable(tap);
		else if (errno != EINTR && errno != ENOBUFS && errno != ENOMEM && errno != EINVAL)
			die("write to the TAP device");
		else if (errno != EINTR)
			return;
	}
}

// hand_over_frame says that the card has checked the checksum: nothing can have damaged it on the way.
static void hand_over_frame(int tap, const uint8_t *frame, size_t n)
{
	struct virtio_net_hdr h = {.flags = VIRTIO_NET_HDR_F_DATA_VALID};
	struct iovec parts[] = {{&h, sizeof(h)}, {(void *)frame, n}};
	hand_over(tap, parts, 2);
}

static void end_train(int tap, struct train *t)
{
	if (t->count == 1) {
		hand_over_frame(tap, t->first, t->first_len);
	} else if (t->count > 1) {
		t->h = (struct virtio_net_hdr){
			.flags = VIRTIO_NET_HDR_F_NEEDS_CSUM, .gso_type = VIRTIO_NET_HDR_GSO_TCPV4, .hdr_len = (uint16_t)t->header_len,
			.gso_size = (uint16_t)t->payload, .csum_start = TCP_AT, .csum_offset = TCP_SUM_AT,
		};
		set_length(t->header, t->header_len + t->bytes);
		set_sum(t->header + TCP_AT + TCP_SUM_AT, fold(pseudo(t->header, t->header_len - TCP_AT + t->bytes)));
		t->parts[0] = (struct iovec){&t->h, sizeof(t->h)};
		t->parts[1] = (struct iovec){t->header, t->header_len};
		hand_over(tap, t->parts, 2 + t->count);
	}
	t->count = 0;
}

// is_segment tells whether a frame is TCP data that may become part of a train.
static bool is_segment(const uint8_t *f, size_t n)
{
	if (n < TCP_AT + TCP_MIN || f[12] != 0x08 || f[13] != 0 || f[ETHER] != 0x45 || f[ETHER + 9] != IPPROTO_TCP)
		return false;
	size_t header = header_length(f);
	return (get16(f + ETHER + 6) & 0x3fff) == 0 && get16(f + IP_LENGTH) == n - ETHER && header >= TCP_AT + TCP_MIN && header < n &&
		(f[TCP_FLAGS] & ~FLAG_PSH) == FLAG_ACK;
}

// follows tells whether a segment is the next one of a train: all of its headers the same but for what differs in any case.
static bool follows(const struct train *t, const uint8_t *f, size_t n)
{
	return t->count > 0 && t->count < PIECES && t->bytes + n < LARGEST && header_length(f) == t->header_len &&
		n - t->header_len <= t->payload && get32(f + TCP_SEQUENCE) == t->next && memcmp(f, t->first, ETHER) == 0 &&
		memcmp(f + IP_ADDRESSES, t->first + IP_ADDRESSES, 8 + 4) == 0 && // and the ports
		memcmp(f + TCP_ACK, t->first + TCP_ACK, 5) == 0 && // and the header's length
		memcmp(f + TCP_AT + TCP_MIN, t->first + TCP_AT + TCP_MIN, t->header_len - TCP_AT - TCP_MIN) == 0;
}

static void take_frame(int tap, struct train *t, const uint8_t *f, size_t n)
{
	bool segment = is_segment(f, n);
	if (!segment || !follows(t, f, n))
		end_train(tap, t);
	if (!segment) {
		hand_over_frame(tap, f, n);
		return;
	}
	size_t header = header_length(f);
	if (t->count == 0) {
		t->first = f;
		t->first_len = n;
		t->header_len = header;
		t->payload = n - header;
		t->bytes = 0;
		memcpy(t->header, f, header);
	}
	t->header[TCP_FLAGS] |= f[TCP_FLAGS] & FLAG_PSH;
	t->parts[2 + t->count++] = (struct iovec){(void *)(f + header), n - header};
	t->bytes += n - header;
	t->next = get32(f + TCP_SEQUENCE) + (uint32_t)(n - header);
	if (n - header < t->payload || f[TCP_FLAGS] & FLAG_PSH)
		end_train(tap, t);
}

// take_offloaded hands the whole frames in buf over and returns their bytes.
size_t take_offloaded(int tap, const uint8_t *buf, size_t len)
{
	struct train t = {.count = 0};
	size_t off = 0, n;
	while ((n = whole_frame(buf + off, len - off)) > 0) {
		take_frame(tap, &t, buf + off + PREFIX_LEN, n);
		off += PREFIX_LEN + n;
	}
	end_train(tap, &t);
	return off;
}
