// SPDX-License-Identifier: Apache-2.0

// What the files of the socket model share. README.md, "Sockets", has the rules and their sources.
#ifndef MACHRUN_SOCKET_H
#define MACHRUN_SOCKET_H

#include "darwin.h"

#include <netinet/in.h>
#include <stdatomic.h>
#include <sys/un.h>

// Numbers of macOS that only sockets need: sys/errno.h, sys/socket.h.
enum {
	D_EPIPE = 32, D_ENOTSOCK = 38, D_EDESTADDRREQ = 39, D_EPROTOTYPE = 41, D_ENOPROTOOPT = 42, D_EPROTONOSUPPORT = 43,
	D_EADDRINUSE = 48, D_ECONNRESET = 54, D_EISCONN = 56, D_ENOTCONN = 57, D_ECONNREFUSED = 61, D_ENAMETOOLONG = 63,
	D_EOPNOTSUPP = 102,
};
enum {
	D_MSG_OOB = 0x1, D_MSG_PEEK = 0x2, D_MSG_DONTROUTE = 0x4, D_MSG_EOR = 0x8, D_MSG_TRUNC = 0x10, D_MSG_CTRUNC = 0x20,
	D_MSG_WAITALL = 0x40, D_MSG_DONTWAIT = 0x80, D_MSG_NOSIGNAL = 0x80000,
};
enum { D_SOL_SOCKET = 0xffff, D_SOL_LOCAL = 0, D_SCM_RIGHTS = 1 };

enum {
	DATAGRAM_LONGEST = 2048, // net.local.dgram.maxdgram: uipc_usrreq.c, unpdg_sendspace
	DATAGRAM_ROOM = 4096,    // net.local.dgram.recvspace
	STREAM_SPACE = 8192,     // net.local.stream.sendspace and recvspace
	MOST_SPACE = 8388608,    // kern.ipc.maxsockbuf, to which larger sizes are cut
	BACKLOG = 128,           // kern.ipc.somaxconn
	UNNAMED = 3,             // bytes of an unnamed socket's address: uipc_usrreq.c, sun_noname
	PATH_ROOM = 104,         // sun_path
	MAX_FD = 1 << 16,
};

union address {
	struct sockaddr sa;
	struct sockaddr_un un;
	struct sockaddr_in in;
	struct sockaddr_in6 in6;
	struct sockaddr_storage all;
};

// A sock is what macOS's kernel knows of a socket and Linux's does not. It lies in memory that all machruns share, by the
// socket's inode, so that it is found by every process that has the socket, also after an exec or when it came in a message.
struct sock {
	_Atomic uint64_t inode;   // 0: unused
	_Atomic uint64_t peer;    // inode of the socket that datagrams go to; 0: unknown
	_Atomic uint64_t used;    // seconds: the one that was not used for longest gives its place
	_Atomic uint32_t flags;
	_Atomic int32_t longest;  // so_snd.sb_hiwat of a unix datagram socket
	_Atomic int32_t room;     // so_rcv.sb_hiwat
	_Atomic int32_t waiting;  // so_rcv.sb_cc
	_Atomic int32_t named;    // bytes of its own address
	_Atomic int32_t pid;      // so->last_pid
	int32_t family, type;     // Linux's
	uint64_t file[2];         // device and inode of the path, where NAMED
	char path[108];           // the peer's
};

enum {
	PAIR = 1,        // made by socketpair: no other socket sends to its peer
	CONNECTED = 2,   // a datagram socket that Linux's kernel has connected
	NAMED = 4,       // a datagram socket that is connected to a path, in here
	LOST = 8,        // its peer has gone, and it was told
	SHUT_WRITE = 16,
	NO_SIGPIPE = 32,
	SHUT_READ = 64,
};

// socket_table.c
struct sock *sock_of(int fd);            // NULL where fd is no socket
struct sock *sock_by_inode(uint64_t);    // NULL where no machrun knows it
struct sock *sock_made(int fd, int family, int type); // a new socket: what its number and its inode stood for is forgotten
void sock_name(struct sock *, const char *path);      // remembers which socket is bound at the path
struct sock *sock_at(const char *path);               // finds it again, or NULL
bool sock_is_datagram(const struct sock *);           // of the unix family

// socket_address.c
int address_in(const struct d_sockaddr *, uint32_t n, union address *); // the length on Linux, or -1 with errno set
uint32_t address_out(const union address *, socklen_t len, struct d_sockaddr *, uint32_t room);
void address_result(const union address *, socklen_t len, struct d_sockaddr *, uint32_t *n);
int address_cost(const union address *, socklen_t len); // its bytes on macOS

// socket_diag.c
int64_t diag_peer(uint64_t inode); // the inode of the peer, 0 where it has gone, -1 where that is unknown
void refused(const char *what, int64_t value); // tells a trace of what the model does not know

// socket_peer.c
long datagram_connect(int fd, struct sock *, const union address *, socklen_t len);
int datagram_bound(int fd, struct sock *); // a connected socket has got a name
bool datagram_connected(const struct sock *);
bool datagram_lost(int fd, struct sock *); // whether the peer has gone
int datagram_target(int fd, struct sock *, union address *, socklen_t *len); // of a NAMED one; an errno of macOS
void peer_closed(int fd);
int descriptor_high(int fd);

// socket_room.c
bool room_take(int fd, struct sock *to, int cost);
void room_give(struct sock *to, int cost);

// socket_send.c
long socket_send(int fd, struct sock *, struct msghdr *, int flags); // flags are macOS's
long socket_receive(int fd, struct sock *, struct msghdr *, int flags);
int flags_known(int flags, int known);

#endif
