// SPDX-License-Identifier: Apache-2.0

// sysctl by name and by number. The defaults are those of xnu: bsd/kern/uipc_usrreq.c for unix sockets, bsd/kern/uipc_socket2.c.
#include "darwin.h"

#include <pthread.h>
#include <sys/utsname.h>

long sysctl_answer(const void *v, size_t n, void *out, size_t *size)
{
	if (size == NULL)
		return 0;
	if (out == NULL)
		return *size = n, 0;
	size_t room = *size;
	*size = n < room ? n : room;
	memcpy(out, v, *size);
	return n <= room ? 0 : fail(D_ENOMEM);
}

static long number(uint32_t v, void *out, size_t *size) { return sysctl_answer(&v, sizeof v, out, size); }
static long number64(uint64_t v, void *out, size_t *size) { return sysctl_answer(&v, sizeof v, out, size); }
static long text(const char *v, void *out, size_t *size) { return sysctl_answer(v, strlen(v) + 1, out, size); }

static const struct {
	const char *name, *value;
} texts[] = {
	{"kern.osproductversion", "26.0"}, {"kern.osrelease", "25.0.0"}, {"kern.ostype", "Darwin"}, {"kern.osversion", "25A000"},
	{"hw.model", "machrun1,1"},        {"hw.machine", "x86_64"},     {"machdep.cpu.brand_string", "machrun"},
	{"kern.version", "machrun"},
};

static const struct {
	const char *name;
	uint32_t value;
} numbers[] = {
	{"net.local.dgram.maxdgram", 2048},    {"net.local.dgram.recvspace", 4096},  {"net.local.stream.sendspace", 8192},
	{"net.local.stream.recvspace", 8192},  {"kern.ipc.maxsockbuf", 8388608},     {"kern.ipc.somaxconn", 128},
	{"kern.maxfilesperproc", 61440},       {"kern.maxfiles", 122880},            {"hw.pagesize", 4096},
};

long s_sysctlbyname(const char *name, void *out, size_t *size, void *new, size_t newsize)
{
	(void)newsize;
	if (new != NULL)
		return fail(D_EPERM);
	for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
		if (strcmp(name, texts[i].name) == 0)
			return text(texts[i].value, out, size);
	for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
		if (strcmp(name, numbers[i].name) == 0)
			return number(numbers[i].value, out, size);
	if (strcmp(name, "hw.ncpu") == 0 || strcmp(name, "hw.logicalcpu") == 0)
		return number((uint32_t)sysconf(_SC_NPROCESSORS_ONLN), out, size);
	if (strcmp(name, "kern.hostname") == 0) {
		struct utsname u;
		uname(&u);
		return text(u.nodename, out, size);
	}
	if (strcmp(name, "hw.memsize") == 0)
		return number64((uint64_t)sysconf(_SC_PHYS_PAGES) * 4096, out, size);
	TRACE("sysctl %s is not known", name);
	return fail(D_ENOENT);
}

// Numbers of names: ours are {OURS, index of the name as it came}.
enum { OURS = 0x6d72, NAMES = 64 };
static char named[NAMES][64];
static int names;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static int name_number(const char *name)
{
	pthread_mutex_lock(&lock);
	int i = 0;
	while (i < names && strcmp(named[i], name) != 0)
		i++;
	if (i == names && names < NAMES)
		strcpy(named[names++], name);
	pthread_mutex_unlock(&lock);
	return i < NAMES ? i : -1;
}

// {0, 3} asks for the numbers of a name.
static long name_to_mib(const char *given, size_t n, void *out, size_t *size)
{
	char name[sizeof named[0]];
	size_t room = 0;
	if (n >= sizeof name)
		return fail(D_ENOENT);
	snprintf(name, sizeof name, "%.*s", (int)n, given);
	if (strcmp(name, "kern.proc.pid") == 0) // CTL_KERN, KERN_PROC, KERN_PROC_PID
		return sysctl_answer((int32_t[]){1, 14, 1}, 3 * sizeof(int32_t), out, size);
	if (s_sysctlbyname(name, NULL, &room, NULL, 0) != 0)
		return -1;
	int32_t made[2] = {OURS, name_number(name)};
	return made[1] < 0 ? fail(D_ENOMEM) : sysctl_answer(made, sizeof made, out, size);
}

// process is kern.proc.pid: struct kinfo_proc of <sys/sysctl.h>, with start, number and name of one process, nothing where there is
// none. Offsets of struct extern_proc, <sys/proc.h>.
static long process(int32_t pid, void *out, size_t *size)
{
	enum { SIZE = 648, START = 0, PID = 40, NAME = 243, NAME_ROOM = 16 };
	char path[64], line[512];
	snprintf(path, sizeof path, "/proc/%d/stat", pid);
	FILE *f = fopen(path, "re");
	size_t got = f ? fread(line, 1, sizeof line - 1, f) : 0;
	if (f)
		fclose(f);
	line[got] = 0;
	char *name = strchr(line, '('), *end = strrchr(line, ')');
	unsigned long long ticks;
	if (!name || !end || sscanf(end + 1, " %*c %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %llu", &ticks) != 1)
		return sysctl_answer(line, 0, out, size);
	struct timespec now, up;
	clock_gettime(CLOCK_REALTIME, &now);
	clock_gettime(CLOCK_BOOTTIME, &up);
	int64_t start = (now.tv_sec - up.tv_sec) + (int64_t)(ticks / (unsigned long long)sysconf(_SC_CLK_TCK));
	unsigned char made[SIZE] = {0};
	memcpy(made + START, &start, sizeof start);
	memcpy(made + PID, &pid, sizeof pid);
	size_t length = (size_t)(end - name - 1);
	memcpy(made + NAME, name + 1, length < NAME_ROOM ? length : NAME_ROOM);
	return sysctl_answer(made, sizeof made, out, size);
}

// The numbers of names in <sys/sysctl.h>: KERN and HW.
static const struct {
	int32_t first, second;
	const char *name;
} numbered[] = {
	{1, 1, "kern.ostype"}, {1, 2, "kern.osrelease"}, {1, 4, "kern.version"}, {1, 10, "kern.hostname"}, {1, 29, "kern.maxfilesperproc"},
	{6, 1, "hw.machine"},  {6, 3, "hw.ncpu"},        {6, 7, "hw.pagesize"},
};

long s_sysctl(const int32_t *mib, unsigned n, void *out, size_t *size, void *new, size_t newsize)
{
	enum { KERN = 1, NET = 4, ROUTE = 17, PROC = 14, PROC_PID = 1 };
	if (n == 2 && mib[0] == 0 && mib[1] == 3)
		return name_to_mib(new, newsize, out, size);
	if (n == 2 && mib[0] == OURS && mib[1] >= 0 && mib[1] < names)
		return s_sysctlbyname(named[mib[1]], out, size, NULL, 0);
	if (n == 6 && mib[0] == NET && mib[1] == ROUTE)
		return routes(mib[4], mib[5], out, size);
	if (n == 4 && mib[0] == KERN && mib[1] == PROC && mib[2] == PROC_PID)
		return process(mib[3], out, size);
	for (size_t i = 0; i < sizeof numbered / sizeof *numbered; i++)
		if (n == 2 && mib[0] == numbered[i].first && mib[1] == numbered[i].second)
			return s_sysctlbyname(numbered[i].name, out, size, NULL, 0);
	return fail(D_ENOENT);
}
