// SPDX-License-Identifier: Apache-2.0

// The names in the control file, in its order. control.c makes records of them; the Go side reads this very file. One entry
// per line.
//
//   CALL(function)    three switches: fail.function is the errno (of macOS) that the call fails with, slow.function and
//                     stop.function how many milliseconds it waits first, with stop in a thread that takes no signals
//   SWITCH(name)      a value
//   GAUGE(name)       a sum over all processes

CALL(open)
CALL(openat)
CALL(read)
CALL(write)
CALL(readv)
CALL(writev)
CALL(close)
CALL(pipe)
CALL(fcntl)
CALL(mmap)
CALL(socket)
CALL(socketpair)
CALL(bind)
CALL(listen)
CALL(accept)
CALL(connect)
CALL(shutdown)
CALL(getsockname)
CALL(getpeername)
CALL(getsockopt)
CALL(setsockopt)
CALL(sendto)
CALL(recvfrom)
CALL(sendmsg)
CALL(recvmsg)
CALL(sendmsg_x)
CALL(recvmsg_x)
CALL(kqueue)
CALL(kevent)
CALL(fork)
CALL(execve)
CALL(wait4)
CALL(pthread_create)
CALL(pthread_kill)

SWITCH(asleep_ms)
SWITCH(fork_gap)
SWITCH(gc_in_flight)
SWITCH(isconn)

GAUGE(foreign_entries)
GAUGE(forks)
GAUGE(killed_nobody)
