// SPDX-License-Identifier: Apache-2.0

// The interfaces and routes of IPv4 in this network namespace, as sysctl tells of them: bsd/net/rtsock.c, sysctl_iflist and
// sysctl_dumpentry, with the messages of <net/if.h> and <net/route.h>.
#include "darwin.h"

#include <ifaddrs.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <netinet/in.h>

enum { VERSION = 5, GET = 4, NEWADDR = 0xc, IFINFO = 0xe };                          // RTM_
enum { DESTINATION = 1, GATEWAY = 2, NETMASK = 4, IFP = 0x10, IFA = 0x20 };          // RTA_
enum { ROUTE_HEADER = 92, INTERFACE_HEADER = 112, ADDRESS_HEADER = 20, INET = 16 };  // bytes

// A list is what the answer has so far. What has no room is left out.
struct list {
	size_t n;
	unsigned char b[1 << 16];
};

static void put16(unsigned char *at, unsigned v) { memcpy(at, &(uint16_t){(uint16_t)v}, 2); }
static void put32(unsigned char *at, uint32_t v) { memcpy(at, &v, 4); }

// begin adds a message of n bytes, with zeros for all but its head.
static unsigned char *begin(struct list *l, size_t n, int type)
{
	if (n > sizeof l->b - l->n)
		return NULL;
	unsigned char *m = l->b + l->n;
	l->n += n;
	memset(m, 0, n);
	put16(m, (unsigned)n);
	m[2] = VERSION, m[3] = (unsigned char)type;
	return m;
}

static unsigned char *inet(unsigned char *at, uint32_t address)
{
	at[0] = INET, at[1] = D_AF_INET;
	memcpy(at + 4, &address, 4);
	return at + INET;
}

static uint32_t flags_out(unsigned l)
{
	enum { SAME = IFF_UP | IFF_BROADCAST | IFF_LOOPBACK | IFF_POINTOPOINT | IFF_RUNNING, D_MULTICAST = 0x8000 };
	return (l & SAME) | (l & IFF_MULTICAST ? D_MULTICAST : 0);
}

// add_interface's message ends with a sockaddr_dl: <net/if_dl.h>. 6 and 24 are IFT_ETHER and IFT_LOOP.
static void add_interface(struct list *l, const struct ifaddrs *i)
{
	const struct sockaddr_ll *ll = (const void *)i->ifa_addr;
	size_t name = strlen(i->ifa_name), hardware = i->ifa_flags & IFF_LOOPBACK ? 0 : ll->sll_halen;
	size_t n = (8 + name + hardware + 3) / 4 * 4;
	unsigned char *m = begin(l, INTERFACE_HEADER + n, IFINFO);
	if (m == NULL)
		return;
	put32(m + 4, IFP);
	put32(m + 8, flags_out(i->ifa_flags));
	put16(m + 12, (unsigned)ll->sll_ifindex);
	unsigned char *d = m + INTERFACE_HEADER;
	d[0] = (unsigned char)n, d[1] = 18; // AF_LINK
	put16(d + 2, (unsigned)ll->sll_ifindex);
	d[4] = i->ifa_flags & IFF_LOOPBACK ? 24 : 6, d[5] = (unsigned char)name, d[6] = (unsigned char)hardware;
	memcpy(d + 8, i->ifa_name, name);
	memcpy(d + 8 + name, ll->sll_addr, hardware);
}

static void add_address(struct list *l, const struct ifaddrs *i)
{
	unsigned char *m = begin(l, ADDRESS_HEADER + 2 * INET, NEWADDR);
	if (m == NULL)
		return;
	put32(m + 4, NETMASK | IFA);
	put16(m + 12, if_nametoindex(i->ifa_name));
	inet(inet(m + ADDRESS_HEADER, ((struct sockaddr_in *)i->ifa_netmask)->sin_addr.s_addr), ((struct sockaddr_in *)i->ifa_addr)->sin_addr.s_addr);
}

static bool is(const struct ifaddrs *i, int family) { return i->ifa_addr != NULL && i->ifa_addr->sa_family == family; }

static void interfaces(struct list *l, int index)
{
	struct ifaddrs *all = NULL;
	if (getifaddrs(&all) != 0)
		return;
	for (struct ifaddrs *i = all; i != NULL; i = i->ifa_next) {
		if (!is(i, AF_PACKET) || (index != 0 && ((struct sockaddr_ll *)i->ifa_addr)->sll_ifindex != index))
			continue;
		add_interface(l, i);
		for (struct ifaddrs *a = all; a != NULL; a = a->ifa_next)
			if (is(a, AF_INET) && a->ifa_netmask != NULL && strcmp(a->ifa_name, i->ifa_name) == 0)
				add_address(l, a);
	}
	freeifaddrs(all);
}

// add_route: a mask has no more bytes than are set, and ones for its family and port: radix.c, rn_addmask.
static void add_route(struct list *l, unsigned index, uint32_t flags, uint32_t to, uint32_t gateway, uint32_t mask)
{
	enum { UP = 1, HOST = 4 };
	size_t bytes = flags & HOST || mask == 0 ? 0 : ((size_t)__builtin_popcount(mask) + 7) / 8;
	unsigned char *m = begin(l, ROUTE_HEADER + 2 * INET + (bytes == 0 ? 4 : 8), GET);
	if (m == NULL)
		return;
	put16(m + 4, index);
	put32(m + 8, flags | UP);
	put32(m + 12, DESTINATION | GATEWAY | NETMASK);
	unsigned char *k = inet(inet(m + ROUTE_HEADER, to), gateway);
	if (bytes == 0)
		return;
	k[0] = (unsigned char)(4 + bytes);
	memset(k + 1, 0xff, 3);
	memcpy(k + 4, &mask, 4);
}

// table begins with lo0's route, which macOS always has.
static void table(struct list *l)
{
	enum { GIVEN = 1 | 2 | 4 }; // RTF_UP, RTF_GATEWAY and RTF_HOST, which both systems have
	char name[IFNAMSIZ];
	unsigned to, gateway, flags, mask;
	add_route(l, 1, 4, htonl(INADDR_LOOPBACK), htonl(INADDR_LOOPBACK), 0);
	FILE *f = fopen("/proc/net/route", "re");
	if (f == NULL)
		return;
	(void)!fscanf(f, "%*[^\n]");
	while (fscanf(f, " %15s %x %x %x %*s %*s %*s %x %*[^\n]", name, &to, &gateway, &flags, &mask) == 5)
		add_route(l, if_nametoindex(name), flags & GIVEN, to, gateway, mask);
	fclose(f);
}

long routes(int32_t what, int32_t index, void *out, size_t *size)
{
	enum { DUMP = 1, INTERFACES = 3 }; // NET_RT_
	static __thread struct list l;
	l.n = 0;
	if (what == DUMP)
		table(&l);
	else if (what == INTERFACES)
		interfaces(&l, index);
	else
		return fail(D_EINVAL);
	return sysctl_answer(l.b, l.n, out, size);
}
