// SPDX-License-Identifier: Apache-2.0

// Port forwarding of plain interfaces.
#include "internal.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdlib.h>

bool forward_address(struct rule *r, uint8_t family, const void *address)
{
	if ((r->protocol != IPPROTO_TCP && r->protocol != IPPROTO_UDP) || r->internal_port == 0 || r->external_port == 0 ||
		address == NULL || (family != DARWIN_AF_INET && family != DARWIN_AF_INET6))
		return false;
	uint32_t a = 0;
	if (family == DARWIN_AF_INET) {
		memcpy(&a, address, 4);
		if (a == 0)
			return false;
	}
	r->address = ntohl(a);
	return true;
}

struct answer {
	struct block *block;
	vmnet_return_t status;
};

static void run_added(void *p)
{
	struct answer *a = p;
	((status_invoke)a->block->invoke)(a->block, a->status);
	block_drop(a->block);
	free(a);
}

// The call takes no queue; its handler runs on one of the framework's.
static void answer(struct block *b, vmnet_return_t status)
{
	struct answer *a = need(malloc(sizeof *a));
	*a = (struct answer){block_hold(b), status};
	struct queue *q = queue_internal();
	queue_after(q, AT_ONCE, a, run_added);
	object_unref(q);
}

static bool taken(const struct rule *r)
{
	struct control *c = control();
	for (int i = 0; i < RULES; i++) {
		struct rule *o = &c->rules[i];
		if (atomic_load(&o->kind) == RULE_FORWARD && atomic_load(&o->protocol) == r->protocol &&
			atomic_load(&o->external_port) == r->external_port)
			return true;
	}
	return false;
}

static vmnet_return_t add(struct iface *i, struct rule *r)
{
	const struct settings *s = &i->net->s;
	if (s->subnet == 0 || (r->address != 0 && ((uint32_t)r->address & s->mask) != s->subnet))
		return VMNET_INVALID_ARGUMENT;
	r->subnet = s->subnet;
	return !taken(r) && rule_add(r) >= 0 ? VMNET_SUCCESS : VMNET_FAILURE;
}

vmnet_return_t vmnet_interface_add_ip_port_forwarding_rule(interface_ref i, uint8_t protocol, uint16_t external_port,
	uint8_t family, const void *address, uint16_t internal_port, struct block *b)
{
	COUNT(vmnet_interface_add_ip_port_forwarding_rule);
	int64_t result = FAULT(result, vmnet_interface_add_ip_port_forwarding_rule);
	int64_t status = FAULT(handler, vmnet_interface_add_ip_port_forwarding_rule);
	int64_t silent = FAULT(silent, vmnet_interface_add_ip_port_forwarding_rule);
	struct rule r = {
		.kind = RULE_FORWARD, .protocol = protocol, .internal_port = internal_port, .external_port = external_port};
	if (result != 0)
		return (vmnet_return_t)result;
	if (!forward_address(&r, family, address))
		return VMNET_INVALID_ARGUMENT;
	vmnet_return_t st = iface_enter(i);
	if (st != VMNET_SUCCESS)
		return st;
	if (i->net->s.kind == KIND_NETWORK) { // whose rules can be given to its configuration only
		iface_leave(i);
		return VMNET_FAILURE;
	}
	st = status != 0 ? (vmnet_return_t)status : add(i, &r);
	if (b != NULL && silent == 0)
		answer(b, st);
	iface_leave(i);
	return VMNET_SUCCESS;
}
