// SPDX-License-Identifier: Apache-2.0

#include "harness.h"

#include <ftw.h>
#include <sys/wait.h>

static char own_directory[64];

static int drop(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st, (void)type, (void)ftw;
	return remove(path);
}

const char *directory(void)
{
	if (own_directory[0] == 0) {
		strcpy(own_directory, "/tmp/machrun-XXXXXX");
		CHECK(mkdtemp(own_directory) != NULL);
	}
	return own_directory;
}

static void run_one(struct test *t)
{
	current_test = t->name;
	alarm(60);
	thread_attach_main();
	t->run();
	if (own_directory[0] != 0)
		nftw(own_directory, drop, 16, FTW_DEPTH | FTW_PHYS);
	printf("ok %s\n", t->name);
	fflush(stdout);
	exit(0); // with the sanitizer's check for leaks
}

// Without arguments all cases run, with one that one.
int main(int argc, char **argv)
{
	int bad = 0;
	for (struct test *t = tests; t != NULL; t = t->next) {
		if (argc > 1 && strcmp(argv[1], t->name) != 0)
			continue;
		pid_t child = fork();
		if (child == 0)
			run_one(t);
		int status = 0;
		waitpid(child, &status, 0);
		if (status != 0)
			bad++, printf("FAIL %s: wait status %#x\n", t->name, status);
		fflush(stdout);
	}
	return bad != 0;
}
