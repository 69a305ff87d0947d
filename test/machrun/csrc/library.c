// SPDX-License-Identifier: Apache-2.0

// dlopen and dlsym: libSystem is the shims, and the frameworks are the simulator that MACHRUN_VMNET names, if any.
#include "darwin.h"
#include <dlfcn.h>

static void *simulator;
static __thread char trouble[512];
static __thread bool troubled;

static void *open_simulator(void)
{
	const char *path = getenv("MACHRUN_VMNET");
	if (simulator == NULL && path != NULL && (simulator = dlopen(path, RTLD_NOW | RTLD_LOCAL)) != NULL) {
		int (*begin)(const char *) = dlsym(simulator, "vmnetsim_open");
		const char *dir = getenv("MACHRUN_VMNET_DIR");
		if (dir != NULL && (begin == NULL || begin(dir) != 0)) {
			fprintf(stderr, "machrun: vmnetsim_open(%s) failed\n", dir);
			abort();
		}
		void (*host)(int) = dlsym(simulator, "vmnetsim_host");
		if (host != NULL)
			host(1); // as on a Mac, there is one
	}
	return simulator;
}

static void *trouble_is(const char *what, const char *name)
{
	snprintf(trouble, sizeof trouble, "%s(%s): not found", what, name);
	troubled = true;
	return NULL;
}

enum { SYSTEM = 1, FRAMEWORK = 2 };

void *s_dlopen(const char *path, int mode)
{
	(void)mode;
	if (path == NULL || strcmp(path, "/usr/lib/libSystem.B.dylib") == 0)
		return (void *)SYSTEM;
	if (strncmp(path, "/System/Library/Frameworks/", 27) == 0 && open_simulator() != NULL)
		return (void *)FRAMEWORK;
	void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL); // of Linux: a test may open the simulator itself
	return library != NULL ? library : trouble_is("dlopen", path);
}

void *s_dlsym(void *handle, const char *name)
{
	if (handle > (void *)FRAMEWORK && handle < (void *)-16) { // else one of ours, or RTLD_DEFAULT and its like, which are negative
		void *of = dlsym(handle, name);
		return of != NULL ? of : trouble_is("dlsym", name);
	}
	void *f = handle == (void *)FRAMEWORK ? NULL : shim(name);
	if (simulator != NULL && (f == NULL || strcmp(name, "launch_activate_socket") == 0)) {
		void *of = dlsym(simulator, name);
		f = of != NULL ? of : f;
	}
	return f != NULL ? f : trouble_is("dlsym", name);
}

const char *s_dlerror(void)
{
	const char *t = troubled ? trouble : NULL;
	troubled = false;
	return t;
}

int s_dlclose(void *handle) { return (void)handle, 0; }
