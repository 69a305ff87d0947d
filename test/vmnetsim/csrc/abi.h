// SPDX-License-Identifier: Apache-2.0

// What the library exports: the parts of vmnet.framework, libxpc, libdispatch, CoreFoundation, the Blocks runtime and
// libSystem that a binding of vmnet needs, with macOS's names, argument orders, numbers and layouts. See README.md.
#ifndef VMNETSIM_ABI_H
#define VMNETSIM_ABI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

// Flavours: the full one is macOS 26.
#ifdef NO_MACOS15
#define NO_MACOS26
#endif

struct in_addr;
struct in6_addr;
struct iovec;
struct block;
typedef struct iface *interface_ref;
typedef struct net *vmnet_network_ref;
typedef struct config *vmnet_network_configuration_ref;
typedef struct xpc *xpc_object_t;
typedef struct queue *dispatch_queue_t;
typedef uint32_t vmnet_return_t;

enum {
	VMNET_HOST_MODE = 1000,
	VMNET_SHARED_MODE,
	VMNET_BRIDGED_MODE,
};

enum {
	VMNET_SUCCESS = 1000,
	VMNET_FAILURE,
	VMNET_MEM_FAILURE,
	VMNET_INVALID_ARGUMENT,
	VMNET_SETUP_INCOMPLETE,
	VMNET_INVALID_ACCESS,
	VMNET_PACKET_TOO_BIG,
	VMNET_BUFFER_EXHAUSTED,
	VMNET_TOO_MANY_PACKETS,
	VMNET_SHARING_SERVICE_BUSY,
	VMNET_NOT_AUTHORIZED,
};

enum { VMNET_INTERFACE_PACKETS_AVAILABLE = 1 };

// Darwin's address families.
enum { DARWIN_AF_INET = 2, DARWIN_AF_INET6 = 30 };

struct vmpktdesc {
	size_t vm_pkt_size;
	struct iovec *vm_pkt_iov;
	uint32_t vm_pkt_iovcnt;
	uint32_t vm_flags;
};

// struct block is Block_literal_1 of the Blocks ABI, without captured variables.
struct block {
	void *isa;
	int32_t flags;
	int32_t reserved;
	void (*invoke)(void);
	struct block_descriptor *descriptor;
};

struct block_descriptor {
	size_t reserved;
	size_t size;
};

enum { BLOCK_IS_GLOBAL = 1 << 28 };

// struct msghdr_x has darwin's struct msghdr in front, whose lengths are 32 bits.
struct msghdr_x {
	void *msg_name;
	uint32_t msg_namelen;
	struct iovec *msg_iov;
	int32_t msg_iovlen;
	void *msg_control;
	uint32_t msg_controllen;
	int32_t msg_flags;
	size_t msg_datalen;
};

#pragma GCC visibility push(default)

interface_ref vmnet_start_interface(xpc_object_t desc, dispatch_queue_t, struct block *handler);
vmnet_return_t vmnet_stop_interface(interface_ref, dispatch_queue_t, struct block *handler);
vmnet_return_t vmnet_interface_set_event_callback(interface_ref, uint32_t mask, dispatch_queue_t, struct block *);
vmnet_return_t vmnet_read(interface_ref, struct vmpktdesc *, int *count);
vmnet_return_t vmnet_write(interface_ref, struct vmpktdesc *, int *count);
xpc_object_t vmnet_copy_shared_interface_list(void);
vmnet_return_t vmnet_interface_add_ip_port_forwarding_rule(interface_ref, uint8_t protocol, uint16_t external_port,
	uint8_t family, const void *address, uint16_t internal_port, struct block *handler);

#ifndef NO_MACOS26
vmnet_network_configuration_ref vmnet_network_configuration_create(uint32_t mode, vmnet_return_t *status);
vmnet_return_t vmnet_network_configuration_set_external_interface(vmnet_network_configuration_ref, const char *name);
vmnet_return_t vmnet_network_configuration_set_ipv4_subnet(vmnet_network_configuration_ref, const struct in_addr *subnet,
	const struct in_addr *mask);
vmnet_return_t vmnet_network_configuration_set_ipv6_prefix(vmnet_network_configuration_ref, const struct in6_addr *,
	uint8_t length);
vmnet_return_t vmnet_network_configuration_set_mtu(vmnet_network_configuration_ref, uint32_t mtu);
vmnet_return_t vmnet_network_configuration_add_dhcp_reservation(vmnet_network_configuration_ref, const uint8_t mac[6],
	const struct in_addr *);
vmnet_return_t vmnet_network_configuration_add_port_forwarding_rule(vmnet_network_configuration_ref, uint8_t protocol,
	uint8_t family, uint16_t internal_port, uint16_t external_port, const void *address);
void vmnet_network_configuration_disable_nat44(vmnet_network_configuration_ref);
void vmnet_network_configuration_disable_nat66(vmnet_network_configuration_ref);
void vmnet_network_configuration_disable_dhcp(vmnet_network_configuration_ref);
void vmnet_network_configuration_disable_dns_proxy(vmnet_network_configuration_ref);
void vmnet_network_configuration_disable_router_advertisement(vmnet_network_configuration_ref);
vmnet_network_ref vmnet_network_create(vmnet_network_configuration_ref, vmnet_return_t *status);
interface_ref vmnet_interface_start_with_network(vmnet_network_ref, xpc_object_t desc, dispatch_queue_t,
	struct block *handler);
