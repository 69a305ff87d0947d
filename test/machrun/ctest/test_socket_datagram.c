// SPDX-License-Identifier: Apache-2.0

// Datagram sockets: their room, and whom they are connected to.
#include "test_socket.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/wait.h>

static char frame[70000];

CASE(the_longest_datagram_is_the_senders_buffer)
{
	int p[2];
	pair(2, p);
	EQUAL(2048, s_write(p[0], frame, 2048));
	FAILS(40, s_write(p[0], frame, 2049));
	set(p[1], RCVBUF, 1 << 20);
	set(p[0], SNDBUF, 65550);
	EQUAL(65550, s_write(p[0], frame, 65550));
	FAILS(40, s_write(p[0], frame, 65551));
}

CASE(the_room_is_the_receivers_buffer)
{
	int p[2];
	pair(2, p); // blocking: a full one does not wait
	EQUAL(2046, s_write(p[0], frame, 2046)); // and 3 bytes of address
	EQUAL(2044, s_write(p[0], frame, 2044));
	FAILS(55, s_write(p[0], frame, 1)); // 4096 = 2049 + 2047
	EQUAL(4096, get(p[1], NREAD) + 2050);
	set(p[0], RCVBUF, 1 << 20); // the sender's does not matter
	FAILS(55, s_write(p[0], frame, 1));
	EQUAL(2046, s_read(p[1], frame, sizeof frame));
	EQUAL(2046, s_write(p[0], frame, 2046));
	set(p[1], RCVBUF, 4200);
	EQUAL(100, s_write(p[0], frame, 100));
	FAILS(55, s_write(p[0], frame, 100));
}

CASE(empty_datagrams_cost_their_address)
{
	int p[2], sent = 0;
	pair(2, p);
	while (s_write(p[0], frame, 0) == 0)
		sent++;
	EQUAL(55, *darwin_error());
	EQUAL(4096 / 3, sent);
}

CASE(the_room_counts_the_address_of_who_sends)
{
	struct d_sockaddr a, b;
	int to = datagram("to", &a), from = datagram("from", &b), sent = 0;
	while (s_sendto(from, frame, 640, 0, &a, a.len) == 640)
		sent++;
	EQUAL(55, *darwin_error());
	EQUAL(4096 / (640 + b.len), sent); // 5, and without the address 6
	for (int i = 0; i < sent; i++)
		EQUAL(640, s_recvfrom(to, frame, sizeof frame, 0x80, NULL, NULL));
	FAILS(35, s_recvfrom(to, frame, sizeof frame, 0x80, NULL, NULL));
	EQUAL(640, s_sendto(from, frame, 640, 0, &a, a.len));
}

CASE(the_room_is_one_for_all_processes)
{
	int p[2], status;
	pair(2, p);
	pid_t child = fork();
	if (child == 0)
		_exit(s_write(p[0], frame, 2000) == 2000 && s_write(p[0], frame, 2000) == 2000 ? 0 : 1);
	waitpid(child, &status, 0);
	EQUAL(0, status);
	FAILS(55, s_write(p[0], frame, 200));
	child = fork();
	if (child == 0)
		_exit(s_read(p[1], frame, sizeof frame) == 2000 ? 0 : 1);
	waitpid(child, &status, 0);
	EQUAL(0, status);
	EQUAL(200, s_write(p[0], frame, 200));
}

CASE(a_program_for_linux_gives_the_room_back)
{
	int p[2], sent = 0;
	pair(2, p);
	while (s_write(p[0], frame, 100) == 100)
		sent++;
	EQUAL(4096 / 103, sent);
	while (recv(p[1], frame, sizeof frame, MSG_DONTWAIT) > 0) // not by the shims
		;
	EQUAL(100, s_write(p[0], frame, 100));
}

CASE(a_pair_whose_peer_has_closed)
{
	struct pollfd f;
	struct d_sockaddr a;
	uint32_t n = sizeof a;
	for (int i = 0; i < 3; i++) {
		int p[2];
		pair(2, p);
		EQUAL(0, s_getpeername(p[0], &a, &n));
		EQUAL(5, s_write(p[1], "early", 5));
		s_close(p[1]);
		FAILS(57, s_getpeername(p[0], &a, &n));
		EQUAL(5, s_read(p[0], frame, sizeof frame));
		f = (struct pollfd){.fd = p[0], .events = POLLIN};
		EQUAL(0, poll(&f, 1, 0)); // no reader is woken
		switch (i) {
		case 0: FAILS(54, s_write(p[0], frame, 60)); break;
		case 1: FAILS(54, s_read(p[0], frame, 60)); break; // a blocking one
		case 2: EQUAL(54, get(p[0], SOCKET_ERROR)); EQUAL(0, get(p[0], SOCKET_ERROR)); break;
		}
		FAILS(39, s_write(p[0], frame, 60));
		FAILS(35, s_recvfrom(p[0], frame, 60, 0x80, NULL, NULL));
		FAILS(57, s_getpeername(p[0], &a, &n));
	}
}

