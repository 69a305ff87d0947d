// SPDX-License-Identifier: Apache-2.0

// Serial queues: each has a thread while there is work, and for a moment longer.
#include "internal.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>

enum {
	IDLE_MS = 20,            // how long a thread waits for more work
	STACK_BYTES = 512 << 10, // as darwin's secondary threads have
};

struct queue {
	struct object o;
	pthread_mutex_t lock;
	pthread_cond_t more;
	struct task *head, **tail;
	bool running;
};

static void fini(void *p)
{
	struct queue *q = p;
	pthread_mutex_destroy(&q->lock);
	pthread_cond_destroy(&q->more);
	live_add(LIVE_queues, -1);
}

static struct queue *queue_new(void)
{
	struct queue *q = object_new(sizeof *q, TYPE_QUEUE, fini);
	pthread_condattr_t a;
	pthread_condattr_init(&a);
	pthread_condattr_setclock(&a, CLOCK_MONOTONIC);
	pthread_cond_init(&q->more, &a);
	pthread_condattr_destroy(&a);
	pthread_mutex_init(&q->lock, NULL);
	q->tail = &q->head;
	live_add(LIVE_queues, 1);
	return q;
}

struct timespec in_ms(clockid_t clock, int64_t ms)
{
	struct timespec t;
	clock_gettime(clock, &t);
	t.tv_sec += ms / 1000;
	t.tv_nsec += (ms % 1000) * 1000000;
	if (t.tv_nsec >= 1000000000) {
		t.tv_nsec -= 1000000000;
		t.tv_sec++;
	}
	return t;
}

// The next task, or NULL when the thread should end; with the lock held.
static struct task *next(struct queue *q)
{
	struct timespec until = in_ms(CLOCK_MONOTONIC, IDLE_MS);
	while (q->head == NULL)
		if (atomic_load(&q->o.ext) <= 0 || pthread_cond_timedwait(&q->more, &q->lock, &until) == ETIMEDOUT)
			break;
	struct task *t = q->head;
	if (t == NULL)
		return NULL;
	q->head = t->next;
	if (q->head == NULL)
		q->tail = &q->head;
	return t;
}

static void *serve(void *p)
{
	struct queue *q = p;
	pthread_mutex_lock(&q->lock);
	for (struct task *t; (t = next(q)) != NULL;) {
		pthread_mutex_unlock(&q->lock);
		bool allocated = t->allocated;
		t->work(t->context); // may free a task that is part of something else
		if (allocated)
			free(t);
		object_unref(q); // the thread has a reference of its own
		pthread_mutex_lock(&q->lock);
	}
	q->running = false;
	pthread_mutex_unlock(&q->lock);
	object_unref(q);
	live_add(LIVE_threads, -1);
	return NULL;
}

// Starts a detached thread that gets no signals.
static void spawn(void *(*work)(void *), void *context)
{
	sigset_t all, before;
	pthread_attr_t a;
	pthread_t t;
	pthread_attr_init(&a);
	pthread_attr_setdetachstate(&a, PTHREAD_CREATE_DETACHED);
	pthread_attr_setstacksize(&a, STACK_BYTES);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	live_add(LIVE_threads, 1);
	int err = pthread_create(&t, &a, work, context);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(&a);
	if (err != 0)
		die("no thread for a queue: error %d", err);
}

void queue_push(struct queue *q, struct task *t)
{
	object_ref(q);
	t->next = NULL;
	pthread_mutex_lock(&q->lock);
	*q->tail = t;
	q->tail = &t->next;
	if (!q->running) {
		q->running = true;
		object_ref(q);
		spawn(serve, q);
	} else {
		pthread_cond_signal(&q->more);
	}
	pthread_mutex_unlock(&q->lock);
}

void queue_work(struct queue *q, void *context, void (*work)(void *))
{
	struct task *t = need(malloc(sizeof *t));
	*t = (struct task){.work = work, .context = context, .allocated = true};
	queue_push(q, t);
}

static int64_t now_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

static int64_t delay_value(int delay)
{
	return atomic_load_explicit(&control()->switches[delay].value, memory_order_relaxed);
}

void wait_for(int delay, int64_t most, int64_t unit_ns)
{
	for (int64_t begin = now_ns();;) {
		int64_t now = delay_value(delay);
		int64_t left = begin + (now < most ? now : most) * unit_ns - now_ns();
		if (left <= 0)
			return;
		struct timespec t = {0, left < 1000000 ? left : 1000000};
		nanosleep(&t, NULL);
	}
}

struct delayed {
	struct queue *q;
	int delay;
	int64_t ms;
	void *context;
	void (*work)(void *);
};

static void *wait_and_push(void *p)
{
	struct delayed *d = p;
	wait_for(d->delay, d->ms, 1000000);
	queue_work(d->q, d->context, d->work);
	object_unref(d->q);
	free(d);
	live_add(LIVE_threads, -1);
	return NULL;
}

void queue_after(struct queue *q, int delay, void *context, void (*work)(void *))
{
	int64_t ms = delay == AT_ONCE ? 0 : delay_value(delay);
	if (ms <= 0) {
		queue_work(q, context, work);
		return;
	}
	struct delayed *d = need(malloc(sizeof *d));
	*d = (struct delayed){q, delay, ms, context, work};
	object_ref(q);
	spawn(wait_and_push, d);
}

struct queue *queue_internal(void)
{
	struct queue *q = queue_new();
	object_keep(q);
	return q;
}

static bool is_queue(uint32_t type) { return type == TYPE_QUEUE; }

bool queue_lives(const struct queue *q) { return object_lives(q, TYPE_QUEUE); }

dispatch_queue_t dispatch_queue_create(const char *label, void *attr)
{
	COUNT(dispatch_queue_create);
	(void)label;
	if (attr != NULL)
		die("dispatch_queue_create: only serial queues (attr NULL) are simulated");
	return queue_new();
}

void dispatch_release(dispatch_queue_t q)
{
	COUNT(dispatch_release);
	object_check(q, "dispatch_release");
	if (!is_queue(q->o.type))
		die("dispatch_release: not a queue");
	object_ref(q);
	object_release(q, "dispatch_release", is_queue);
	pthread_mutex_lock(&q->lock);
	pthread_cond_signal(&q->more); // its thread need not wait for more
	pthread_mutex_unlock(&q->lock);
	object_unref(q);
}
