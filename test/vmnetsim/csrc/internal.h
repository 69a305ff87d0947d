// SPDX-License-Identifier: Apache-2.0

// What the files of the simulator share.
#ifndef VMNETSIM_INTERNAL_H
#define VMNETSIM_INTERNAL_H

#include "abi.h"
#include "control.h"
#include "ring.h"

#include <pthread.h>
#include <stdbool.h>
#include <time.h>

// die reports what a caller did wrong, where macOS would crash, and aborts.
_Noreturn void die(const char *format, ...) __attribute__((format(printf, 1, 2)));
void *need(void *memory); // dies for NULL: the simulator does not model a lack of memory

// Objects. ext are the references that callers hold, refs all of them.
enum {
	TYPE_DICTIONARY = 1,
	TYPE_ARRAY,
	TYPE_STRING,
	TYPE_UINT64,
	TYPE_INT64,
	TYPE_BOOL,
	TYPE_UUID,
	TYPE_CONFIG,
	TYPE_NETWORK,
	TYPE_QUEUE,
};

struct object {
	uint32_t magic;
	uint32_t type;
	_Atomic int ext;
	_Atomic int refs;
	void (*fini)(void *);
	struct object *next_dead;
};

void *object_new(size_t size, uint32_t type, void (*fini)(void *)); // with one reference of the caller's
void object_keep(void *);                                            // turns the caller's reference into ours
void object_ref(void *);
bool object_try_ref(void *); // false if the last reference is gone
void object_unref(void *);
bool object_lives(const void *, uint32_t type);
void object_retain(void *, const char *function, bool (*fits)(uint32_t type));
void object_release(void *, const char *function, bool (*fits)(uint32_t type));
void object_check(const void *, const char *function); // dies unless it is a living object

// XPC objects.
struct entry {
	char *key; // NULL in arrays
	struct xpc *value;
};

struct xpc {
	struct object o;
	size_t count, cap;
	struct entry *entries;
	char *string;
	uint64_t number;
	uint8_t uuid[16];
};

struct xpc *xpc_new_dictionary(void); // with a reference of ours
struct xpc *xpc_new_array(void);
void xpc_append_string(struct xpc *array, const char *);
void xpc_put_number(struct xpc *, const char *key, uint32_t type, uint64_t);
void xpc_put_string(struct xpc *, const char *key, const char *);
void xpc_put_uuid(struct xpc *, const char *key, const uint8_t uuid[16]);
struct xpc *xpc_find(const struct xpc *, const char *key, uint32_t type); // NULL unless of that type

// Blocks: those that the simulator holds are counted.
struct block *block_hold(struct block *);
void block_drop(struct block *);
typedef void (*start_invoke)(struct block *, vmnet_return_t, struct xpc *);
typedef void (*status_invoke)(struct block *, vmnet_return_t);
typedef void (*event_invoke)(struct block *, uint32_t, struct xpc *);
typedef bool (*apply_invoke)(struct block *, const char *, struct xpc *);

// Queues.
struct task {
	struct task *next;
	void (*work)(void *);
	void *context;
	bool allocated;
};

void queue_push(struct queue *, struct task *);
void queue_work(struct queue *, void *context, void (*work)(void *)); // a task of its own
// Waits for what a switch said when its value was most, in units of so many nanoseconds, or as it says later if that is less.
void wait_for(int delay, int64_t most, int64_t unit_ns);
enum { AT_ONCE = -1 };
// Pushes when the delay, a switch in milliseconds, is over. Retains the queue meanwhile.
void queue_after(struct queue *, int delay, void *context, void (*work)(void *));
struct queue *queue_internal(void); // a new one with a reference of ours, for handlers of calls that take no queue
bool queue_lives(const struct queue *);
struct timespec in_ms(clockid_t, int64_t ms); // the time on a clock, later by that

// Networks.
enum { MEMBERS = 256, ADDRESSES = 2048 };

struct address {
	uint64_t mac; // 0: unused
	struct iface *port;
};

// Identity and settings; addresses in host byte order.
struct settings {
	uint32_t mode;
	int kind;
	bool has_id;        // network_id counts
	uint8_t network_id[16];
	char external[16]; // bridged: the interface's name
	uint32_t subnet, mask, start, end;
	bool asked; // for these addresses; else any will do
	uint8_t prefix6[16];
	uint8_t prefix6_length;
	uint32_t mtu;
	uint32_t flags;
};

