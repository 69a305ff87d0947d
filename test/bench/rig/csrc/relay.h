// SPDX-License-Identifier: Apache-2.0

// What the parts of the C relays share: the clients and the table of addresses.
#ifndef RELAY_H
#define RELAY_H

#include "wire.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

enum {
	MAX_CLIENTS = 256,
	BATCH_DATAGRAMS = 32, // per recvmmsg and sendmmsg, as the daemon does
	ALL_CLIENTS = -1,       // in place of a client's index
	NO_CLIENT = -2
};

struct client {
	int fd;
	bool datagrams;
	socklen_t addr_len; // of addr; 0: fd is connected
	struct sockaddr_un addr;
	pthread_mutex_t write_lock; // a frame is written whole
};

extern struct client clients[MAX_CLIENTS];
extern atomic_int client_count;

// add_client copies *c to the end of clients and returns its index.
int add_client(const struct client *c);

// learn notes that an address is client's; look_up returns whose it is, or ALL_CLIENTS.
void learn(const uint8_t *src, int client);
int look_up(const uint8_t *dst);

// write_run writes the n bytes of frames in wire form to a client of any kind.
void write_run(struct client *c, const uint8_t *run, size_t n);

// send_run is write_run for a datagram client.
void send_run(struct client *c, const uint8_t *run, size_t n);

// serve_datagrams makes PATH.d/dgram/sock and PATH.d/attach and serves them in threads of their own.
void serve_datagrams(const char *path);

#endif
