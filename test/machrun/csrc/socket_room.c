// SPDX-License-Identifier: Apache-2.0

// The room for datagrams is the receiver's receive buffer: uipc_socket2.c, sbappendaddr counts the data and the sender's address,
// and refuses what is more than sb_hiwat - sb_cc. The bound on the memory of mbufs (sb_mbmax) is not modelled; it is
// reached first only by datagrams of less than 60 bytes.
//
// Linux counts datagrams (net.unix.max_dgram_qlen, which must be large), and the bytes of all that a sender has on its way. So
// who sends adds to the receiver's count, and who receives takes away. A receiver that is a program for Linux takes nothing
// away: then the count is corrected by what Linux's kernel says when it is full (room_left). One that Linux bound to a path
// has no count, and Linux's bounds only.
#include "socket.h"

#include <linux/sockios.h>
#include <sys/ioctl.h>

// room_left lowers the count of a pair's end to what its peer, the only sender, has on its way, which Linux counts with its
// own overhead: the count is never below what waits.
static int room_left(int fd, struct sock *to)
{
	int out = 0, counted = to->waiting;
	if (ioctl(fd, SIOCOUTQ, &out) == 0 && out < counted)
		atomic_fetch_sub(&to->waiting, counted - out);
	return to->waiting;
}

bool room_take(int fd, struct sock *to, int cost)
{
	const struct sock *from = sock_of(fd);
	if (to == NULL)
		return true;
	if (atomic_fetch_add(&to->waiting, cost) + cost <= to->room)
		return true;
	atomic_fetch_sub(&to->waiting, cost);
	if (from == NULL || !(from->flags & PAIR) || room_left(fd, to) + cost > to->room)
		return false;
	atomic_fetch_add(&to->waiting, cost);
	return true;
}

// room_give stops at zero: a program for Linux may have sent what was not counted.
void room_give(struct sock *to, int cost)
{
	int32_t before = to != NULL ? atomic_load(&to->waiting) : 0;
	while (before > 0 && !atomic_compare_exchange_weak(&to->waiting, &before, before > cost ? before - cost : 0))
		;
}
