// SPDX-License-Identifier: Apache-2.0

// What the parts of the load generator share: its options, the counters in shared memory, and the test frame.
#ifndef LOAD_H
#define LOAD_H

#include "wire.h"

#include <stdatomic.h>
#include <stdbool.h>

enum {
	MAX_CLIENTS = 256,
	MAX_BATCH = 64,        // frames a batching sender puts into one write
	MAX_ROUND_TRIPS = 1 << 20,
	SMALL_FRAME_LEN = 64   // acks, announcements and pings, in bytes
};

// How a client is connected, as a letter of --kinds.
enum kind_of_client {
	STREAM = 's',        // the unix stream socket
	PASSED = 'd',        // a descriptor from SOCKET.d/attach, datagrams
	CONNECTED = 'c',     // a path of its own, connected to SOCKET.d/dgram/sock, as vfkit and libkrun are
	UNCONNECTED = 'u'    // a path of its own, every datagram sent to SOCKET.d/dgram/sock, as QEMU does
};

struct options {
	const char *socket;
	const char *kinds; // a letter per client; the last one stands for all that follow
	int echo;          // whether the first pair measures round trips instead of a flow
	int fan;           // whether all others send to the last client, in place of pairs
	int clients;       // all of them
	int pairs;         // clients 0-1, 2-3, ... are sender and receiver
	int frame_len;     // of the flows, in bytes
	int window;        // frames of a flow that may be in flight; 0: any number, and nothing is acknowledged
	int batch;         // frames per write of a sender; 1 is one writev per frame, as QEMU does
	int warm_ms;       // from the start to the begin of the measurement
	int time_ms;       // of the measurement
	int slots;         // parts of it whose figures are printed as well, if more than 1
	int frames;        // measure until so many have arrived, and so many round trips, if that takes longer
	int relay;         // whose CPU time is measured
};

// Counters of one client, on cache lines of their own: each is written by one process.
struct counters {
	_Alignas(128) atomic_ulong received, lost, corrupt;
};

struct shared {
	struct counters client[MAX_CLIENTS];
	atomic_int ready; // clients that are ready to start
	atomic_int go;
	atomic_ulong round_trips;
	uint32_t round_trip_ns[MAX_ROUND_TRIPS];
};

extern struct options opt;
extern struct shared *shm;

// The test frame, behind the Ethernet header: kind, 1 byte unused, the sequence number, the pattern, and in the last 8 bytes
// the sequence number again.
enum kind { ANNOUNCE = 1, DATA, ACK, PING };

enum {
	KIND_AT = ETHER_HEADER_LEN,
	SEQ_AT = KIND_AT + 2,
	PATTERN_AT = SEQ_AT + 8,
	TAIL_LEN = 8
};

// make_frame writes prefix, header, kind and pattern of a frame of len bytes to p, which holds PREFIX_LEN more.
void make_frame(uint8_t *p, enum kind kind, int from, int to, int len);

// set_seq numbers a frame made by make_frame.
void set_seq(uint8_t *p, int len, uint64_t seq);

uint64_t get_seq(const uint8_t *frame);

// sender_of is the client of first to last that has sent the frame to self, or -1.
int sender_of(const uint8_t *frame, int self, int first, int last);

// A conn is one client's way to the relay.
struct conn {
	int fd;
	int lifeline;   // the connection to SOCKET.d/attach, or -1
	bool datagrams;   // else a stream
	socklen_t to_len; // of to; 0: the socket is connected
	struct sockaddr_un to;
	struct sockaddr_un own; // what it is bound to, if its path is not empty
};

extern struct conn conns[MAX_CLIENTS];

// open_conn connects client i, and retries while the relay is starting.
void open_conn(int i);

// A reader takes frames out of a stream or out of datagrams.
struct reader {
	const struct conn *conn;
	uint8_t *buf;
	size_t start, end;   // of what has been read and not been handed out; in bytes, or in datagrams
	struct mmsghdr *msgs; // of datagrams
	struct iovec *parts;
};

void reader_init(struct reader *r, int self);

// reader_fill reads once, blocking, or for as long as the socket's receive timeout. It returns 1 when there is more, 0 when
// the time is up, and ends the process at the end of the stream.
int reader_fill(struct reader *r);

// reader_next returns the next whole frame, or NULL when there is none; *len is its length. A prefix that cannot be ours
// ends the process after counting it as corrupt for client self.
const uint8_t *reader_next(struct reader *r, int self, uint32_t *len);

// meet makes both sides' addresses known to the relay: it announces self to the peers until their announcements have arrived,
// and goes on until all clients are ready and the start is given. Frames of the measurement stay in the reader.
void meet(struct reader *r, int self, int first, int last);

// send_frames writes the wire form of frames. While the socket is full it reads, as QEMU does: a relay that blocks on a client
// would otherwise wait for us, and we for it. With split, prefix and frame are two parts of one gathering write.
void send_frames(struct reader *r, const uint8_t *p, size_t n, bool split);

void send_small(struct reader *r, enum kind kind, int self, int peer, uint64_t seq);
void set_receive_timeout(int fd, int ms);
void sleep_ms(int ms);

// The bodies of the client processes; they never return.
void run_sender(int self, int peer) __attribute__((noreturn));
void run_receiver(int self, int first, int last) __attribute__((noreturn));
void run_pinger(int self, int peer) __attribute__((noreturn));
void run_echoer(int self, int peer) __attribute__((noreturn));
void run_bystanders(int first, int last) __attribute__((noreturn));

#endif
