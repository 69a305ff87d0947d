// SPDX-License-Identifier: Apache-2.0

// machrun: runs a Go program that was built for darwin/amd64 on Linux/amd64. See README.md.
//
// What is in here: the layouts and numbers of macOS that the shims translate from and to. All of them are those of Go's own
// zerrors_darwin_amd64.go, ztypes_darwin_amd64.go and runtime/defs_darwin_amd64.go.
#ifndef MACHRUN_DARWIN_H
#define MACHRUN_DARWIN_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

// ---- layouts ----

struct d_timespec { int64_t sec, nsec; };
struct d_timeval { int64_t sec; int32_t usec, pad; };

struct d_stat {
	int32_t dev;
	uint16_t mode, nlink;
	uint64_t ino;
	uint32_t uid, gid;
	int32_t rdev, pad;
	struct d_timespec atim, mtim, ctim, btim;
	int64_t size, blocks;
	int32_t blksize;
	uint32_t flags, gen;
	int32_t spare;
	int64_t qspare[2];
};
static_assert(sizeof(struct d_stat) == 144, "struct stat");

struct d_dirent {
	uint64_t ino, seekoff;
	uint16_t reclen, namlen;
	uint8_t type;
	char name[1024];
};
static_assert(offsetof(struct d_dirent, name) == 21, "struct dirent");

struct d_flock { int64_t start, len; int32_t pid; int16_t type, whence; };

struct d_sockaddr { uint8_t len, family; char data[126]; };
struct d_msghdr {
	struct d_sockaddr *name;
	uint32_t namelen;
	struct iovec *iov;
	int32_t iovlen;
	void *control;
	uint32_t controllen;
	int32_t flags;
};
static_assert(sizeof(struct d_msghdr) == 48, "struct msghdr");
struct d_msghdr_x { struct d_msghdr m; uint64_t datalen; };
static_assert(sizeof(struct d_msghdr_x) == 56, "struct msghdr_x");
struct d_cmsghdr { uint32_t len; int32_t level, type; };

struct d_kevent { uint64_t ident; int16_t filter; uint16_t flags; uint32_t fflags; int64_t data; void *udata; };
static_assert(sizeof(struct d_kevent) == 32, "struct kevent");

// Go keeps it at any multiple of 4.
struct __attribute__((packed, aligned(4))) d_sigaction { void *handler; uint32_t mask; int32_t flags; };
struct d_stack { void *sp; uint64_t size; int32_t flags, pad; };
struct d_siginfo {
	int32_t signo, err, code, pid;
	uint32_t uid;
	int32_t status;
	void *addr, *value;
	int64_t band;
	uint64_t pad[7];
};
static_assert(sizeof(struct d_siginfo) == 104, "siginfo_t");
struct d_mcontext {
	uint16_t trapno, cpu;
	uint32_t err;
	uint64_t faultvaddr;
	uint64_t rax, rbx, rcx, rdx, rdi, rsi, rbp, rsp, r8, r9, r10, r11, r12, r13, r14, r15, rip, rflags, cs, fs, gs;
	char fpu[524]; // which no program asks for
};
struct d_ucontext {
	int32_t onstack;
	uint32_t sigmask;
	struct d_stack stack;
	void *link;
	uint64_t mcsize;
	struct d_mcontext *mcontext;
};
static_assert(offsetof(struct d_ucontext, mcontext) == 48, "ucontext_t");

struct d_rusage { struct d_timeval utime, stime; int64_t rest[14]; };

// ---- numbers whose names are needed in more than one file ----

enum {
	D_EPERM = 1, D_ENOENT = 2, D_ESRCH = 3, D_EBADF = 9, D_ENOMEM = 12, D_EINVAL = 22, D_ENOTTY = 25, D_EAGAIN = 35,
	D_EMSGSIZE = 40, D_ENOTSUP = 45, D_EAFNOSUPPORT = 47, D_ENOBUFS = 55, D_ETIMEDOUT = 60, D_ENOSYS = 78,
};
enum { D_AF_UNIX = 1, D_AF_INET = 2, D_AF_INET6 = 30 };
enum { D_NSIG = 32, D_AT_FDCWD = -2 };

// ---- what the files of machrun offer each other ----

extern char machrun_path[4096];    // this program
extern char machrun_image[4096];   // the program that runs
extern bool machrun_trace;         // MACHRUN_TRACE: calls that fail are told on stderr

// TRACE tells on stderr what a program asked for that is not as it may think.
#define TRACE(format, ...) \
	do { \
		if (machrun_trace) \
			dprintf(2, "machrun: " format "\n", __VA_ARGS__); \
	} while (0)

// load.c
enum { OUR_FAULT = 125, CANNOT_RUN = 126, MISSING = 127 }; // as env and shells exit
_Noreturn void die(int status, const char *format, ...) __attribute__((format(printf, 2, 3)));
uint64_t load(const char *path); // where the program begins
int load_error(const char *path); // -1: no file for macOS; 0, or the errno of macOS that says why it cannot run

// thread.c
struct thread *thread_self(void); // attaches the calling thread if it is not yet
int *darwin_error(void);
int fail(int darwin_errno);        // sets the thread's errno; -1
long ret(long result);             // translates errno where result is -1
void thread_attach_main(void);

// translate.c
int errno_to_darwin(int linux_errno);
int signal_to_darwin(int), signal_to_linux(int);
sigset_t sigset_to_linux(uint32_t);
uint32_t sigset_to_darwin(const sigset_t *);
int open_flags_to_linux(int), open_flags_to_darwin(int); // the first one -1 for flags that are not known

// limits.c
struct rusage;
void rusage_out(struct d_rusage *, const struct rusage *);

// signal.c
void signal_init(void);

// names.c
const char *place(const char *path); // where a file of macOS is here; the result is the thread's, until the next call

// sysctl.c and routes.c
long sysctl_answer(const void *, size_t n, void *out, size_t *size); // as much as there is room for, with ENOMEM where it is not all
long routes(int32_t what, int32_t index, void *out, size_t *size);   // {CTL_NET, PF_ROUTE, 0, AF_INET, what, index}

// kqueue.c
void kqueue_forget(int fd);

// socket*.c
bool socket_is(int fd); // asked for every read and write
long socket_write(int fd, const struct iovec *, int n);
long socket_read(int fd, const struct iovec *, int n);
int socket_waiting(int fd);  // bytes in the receive buffer
void socket_closing(int fd); // before fd is closed, or made a copy
void socket_forget(int fd);  // fd is another file now
void socket_duplicated(int fd, int to);

// symbols.c
void *shim(const char *name); // by its name in C, NULL if there is none

#endif
