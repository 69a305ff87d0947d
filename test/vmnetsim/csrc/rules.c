// SPDX-License-Identifier: Apache-2.0

// Forwarding rules and DHCP reservations in force, of all processes.
#include "internal.h"

void rules_free(struct control *c, int process, int64_t subnet)
{
	for (int i = 0; i < RULES; i++)
		if (atomic_load(&c->rules[i].process) == process && (subnet < 0 || atomic_load(&c->rules[i].subnet) == subnet))
			atomic_store(&c->rules[i].kind, 0);
}

void rules_forget(uint32_t subnet)
{
	owners_lock();
	rules_free(control(), process_index(), subnet);
	owners_unlock();
}

int rule_add(const struct rule *r)
{
	int found = -1;
	owners_lock();
	struct control *c = control();
	for (int i = 0; i < RULES && found < 0; i++) {
		struct rule *to = &c->rules[i];
		if (atomic_load(&to->kind) != 0)
			continue;
		found = i;
		atomic_store(&to->process, process_index());
		atomic_store(&to->protocol, atomic_load(&r->protocol));
		atomic_store(&to->external_port, atomic_load(&r->external_port));
		atomic_store(&to->internal_port, atomic_load(&r->internal_port));
		atomic_store(&to->address, atomic_load(&r->address));
		atomic_store(&to->mac, atomic_load(&r->mac));
		atomic_store(&to->subnet, atomic_load(&r->subnet));
		atomic_store(&to->kind, atomic_load(&r->kind));
	}
	owners_unlock();
	return found;
}
