// SPDX-License-Identifier: Apache-2.0

// What the tests of sockets share. Numbers are macOS's.
#ifndef MACHRUN_TEST_SOCKET_H
#define MACHRUN_TEST_SOCKET_H

#include "harness.h"

enum { SNDBUF = 0x1001, RCVBUF = 0x1002, SOCKET_ERROR = 0x1007, NREAD = 0x1020 };

void pair(int type, int *fds);
void set(int fd, int option, int value);
int get(int fd, int option);
struct d_sockaddr at(const char *name); // the address of a path in the test's directory
int listener(const char *name, int backlog, struct d_sockaddr *);
int datagram(const char *name, struct d_sockaddr *); // a bound datagram socket
long send_fds(int fd, const int *fds, int n);        // with one byte
int receive_fd(int fd);

#endif
