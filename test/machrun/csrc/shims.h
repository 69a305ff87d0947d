// SPDX-License-Identifier: Apache-2.0

// The shims as C sees them, for each other and for the tests in C. What each does is told by the manual of macOS.
#ifndef MACHRUN_SHIMS_H
#define MACHRUN_SHIMS_H

#include "darwin.h"

#include <poll.h>
#include <time.h>

struct d_addrinfo;
struct d_attr;
struct d_lock;
struct d_passwd;
struct group;
struct thread;

// file.c, names.c, memory.c
long s_openat(int dir, const char *path, int flags, int mode);
long s_open(const char *path, int flags, int mode);
long s_close(int fd);
long s_dup(int fd);
long s_dup2(int fd, int to);
long s_read(int fd, void *b, size_t n);
long s_write(int fd, const void *b, size_t n);
long s_pread(int fd, void *b, size_t n, off_t o);
long s_pwrite(int fd, const void *b, size_t n, off_t o);
long s_writev(int fd, const struct iovec *v, int n);
long s_readv(int fd, const struct iovec *v, int n);
long s_lseek(int fd, off_t o, int whence);
long s_fsync(int fd);
long s_ftruncate(int fd, off_t n);
long s_truncate(const char *p, off_t n);
long s_flock(int fd, int how);
long s_pipe(int *fds);
long s_poll(struct pollfd *fds, unsigned n, int ms);
long s_fcntl(int fd, int cmd, long arg);
long s_ioctl(int fd, unsigned long req, void *arg);
long s_stat(const char *p, struct d_stat *d);
long s_lstat(const char *p, struct d_stat *d);
long s_fstat(int fd, struct d_stat *d);
long s_fstatat(int dir, const char *p, struct d_stat *d, int flags);
long s_access(const char *p, int mode);
long s_faccessat(int dir, const char *p, int mode, int flags);
long s_chmod(const char *p, mode_t m);
long s_fchmod(int fd, mode_t m);
long s_fchmodat(int dir, const char *p, mode_t m, int flags);
long s_chown(const char *p, uid_t u, gid_t g);
long s_lchown(const char *p, uid_t u, gid_t g);
long s_fchown(int fd, uid_t u, gid_t g);
long s_fchownat(int dir, const char *p, uid_t u, gid_t g, int flags);
long s_link(const char *a, const char *b);
long s_linkat(int d1, const char *a, int d2, const char *b, int f);
long s_symlink(const char *a, const char *b);
long s_symlinkat(const char *a, int d, const char *b);
long s_readlink(const char *p, char *b, size_t n);
long s_readlinkat(int d, const char *p, char *b, size_t n);
long s_mkdir(const char *p, mode_t m);
long s_mkdirat(int d, const char *p, mode_t m);
long s_mkfifo(const char *p, mode_t m);
long s_rmdir(const char *p);
long s_unlink(const char *p);
long s_unlinkat(int d, const char *p, int f);
long s_rename(const char *a, const char *b);
long s_renameat(int d1, const char *a, int d2, const char *b);
long s_chdir(const char *p);
long s_fchdir(int fd);
long s_chroot(const char *p);
char *s_getcwd(char *b, size_t n);
mode_t s_umask(mode_t m);
long s_utimensat(int d, const char *p, const struct d_timespec *t, int flags);
void *s_fdopendir(int fd);
long s_closedir(void *d);
int s_readdir_r(void *d, struct d_dirent *e, struct d_dirent **result);
void *s_mmap(void *addr, size_t n, int prot, int flags, int fd, off_t off);
long s_munmap(void *addr, size_t n);
long s_mprotect(void *addr, size_t n, int prot);
long s_mlock(void *addr, size_t n);
long s_madvise(void *addr, size_t n, int advice);

// kqueue.c
long s_kqueue(void);
long s_kevent(int kq, const struct d_kevent *changes, int nchanges, struct d_kevent *out, int nout, const struct d_timespec *timeout);

// library.c
void *s_dlopen(const char *path, int mode);
void *s_dlsym(void *handle, const char *name);
const char *s_dlerror(void);
int s_dlclose(void *handle);

