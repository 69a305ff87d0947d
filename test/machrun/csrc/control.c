// SPDX-License-Identifier: Apache-2.0

#include "control.h"
#include "darwin.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>

struct control *the_control;

void control_open(const char *dir)
{
	if (dir == NULL)
		return;
	char path[4096];
	snprintf(path, sizeof path, "%s/machrun.control", dir);
	int fd = open(path, O_RDWR | O_CLOEXEC);
	struct stat st;
	if (fd < 0 || fstat(fd, &st) != 0)
		die(OUR_FAULT, "MACHRUN_DIR: %s: %s", path, strerror(errno));
	struct control *c = MAP_FAILED;
	if (st.st_size == sizeof *c)
		c = mmap(NULL, sizeof *c, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	if (c == MAP_FAILED || strncmp(c->magic, CONTROL_MAGIC, sizeof c->magic) != 0)
		die(OUR_FAULT, "MACHRUN_DIR: %s is no control file of this version", path);
	the_control = c;
}

void control_execve(void)
{
	if (the_control == NULL || the_control->slow_execve_ms == 0 || atomic_fetch_sub(&the_control->slow_execve_skip, 1) > 0)
		return;
	struct timespec t = {the_control->slow_execve_ms / 1000, the_control->slow_execve_ms % 1000 * 1000000};
	while (nanosleep(&t, &t) != 0 && errno == EINTR) {
	}
}
