// SPDX-License-Identifier: Apache-2.0

// The start: the arguments, the first stack, and the jump into the program.
#include "control.h"
#include "darwin.h"

#include <sys/mman.h>

extern char **environ;

enum { STACK = 8 << 20, GUARD = 64 << 10 };

static char *new_stack(void)
{
	char *mem = mmap(NULL, STACK + GUARD, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (mem == MAP_FAILED || mprotect(mem, GUARD, PROT_NONE) != 0)
		die(OUR_FAULT, "make a stack: %s", strerror(errno));
	return mem + STACK + GUARD - 4096;
}

// first_stack has at its top argc, argv, NULL, environ, NULL, apple, NULL. MACHRUN_ variables are ours alone.
static void **first_stack(int argc, char **argv)
{
	size_t n = 0;
	while (environ[n] != NULL)
		n++;
	size_t count = 1 + (size_t)argc + 1 + n + 1 + 2;
	void **sp = (void **)(((uintptr_t)new_stack() - count * sizeof(void *)) & ~15ul);
	void **p = sp;
	*p++ = (void *)(uintptr_t)argc;
	for (int i = 0; i < argc; i++)
		*p++ = argv[i];
	*p++ = NULL;
	for (size_t i = 0; i < n; i++)
		if (strncmp(environ[i], "MACHRUN_", 8) != 0)
			*p++ = environ[i];
	*p++ = NULL;
	static char apple[sizeof machrun_image + 32];
	snprintf(apple, sizeof apple, "executable_path=%s", machrun_image);
	*p++ = apple;
	*p = NULL;
	return sp;
}

// show_arguments makes ps tell the program's arguments, not the loader's: first is where those of the process begin. What is left
// over becomes empty, which ps leaves out at the end.
static void show_arguments(int argc, char **argv, char *first)
{
	char *to = first, *end = argv[argc - 1] + strlen(argv[argc - 1]);
	for (int i = 0; i < argc; i++) {
		size_t n = strlen(argv[i]) + 1;
		argv[i] = memmove(to, argv[i], n);
		to += n;
	}
	memset(to, 0, (size_t)(end - to));
}

int main(int argc, char **argv)
{
	char *argv0 = NULL, *first = argv[0];
	if (argc > 3 && strcmp(argv[1], "--argv0") == 0) {
		argv0 = argv[2];
		argv += 2;
		argc -= 2;
	}
	if (argc < 2)
		die(OUR_FAULT, "usage: machrun [--argv0 NAME] PROGRAM [ARG]...");
	argv++, argc--;
	if (readlink("/proc/self/exe", machrun_path, sizeof machrun_path - 1) < 0)
		die(OUR_FAULT, "/proc/self/exe: %s", strerror(errno));
	if (realpath(argv[0], machrun_image) == NULL)
		die(errno == ENOENT ? MISSING : CANNOT_RUN, "%s: %s", argv[0], strerror(errno));
	if (argv0 != NULL)
		argv[0] = argv0;
	show_arguments(argc, argv, first);
	machrun_trace = getenv("MACHRUN_TRACE") != NULL;
	control_open(getenv("MACHRUN_DIR"));
	uint64_t entry = load(machrun_image);
	thread_attach_main();
	signal_init();
	void **sp = first_stack(argc, argv);
	__asm__ volatile("mov %0, %%rsp\n\txor %%ebp, %%ebp\n\tjmp *%1" : : "r"(sp), "r"(entry) : "memory");
	__builtin_unreachable();
}
