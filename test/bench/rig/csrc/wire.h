// SPDX-License-Identifier: Apache-2.0

// The stream socket's wire format and the blocking I/O that the relays and the load generator share.
//
//	[length, uint32 big-endian][Ethernet frame] [length][Ethernet frame] ...
#ifndef WIRE_H
#define WIRE_H

#include <arpa/inet.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <sys/un.h>

enum {
	PREFIX_LEN = 4,
	MAC_LEN = 6,
	ETHER_HEADER_LEN = 14,
	MAX_FRAME_LEN = 69632,     // QEMU's NET_BUFSIZE
	READ_LEN = 256 * 1024,     // one read(2) of a batching reader, in bytes
	SOCKET_BUFFER = 256 * 1024, // SO_SNDBUF of the daemon, of socket_vmnet_client, and so of all programs here, in bytes
	DATAGRAM_BUFFER = 4 * 1024 * 1024 // the same of datagram sockets that are bound to a path
};

static inline uint32_t get_prefix(const uint8_t *p)
{
	uint32_t n;
	memcpy(&n, p, sizeof n);
	return ntohl(n);
}

static inline void put_prefix(uint8_t *p, uint32_t len)
{
	uint32_t n = htonl(len);
	memcpy(p, &n, sizeof n);
}

// read_full reads exactly n bytes. It returns 0, or -1 at the end of the stream or on an error.
int read_full(int fd, void *buf, size_t n);

// write_full writes exactly n bytes. It returns 0, or -1 on an error.
int write_full(int fd, const void *buf, size_t n);

// write_parts writes n parts, with one system call if the socket takes all of them at once. It changes v.
int write_parts(int fd, struct iovec *v, int n);

// set_buffers sets both buffers of a socket to n bytes, or to as much as the system allows.
void set_buffers(int fd, int n);

// address_of is that of a socket at path and suffix.
struct sockaddr_un address_of(const char *path, const char *suffix);

// make_socket makes a socket, bind_to one at path and suffix; a stream socket listens.
int make_socket(int type);
int bind_to(int type, const char *path, const char *suffix);

// read_frames hands what comes to forward, which returns how many bytes of it were whole frames, or -1 when the framing is lost. It
// returns at the end of the stream.
void read_frames(int fd, ssize_t (*forward)(void *to, const uint8_t *buf, size_t len), void *to);

// start_thread runs loop(arg) in a thread with a small stack.
void start_thread(void *(*loop)(void *), void *arg);

// die prints what failed with errno's text and ends the process with status 2.
void die(const char *what) __attribute__((noreturn));

#endif
