// SPDX-License-Identifier: Apache-2.0

// The shims as C sees them, for each other and for the tests in C. What each does is told by the manual of macOS.
#ifndef MACHRUN_SHIMS_H
#define MACHRUN_SHIMS_H

#include "darwin.h"

struct d_attr;
struct thread;

// file.c, names.c, memory.c
long s_open(const char *path, int flags, int mode);
long s_close(int fd);
long s_dup(int fd);
long s_read(int fd, void *b, size_t n);
long s_write(int fd, const void *b, size_t n);
long s_writev(int fd, const struct iovec *v, int n);
long s_fcntl(int fd, int cmd, long arg);
long s_ioctl(int fd, unsigned long req, void *arg);
long s_unlink(const char *p);
long s_unlinkat(int d, const char *p, int f);
long s_renameat(int d, const char *p, int e, const char *q);
void *s_mmap(void *addr, size_t n, int prot, int flags, int fd, off_t off);
long s_madvise(void *addr, size_t n, int advice);

// kqueue.c
long s_kqueue(void);
long s_kevent(int kq, const struct d_kevent *changes, int nchanges, struct d_kevent *out, int nout, const struct d_timespec *timeout);

// signal.c
int s_sigaction(int d, const struct d_sigaction *new, struct d_sigaction *old);
int s_pthread_sigmask(int how, const uint32_t *new, uint32_t *old);
int s_sigaltstack(const struct d_stack *new, struct d_stack *old);
int s_kill(int pid, int sig);
int s_raise(int sig);

// socket*.c
long s_socket(int family, int type, int protocol);
long s_socketpair(int family, int type, int protocol, int *fds);
long s_bind(int fd, const struct d_sockaddr *d, uint32_t n);
long s_connect(int fd, const struct d_sockaddr *d, uint32_t n);
long s_listen(int fd, int backlog);
long s_accept(int fd, struct d_sockaddr *d, uint32_t *n);
long s_getsockname(int fd, struct d_sockaddr *d, uint32_t *n);
long s_getpeername(int fd, struct d_sockaddr *d, uint32_t *n);
long s_shutdown(int fd, int how);
long s_sendto(int fd, const void *b, size_t n, int flags, const struct d_sockaddr *d, uint32_t dn);
long s_recvfrom(int fd, void *b, size_t n, int flags, struct d_sockaddr *d, uint32_t *dn);
long s_sendmsg(int fd, const struct d_msghdr *d, int flags);
long s_recvmsg(int fd, struct d_msghdr *d, int flags);
long s_sendmsg_x(int fd, struct d_msghdr_x *m, unsigned n, int flags);
long s_recvmsg_x(int fd, struct d_msghdr_x *m, unsigned n, int flags);
long s_getsockopt(int fd, int level, int o, void *v, uint32_t *n);
long s_setsockopt(int fd, int level, int o, const void *v, uint32_t n);

// time.c, users.c, limits.c, sysctl.c, process.c
long s_clock_gettime(int id, struct d_timespec *d);
long s_sysctlbyname(const char *name, void *out, size_t *size, void *new, size_t newsize);
long s_sysctl(const int32_t *mib, unsigned n, void *out, size_t *size, void *new, size_t newsize);
long s_wait4(int pid, int *status, int options, struct d_rusage *d);

// thread.c
int s_pthread_create(struct thread **out, struct d_attr *a, void *(*start)(void *), void *arg);
struct thread *s_pthread_self(void);
int s_pthread_kill(struct thread *t, int sig);

#endif