// signal.c
int s_sigaction(int d, const struct d_sigaction *new, struct d_sigaction *old);
int s_pthread_sigmask(int how, const uint32_t *new, uint32_t *old);
int s_sigaltstack(const struct d_stack *new, struct d_stack *old);
int s_sigfillset(uint32_t *s);
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
long s_sendfile(void);
void s_freeaddrinfo(struct d_addrinfo *d);
int s_getaddrinfo(const char *node, const char *service, const struct d_addrinfo *hints, struct d_addrinfo **out);
const char *s_gai_strerror(int e);

// time.c, users.c, limits.c, sysctl.c, process.c
uint64_t s_mach_absolute_time(void);
uint64_t s_mach_continuous_time(void);
int s_mach_timebase_info(uint32_t *ratio);
long s_clock_gettime(int id, struct d_timespec *d);
long s_nanosleep(const struct timespec *t, struct timespec *left);
long s_usleep(unsigned us);
unsigned s_alarm(unsigned seconds);
long s_getpid(void);
long s_getppid(void);
long s_getuid(void);
long s_geteuid(void);
long s_getgid(void);
long s_getegid(void);
long s_setuid(uid_t u);
long s_seteuid(uid_t u);
long s_setgid(gid_t g);
long s_setsid(void);
long s_setpgid(pid_t p, pid_t g);
long s_getpgid(pid_t p);
long s_getpgrp(void);
long s_getgroups(int n, gid_t *g);
long s_setgroups(int n, const gid_t *g);
long s_getgrouplist(const char *user, int gid, gid_t *g, int *n);
long s_issetugid(void);
int s_getpwnam_r(const char *name, struct d_passwd *d, char *b, size_t n, struct d_passwd **r);
int s_getpwuid_r(uid_t u, struct d_passwd *d, char *b, size_t n, struct d_passwd **r);
int s_getgrnam_r(const char *name, struct group *g, char *b, size_t n, struct group **r);
int s_getgrgid_r(gid_t id, struct group *g, char *b, size_t n, struct group **r);
long s_getrlimit(int r, uint64_t *d);
long s_setrlimit(int r, const uint64_t *d);
long s_getrusage(int who, struct d_rusage *d);
long s_sysconf(int name);
long s_sysctlbyname(const char *name, void *out, size_t *size, void *new, size_t newsize);
long s_sysctl(const int32_t *mib, unsigned n, void *out, size_t *size, void *new, size_t newsize);
void s_arc4random_buf(void *b, size_t n);
long s_fork(void);
void s__exit(int code);
void s_abort(void);
long s_ptrace(void);
long s_execve(const char *path, char *const *argv, char *const *envp);
long s_wait4(int pid, int *status, int options, struct d_rusage *d);
long s_setenv(const char *k, const char *v, int over);
long s_unsetenv(const char *k);

// thread.c
int s_pthread_attr_init(struct d_attr *a);
int s_pthread_attr_getstacksize(struct d_attr *a, size_t *size);
int s_pthread_attr_setstacksize(struct d_attr *a, size_t size);
int s_pthread_attr_setdetachstate(struct d_attr *a, int state);
int s_pthread_create(struct thread **out, struct d_attr *a, void *(*start)(void *), void *arg);
int s_pthread_detach(struct thread *t);
struct thread *s_pthread_self(void);
size_t s_pthread_get_stacksize_np(struct thread *t);
int s_pthread_kill(struct thread *t, int sig);
int s_pthread_setspecific(unsigned long key, void *value);
int s_pthread_mutex_init(struct d_lock *m, void *attr);
int s_pthread_mutex_lock(struct d_lock *m);
int s_pthread_mutex_unlock(struct d_lock *m);
int s_pthread_cond_init(struct d_lock *c, void *attr);
int s_pthread_cond_wait(struct d_lock *c, struct d_lock *m);
int s_pthread_cond_timedwait_relative_np(struct d_lock *c, struct d_lock *m, const struct d_timespec *t);
int s_pthread_cond_signal(struct d_lock *c);
int s_pthread_cond_broadcast(struct d_lock *c);

#endif