struct net {
	struct object o;
	struct settings asked, s; // what was asked for, and what it got
	int owner; // index in owners, -1 for none
	int users; // interfaces from start to stop; under the registry's lock
	struct net *next;
	pthread_mutex_t lock; // all below
	int members;
	struct iface *member[MEMBERS];
	int addresses;
	struct address *table;
};

struct net *net_new(const struct settings *, vmnet_return_t *status);
struct net *net_join(const struct settings *, vmnet_return_t *status); // for plain interfaces; with a user
bool net_use(struct net *);                                            // another user; false if its owner let it go
void net_leave(struct net *);

// HOST_PORT stands for the host in a network's table.
#define HOST_PORT ((struct iface *)8)

// A batch is the frames of one call on their way through a bridge, with the network locked.
struct batch {
	struct net *net;
	struct iface *from; // or HOST_PORT
	bool no_unicast;
	int kicked;
	struct iface *kick[MEMBERS];
	int64_t dropped, filtered, to_host;
};

void bridge_begin(struct batch *, struct net *, struct iface *from);
void bridge_forward(struct batch *, const uint8_t *frame, uint32_t len);
void bridge_end(struct batch *);
void bridge_add(struct net *, struct iface *);
void bridge_remove(struct net *, struct iface *);

// The host's own side, by the switch host.
enum { HOST_OFF, HOST_ON, HOST_WITHOUT_DHCP };
enum { HOST_ANSWER = 16384 + 14 };                                                              // the longest one
uint32_t host_answer(struct net *, const uint8_t *frame, uint32_t len, uint8_t *reply); // its length, 0 for none

// Interfaces. They are never freed: interface_ref has no release function, and a late caller must find out.
enum { STARTING, RUNNING, STOPPED, FAILED };

struct iface {
	uint32_t magic;
	_Atomic int state;
	_Atomic uint32_t dead; // the status it died with, or 0
	_Atomic int users;     // calls under way
	int64_t ordinal;
	struct net *net;
	bool isolated;
	uint32_t mtu, max_packet;
	uint8_t mac[6];
	uint8_t id[16];
	struct ring ring;          // written under the network's lock
	pthread_mutex_t read_lock; // for its reader
	struct source *source;     // under the network's lock
	bool kicked;
	struct iface *next;
};

#ifdef NO_MACOS15
enum { MAX_PACKETS = 200 };
#else
enum { MAX_PACKETS = 256 };
#endif
enum { MAX_BYTES = 256 << 10, MIN_FRAME = 14 };

vmnet_return_t iface_enter(struct iface *); // VMNET_SUCCESS: iface_leave must follow
void iface_leave(struct iface *);
vmnet_return_t iface_dies(struct iface *); // the status it died with, or VMNET_SUCCESS
void source_kick(struct iface *);          // with the network locked
void source_drop(struct source *);
struct iface *iface_new(void);

// Descriptions of interfaces.
struct description {
	struct settings s;
	bool has_id, no_mac, isolated, tso;
	uint8_t id[16];
};
bool describe_plain(const struct xpc *, struct description *);
bool describe_on_network(const struct xpc *, struct description *);
void describe_apply(struct iface *, struct description *); // chooses what the description leaves open
struct xpc *parameters(const struct iface *, const struct description *);
bool known_interface(const char *name);

// Addresses, in host byte order.
bool parse_ipv4(const char *, uint32_t *);
void format_ipv4(uint32_t, char out[16]);
bool private_range(uint32_t subnet, uint32_t mask);
bool good_mask(uint32_t mask);
bool ula_prefix(const uint8_t prefix[16]);

// Subnets and limits across processes.
vmnet_return_t owner_claim(struct settings *, int *index); // chooses a subnet if none was asked for
void owner_free(int index);
vmnet_return_t interface_count_up(void);
int rule_add(const struct rule *); // index or -1
void rules_forget(uint32_t subnet); // of a network of this process
void rules_free(struct control *, int process, int64_t subnet); // with the owners locked; -1: all of the process
bool forward_address(struct rule *, uint8_t family, const void *); // false if the rule or the address is none

uint64_t random64(void);

#endif