CASE(connected_to_a_path_that_has_gone)
{
	struct d_sockaddr a, b, got;
	for (int named = 0; named < 2; named++) {
		int to = datagram(named ? "to1" : "to0", &a), from = named ? datagram("from", &b) : (int)s_socket(1, 2, 0);
		uint32_t n = sizeof got;
		FAILS(39, s_write(from, frame, 60));
		EQUAL(0, s_connect(from, &a, a.len));
		EQUAL(0, s_getpeername(from, &got, &n));
		EQUAL(a.len, n);
		EQUAL(60, s_write(from, frame, 60));
		s_close(to);
		FAILS(57, s_getpeername(from, &got, &n));
		FAILS(54, s_write(from, frame, 60));
		FAILS(39, s_write(from, frame, 60));
		FAILS(61, s_connect(from, &a, a.len)); // the file is there
	}
}

CASE(connected_ones_take_from_everybody)
{
	struct d_sockaddr a, b, c;
	int s = datagram("s", &a), first = datagram("first", &b), second = datagram("second", &c);
	EQUAL(0, s_connect(s, &b, b.len));
	EQUAL(1, s_sendto(second, "2", 1, 0, &a, a.len));
	EQUAL(1, s_sendto(first, "1", 1, 0, &a, a.len));
	struct d_sockaddr from;
	uint32_t n = sizeof from;
	EQUAL(1, s_recvfrom(s, frame, sizeof frame, 0, &from, &n));
	EQUAL('2', frame[0]);
	CHECK(strcmp(from.data, c.data) == 0);
	EQUAL(1, s_read(s, frame, sizeof frame));
	EQUAL('1', frame[0]);
	FAILS(56, s_sendto(s, "x", 1, 0, &b, b.len));
	EQUAL(0, s_connect(s, &c, c.len)); // another peer
	EQUAL(1, s_write(s, "x", 1));
	EQUAL(1, s_read(second, frame, sizeof frame));
}

CASE(a_connection_is_to_a_socket_not_to_a_path)
{
	struct d_sockaddr a, b, moved = at("moved");
	for (int named = 0; named < 2; named++) {
		int to = datagram("to", &a), from = named ? datagram("from", &b) : (int)s_socket(1, 2, 0);
		EQUAL(0, s_connect(from, &a, a.len));
		EQUAL(0, rename(a.data, moved.data));
		int thief = datagram("to", &a), copy = (int)s_dup(from);
		s_close(from);
		EQUAL(3, s_write(copy, "abc", 3));
		EQUAL(3, s_recvfrom(to, frame, sizeof frame, 0x80, NULL, NULL));
		FAILS(35, s_recvfrom(thief, frame, sizeof frame, 0x80, NULL, NULL));
		EQUAL(0, unlink(a.data));
	}
}

CASE(a_name_after_the_connection)
{
	struct d_sockaddr a, b = at("late"), c;
	int to = datagram("to", &a), other = datagram("other", &c), s = (int)s_socket(1, 2, 0);
	EQUAL(0, s_connect(s, &a, a.len));
	EQUAL(0, s_bind(s, &b, b.len));
	EQUAL(1, s_sendto(other, "o", 1, 0, &b, b.len));
	EQUAL(1, s_read(s, frame, sizeof frame));
	EQUAL(1, s_write(s, "s", 1));
	struct d_sockaddr from;
	uint32_t n = sizeof from;
	EQUAL(1, s_recvfrom(to, frame, sizeof frame, 0, &from, &n));
	CHECK(strcmp(from.data, b.data) == 0);
}

CASE(a_peer_survives_a_message_to_another_process)
{
	struct d_sockaddr a, b;
	int to = datagram("to", &a), s = datagram("s", &b), p[2], status;
	EQUAL(0, s_connect(s, &a, a.len));
	pair(1, p);
	EQUAL(1, send_fds(p[0], &s, 1));
	pid_t child = fork();
	if (child == 0) {
		s_close(s); // what the child knows of it goes
		int got = receive_fd(p[1]);
		_exit(s_write(got, "abc", 3) == 3 && s_sendto(got, "x", 1, 0, &a, a.len) == -1 && *darwin_error() == 56 ? 0 : 1);
	}
	waitpid(child, &status, 0);
	EQUAL(0, status);
	EQUAL(3, s_read(to, frame, sizeof frame));
}

CASE(errors_of_addresses)
{
	struct d_sockaddr a, none = at("none"), l;
	int s = (int)s_socket(1, 2, 0);
	listener("l", 5, &l);
	s_close(datagram("dead", &a));
	FAILS(2, s_sendto(s, "x", 1, 0, &none, none.len));
	FAILS(61, s_sendto(s, "x", 1, 0, &a, a.len));
	FAILS(41, s_sendto(s, "x", 1, 0, &l, l.len)); // EPROTOTYPE
	FAILS(39, s_sendto(s, "x", 1, 0, NULL, 0));
	FAILS(57, s_shutdown(s, 1));
	FAILS(102, s_listen(s, 5));
}

CASE(a_receiver_that_takes_no_more)
{
	int p[2];
	pair(2, p);
	EQUAL(0, s_shutdown(p[1], 0));
	FAILS(22, s_write(p[0], "x", 1)); // SB_DROP
	pair(2, p);
	signal(SIGPIPE, SIG_IGN);
	EQUAL(0, s_shutdown(p[1], 1));
	FAILS(32, s_write(p[1], "x", 1));
}
