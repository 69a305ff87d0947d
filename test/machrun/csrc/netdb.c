// SPDX-License-Identifier: Apache-2.0

// Names of hosts and services.
#include "socket.h"

#include <netdb.h>

struct d_addrinfo {
	int32_t flags, family, socktype, protocol;
	uint32_t addrlen;
	char *canonname;
	struct d_sockaddr *addr;
	struct d_addrinfo *next;
};

void s_freeaddrinfo(struct d_addrinfo *d)
{
	while (d != NULL) {
		struct d_addrinfo *next = d->next;
		free(d->canonname);
		free(d);
		d = next;
	}
}

static int eai(int e)
{
	switch (e) {
	case EAI_AGAIN: return 2;
	case EAI_BADFLAGS: return 3;
	case EAI_FAIL: return 4;
	case EAI_FAMILY: return 5;
	case EAI_MEMORY: return 6;
	case EAI_NONAME: case -5: return 8;
	case EAI_SERVICE: return 9;
	case EAI_SOCKTYPE: return 10;
	case EAI_SYSTEM: return 11;
	}
	return 4;
}

int s_getaddrinfo(const char *node, const char *service, const struct d_addrinfo *hints, struct d_addrinfo **out)
{
	struct addrinfo h = {0}, *list;
	if (hints != NULL) {
		h.ai_family = hints->family == D_AF_INET ? AF_INET : hints->family == D_AF_INET6 ? AF_INET6 : AF_UNSPEC;
		h.ai_socktype = hints->socktype, h.ai_protocol = hints->protocol;
		h.ai_flags = hints->flags & 7; // PASSIVE, CANONNAME, NUMERICHOST
	}
	int e = getaddrinfo(node, service, &h, &list);
	if (e != 0)
		return eai(e);
	struct d_addrinfo **tail = out;
	*out = NULL;
	for (struct addrinfo *l = list; l != NULL; l = l->ai_next) {
		struct d_addrinfo *d = calloc(1, sizeof *d + sizeof(struct d_sockaddr));
		if (d == NULL)
			break;
		union address a;
		memset(&a, 0, sizeof a);
		memcpy(&a, l->ai_addr, l->ai_addrlen);
		d->addr = (struct d_sockaddr *)(d + 1);
		d->addrlen = address_out(&a, l->ai_addrlen, d->addr, sizeof *d->addr);
		d->family = d->addr->family, d->socktype = l->ai_socktype, d->protocol = l->ai_protocol;
		d->canonname = l->ai_canonname != NULL ? strdup(l->ai_canonname) : NULL;
		*tail = d, tail = &d->next;
	}
	freeaddrinfo(list);
	return 0;
}

const char *s_gai_strerror(int e)
{
	return e == 8 ? "nodename nor servname provided, or not known" : e == 2 ? "temporary failure in name resolution" : "name resolution failed";
}
