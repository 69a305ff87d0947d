// SPDX-License-Identifier: Apache-2.0

#include "harness.h"

#include <errno.h>

static void called(struct waiter *w, vmnet_return_t st, struct xpc *params)
{
	if (w->hook != NULL)
		w->hook(w);
	pthread_mutex_lock(&w->lock);
	w->status = st;
	if (params != NULL && w->params == NULL && xpc_find(params, vmnet_mtu_key, TYPE_UINT64) != NULL) {
		object_ref(params);
		w->params = params;
	}
	w->calls++;
	pthread_cond_broadcast(&w->more);
	pthread_mutex_unlock(&w->lock);
}

static void on_start(struct waiter *w, vmnet_return_t st, struct xpc *params) { called(w, st, params); }
static void on_status(struct waiter *w, vmnet_return_t st) { called(w, st, NULL); }

static void on_event(struct waiter *w, uint32_t mask, struct xpc *event)
{
	w->estimate = xpc_dictionary_get_uint64(event, vmnet_estimated_packets_available_key);
	called(w, mask, NULL);
}

static void waiter_make(struct waiter *w, void (*invoke)(void))
{
	static struct block_descriptor descriptor = {0, sizeof(struct waiter)};
	memset(w, 0, sizeof *w);
	w->b = (struct block){_NSConcreteGlobalBlock, BLOCK_IS_GLOBAL, 0, invoke, &descriptor};
	pthread_mutex_init(&w->lock, NULL);
	pthread_cond_init(&w->more, NULL);
}

void waiter_start(struct waiter *w) { waiter_make(w, (void (*)(void))on_start); }
void waiter_status(struct waiter *w) { waiter_make(w, (void (*)(void))on_status); }
void waiter_event(struct waiter *w) { waiter_make(w, (void (*)(void))on_event); }

void waiter_free(struct waiter *w)
{
	if (w->params != NULL)
		object_unref(w->params);
	w->params = NULL;
	pthread_mutex_destroy(&w->lock);
	pthread_cond_destroy(&w->more);
}

bool waiter_within(struct waiter *w, int calls, int ms)
{
	struct timespec until = in_ms(CLOCK_REALTIME, ms);
	pthread_mutex_lock(&w->lock);
	while (w->calls < calls && pthread_cond_timedwait(&w->more, &w->lock, &until) != ETIMEDOUT) {
	}
	bool ok = w->calls >= calls;
	pthread_mutex_unlock(&w->lock);
	return ok;
}

void flip(int i, int64_t value, int64_t count, int64_t skip)
{
	struct record *r = &control()->switches[i];
	atomic_store(&r->value, 0);
	atomic_store(&r->skip, skip);
	atomic_store(&r->count, count);
	atomic_store(&r->value, value);
}

int64_t gauge(int i) { return atomic_load(&control()->gauges[i].value); }
int64_t live(int i) { return atomic_load(&control()->processes[process_index()].live[i]); }

void reset(void)
{
	struct control *c = control();
	for (int i = 0; i < SWITCHES; i++)
		flip(i, c->switches[i].preset, INT64_MAX, 0);
	for (int i = 0; i < GAUGES; i++)
		atomic_store(&c->gauges[i].value, 0);
	for (int i = 0; i < LAUNCH; i++)
		atomic_store(&c->launch[i].fd_plus_1, 0);
}

void settle(void)
{
	int busy = 0;
	for (int ms = 0; ms < PATIENCE_MS; ms++) {
		busy = -1;
		for (int i = 0; i < LIVES; i++)
			if (live(i) != 0)
				busy = i;
		if (busy < 0)
			return;
		usleep(1000);
	}
	failed(__FILE__, __LINE__, "%lld left of LIVE %d in tables.h", (long long)live(busy), busy);
}

static void run(struct test *t)
{
	current_test = t->name;
	if (t->kind != KIND_TOOL) // whose switches are the caller's
		reset();
	t->run();
	settle();
	if (t->kind != KIND_TOOL)
		printf("ok %s\n", t->name);
	fflush(stdout);
}

// Without arguments, all cases run, in one process; "name [dir]" runs that one; -l lists deaths with their messages.
int main(int argc, char **argv)
{
	const char *only = argc > 1 ? argv[1] : NULL;
	int err = vmnetsim_open(argc > 2 ? argv[2] : NULL);
	if (err != 0) {
		printf("open: %d\n", err);
		return 2;
	}
	for (struct test *t = tests; t != NULL; t = t->next) {
		if (only == NULL ? t->kind == KIND_CASE : strcmp(only, t->name) == 0)
			run(t);
		else if (only != NULL && strcmp(only, "-l") == 0 && t->kind == KIND_DEATH)
			printf("%s\t%s\n", t->name, t->message);
	}
	return 0;
}