void vmnet_network_get_ipv4_subnet(vmnet_network_ref, struct in_addr *subnet, struct in_addr *mask);
void vmnet_network_get_ipv6_prefix(vmnet_network_ref, struct in6_addr *, uint8_t *length);
#endif

extern const char *vmnet_operation_mode_key, *vmnet_shared_interface_name_key, *vmnet_mac_address_key;
extern const char *vmnet_allocate_mac_address_key, *vmnet_mtu_key, *vmnet_max_packet_size_key, *vmnet_interface_id_key;
extern const char *vmnet_start_address_key, *vmnet_end_address_key, *vmnet_subnet_mask_key, *vmnet_nat66_prefix_key;
extern const char *vmnet_estimated_packets_available_key, *vmnet_network_identifier_key, *vmnet_host_ip_address_key;
extern const char *vmnet_host_subnet_mask_key, *vmnet_host_ipv6_address_key, *vmnet_enable_tso_key;
extern const char *vmnet_enable_isolation_key, *vmnet_enable_checksum_offload_key;
#ifndef NO_MACOS15
extern const char *vmnet_read_max_packets_key, *vmnet_write_max_packets_key, *vmnet_enable_virtio_header_key;
#endif

struct xpc_type {
	const char *name;
};
typedef const struct xpc_type *xpc_type_t;
extern const struct xpc_type _xpc_type_dictionary, _xpc_type_array, _xpc_type_string, _xpc_type_uint64, _xpc_type_int64;
extern const struct xpc_type _xpc_type_bool, _xpc_type_uuid;

xpc_object_t xpc_dictionary_create(const char *const *keys, const xpc_object_t *values, size_t count);
void xpc_dictionary_set_value(xpc_object_t, const char *key, xpc_object_t value);
void xpc_dictionary_set_uint64(xpc_object_t, const char *key, uint64_t);
void xpc_dictionary_set_int64(xpc_object_t, const char *key, int64_t);
void xpc_dictionary_set_bool(xpc_object_t, const char *key, bool);
void xpc_dictionary_set_string(xpc_object_t, const char *key, const char *);
void xpc_dictionary_set_uuid(xpc_object_t, const char *key, const uint8_t uuid[16]);
uint64_t xpc_dictionary_get_uint64(xpc_object_t, const char *key);
bool xpc_dictionary_apply(xpc_object_t, struct block *applier); // bool (^)(const char *key, xpc_object_t value)
xpc_type_t xpc_get_type(xpc_object_t);
uint64_t xpc_uint64_get_value(xpc_object_t);
int64_t xpc_int64_get_value(xpc_object_t);
bool xpc_bool_get_value(xpc_object_t);
const char *xpc_string_get_string_ptr(xpc_object_t);
const uint8_t *xpc_uuid_get_bytes(xpc_object_t);
size_t xpc_array_get_count(xpc_object_t);
const char *xpc_array_get_string(xpc_object_t, size_t);
xpc_object_t xpc_retain(xpc_object_t);
void xpc_release(xpc_object_t);

dispatch_queue_t dispatch_queue_create(const char *label, void *attr);
void dispatch_release(dispatch_queue_t);
void CFRelease(void *);
extern void *_NSConcreteGlobalBlock[32];

ssize_t sendmsg_x(int fd, const struct msghdr_x *, unsigned count, int flags);
ssize_t recvmsg_x(int fd, struct msghdr_x *, unsigned count, int flags);
int launch_activate_socket(const char *name, int **fds, size_t *count);
int proc_pidpath(int pid, void *path, uint32_t size);

// The simulator's own. vmnetsim_open comes before all else: it maps the control file in a directory, or private memory
// for NULL, and returns 0 or an errno. It may be called again while nothing lives.
int vmnetsim_open(const char *dir);

// vmnetsim_host sets the switch host, and what it is preset to: 1 for a host that answers, see README.md.
void vmnetsim_host(int what);

#pragma GCC visibility pop

#define AT(type, field, offset) _Static_assert(offsetof(struct type, field) == (offset), #type "." #field)
_Static_assert(sizeof(void *) == 8, "the layouts are those of a 64-bit darwin");
_Static_assert(sizeof(struct vmpktdesc) == 24, "vmpktdesc");
AT(vmpktdesc, vm_pkt_iov, 8);
AT(vmpktdesc, vm_pkt_iovcnt, 16);
AT(vmpktdesc, vm_flags, 20);
_Static_assert(sizeof(struct msghdr_x) == 56, "msghdr_x");
AT(msghdr_x, msg_namelen, 8);
AT(msghdr_x, msg_iov, 16);
AT(msghdr_x, msg_iovlen, 24);
AT(msghdr_x, msg_control, 32);
AT(msghdr_x, msg_controllen, 40);
AT(msghdr_x, msg_flags, 44);
AT(msghdr_x, msg_datalen, 48);
_Static_assert(sizeof(struct block) == 32, "block");
AT(block, flags, 8);
AT(block, invoke, 16);
AT(block, descriptor, 24);
#undef AT

#endif
