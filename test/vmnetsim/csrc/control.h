// SPDX-License-Identifier: Apache-2.0

// The control file: switches, counts, and what processes own, in memory that several processes map. All values are
// atomic 64-bit integers.
#ifndef VMNETSIM_CONTROL_H
#define VMNETSIM_CONTROL_H

#include "tables.h"

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

// Increment the version when a layout changes; the size changes with the tables.
#define CONTROL_MAGIC "vmnetsim-control"
#define CONTROL_VERSION 3

enum { PROCESSES = 64, OWNERS = 255, RULES = 256, LAUNCH = 16, LEASES = 512 };

typedef _Atomic int64_t cell;

// One line of a table. Faults apply to count calls after skip ones; elsewhere both are unused.
struct record {
	cell value;
	cell count; // INT64_MAX: without end
	cell skip;
	int64_t preset; // the value after Reset
};

// Numbers in the tables. Faults are switches, in front of the others.
#define CALL_NUMBER(f) CALL_##f,
#define FAULT_NUMBER(kind, f) FAULT_##kind##_##f,
#define SWITCH_NUMBER(name, preset) SWITCH_##name,
#define GAUGE_NUMBER(name) GAUGE_##name,
#define LIVE_NUMBER(name) LIVE_##name,
enum { CALL_TABLE(CALL_NUMBER) CALLS };
enum { FAULT_TABLE(FAULT_NUMBER) SWITCH_TABLE(SWITCH_NUMBER) SWITCHES };
enum { GAUGE_TABLE(GAUGE_NUMBER) GAUGES };
enum { LIVE_TABLE(LIVE_NUMBER) LIVES };

// A process that has the file open holds a lock on one byte of it, so that its death shows at once.
struct process {
	cell pid;
	cell live[15]; // by LIVE_*
};
_Static_assert(LIVES <= 15, "struct process is too small");

enum { OWNER_FREE, OWNER_OWNED, OWNER_FREED, OWNER_ORPHAN };
enum { KIND_INTERFACE = 1, KIND_NETWORK };

// Flags of a network: what its configuration switched off.
enum { NO_NAT44 = 1, NO_NAT66 = 2, NO_DHCP = 4, NO_DNS_PROXY = 8, NO_RA = 16 };

// Who owns a subnet. Addresses are in host byte order.
struct owner {
	cell state;
	cell process; // index in processes
	cell pid;
	cell kind;
	cell mode;
	cell subnet;
	cell mask;
	cell start;
	cell end;
	cell freed_ms; // since 1970
	cell flags;
	cell mtu;
	cell prefix6_high; // first eight bytes of the IPv6 prefix, 0 for none
	cell prefix6_length;
	char external[16]; // the external interface
};

enum { RULE_FORWARD = 1, RULE_RESERVATION };

// A forwarding rule or a DHCP reservation in force.
struct rule {
	cell kind; // 0: unused
	cell process;
	cell protocol;
	cell external_port;
	cell internal_port;
	cell address; // IPv4, host byte order; 0 for IPv6
	cell mac;     // 48 bits
	cell subnet;
};

struct launch {
	char name[56];
	cell fd_plus_1; // 0: unused
};

// An address that the host's DHCP server has offered or given.
struct lease {
	cell mac; // 48 bits; 0: unused
	cell subnet;
	cell address;
	cell expires_ms; // since 1970
	cell given;      // not only offered
	char name[64];   // the client's
	uint8_t unused[24];
};

struct control {
	char magic[16];
	uint32_t version, size;
	struct record calls[CALLS];
	struct record switches[SWITCHES];
	struct record gauges[GAUGES];
	struct process processes[PROCESSES];
	struct owner owners[OWNERS];
	struct rule rules[RULES];
	struct launch launch[LAUNCH];
	struct lease leases[LEASES];
};

_Static_assert(sizeof(struct record) == 32, "record");
_Static_assert(sizeof(struct process) == 128, "process");
_Static_assert(sizeof(struct owner) == 128, "owner");
_Static_assert(sizeof(struct rule) == 64, "rule");
_Static_assert(sizeof(struct launch) == 64, "launch");
_Static_assert(sizeof(struct lease) == 128, "lease");
_Static_assert(offsetof(struct control, calls) == 24, "header");

extern struct control *_Atomic the_control;
struct control *control_private(void); // maps private memory unless something is mapped

static inline struct control *control(void)
{
	struct control *c = atomic_load_explicit(&the_control, memory_order_acquire);
	return __builtin_expect(c != NULL, 1) ? c : control_private();
}

// Counts the call of an exported function.
#define COUNT(f) ((void)atomic_fetch_add_explicit(&control()->calls[CALL_##f].value, 1, memory_order_relaxed))

#define SWITCH_VALUE(name) atomic_load_explicit(&control()->switches[SWITCH_##name].value, memory_order_relaxed)

static inline void gauge_add(int gauge, int64_t n)
{
	if (n != 0)
		atomic_fetch_add_explicit(&control()->gauges[gauge].value, n, memory_order_relaxed);
}

int64_t fault_slow(struct record *);

// The value of a fault if it applies to this call, else 0.
static inline int64_t fault_at(int i)
{
	struct record *r = &control()->switches[i];
	if (__builtin_expect(atomic_load_explicit(&r->value, memory_order_relaxed) == 0, 1))
		return 0;
	return fault_slow(r);
}

#define FAULT(kind, f) fault_at(FAULT_##kind##_##f)

const char *control_dir(void); // "" for private memory

void live_add(int what, int n); // what this process has, by LIVE_*
int64_t live_sum(int what);     // of all living processes; with the owners locked

// The owners' lock excludes other threads and processes.
void owners_lock(void);
void owners_unlock(void);

int process_index(void);
int process_enter(struct control *, int fd); // 0 or an errno; fd is -1 for private memory
int64_t now_ms(void);                                          // since 1970

#endif
