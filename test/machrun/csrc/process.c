// SPDX-License-Identifier: Apache-2.0

// Processes: fork, execve, wait4, and the environment.
#include "control.h"
#include "darwin.h"

#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

enum { D_SIGCONT = 19 };

extern char **environ;

void s__exit(int code) { syscall(SYS_exit_group, code); } // _exit would have a sanitizer look at the stack, which it does not know
void s_abort(void) { abort(); }

static size_t length(char *const *list)
{
	size_t n = 0;
	while (list != NULL && list[n] != NULL)
		n++;
	return n;
}

static bool is_own(const char *variable) { return strncmp(variable, "MACHRUN_", 8) == 0; }

// with_own makes an environment of the program's variables and our own, which the program does not see (main.c) and which go
// on to the next one whatever environment it is given. NULL: no memory.
static char **with_own(char *const *envp)
{
	char **all = calloc(length(envp) + length(environ) + 1, sizeof *all);
	if (all == NULL)
		return NULL;
	size_t n = 0;
	for (size_t i = 0; i < length(envp); i++)
		if (!is_own(envp[i]))
			all[n++] = envp[i];
	for (size_t i = 0; i < length(environ); i++)
		if (is_own(environ[i]))
			all[n++] = environ[i];
	return all;
}

// again has this loader run a program for macOS.
static long again(const char *path, char *const *argv, char *const *envp)
{
	size_t n = length(argv);
	char **args = calloc(n + 5, sizeof *args), **env = NULL;
	long r = -1;
	errno = ENOMEM;
	if (args != NULL) {
		args[0] = (char *)"machrun";
		args[1] = (char *)"--argv0";
		args[2] = n > 0 ? argv[0] : (char *)path;
		args[3] = (char *)path;
		for (size_t i = 1; i < n; i++)
			args[3 + i] = argv[i];
		if ((env = with_own(envp)) != NULL)
			r = execve(machrun_path, args, env);
	}
	int e = errno;
	free(env);
	free(args);
	errno = e;
	return ret(r);
}

// Programs of Linux and scripts are executed as they are. xnu tells before it lets the old program go whether the new one
// can run: bsd/kern/kern_exec.c, exec_activate_image.
long s_execve(const char *path, char *const *argv, char *const *envp)
{
	control_execve();
	int e = access(path, X_OK) == 0 ? load_error(path) : -1;
	if (e > 0)
		return fail(e);
	return e == 0 ? again(path, argv, envp) : ret(execve(path, argv, envp));
}

long s_wait4(int pid, int *status, int options, struct d_rusage *d)
{
	struct rusage l;
	int st = 0;
	int lo = (options & 1 ? WNOHANG : 0) | (options & 2 ? WUNTRACED : 0) | (options & 0x10 ? WCONTINUED : 0);
	long r = ret(wait4(pid, &st, lo, &l));
	if (r > 0) {
		if (WIFCONTINUED(st))
			st = D_SIGCONT << 8 | 0x7f;
		else if (WIFSIGNALED(st))
			st = (st & ~0x7f) | signal_to_darwin(WTERMSIG(st));
		else if (WIFSTOPPED(st))
			st = signal_to_darwin(WSTOPSIG(st)) << 8 | 0x7f;
		if (status != NULL)
			*status = st;
		if (d != NULL)
			rusage_out(d, &l);
	}
	return r;
}

// Go keeps the environment itself and only tells C. What a library asks for is the loader's.
long s_setenv(const char *k, const char *v, int over) { return is_own(k) ? 0 : ret(setenv(k, v, over)); }
long s_unsetenv(const char *k) { return is_own(k) ? 0 : ret(unsetenv(k)); }
