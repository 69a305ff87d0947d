// SPDX-License-Identifier: Apache-2.0

// The host's own side: ping and DHCP.
#include "harness.h"
#include "host.h"

#include <arpa/inet.h>

enum { DISCOVER = 1, OFFER, REQUEST, ACK = 5, NAK };

static uint32_t ip(const char *text)
{
	uint32_t a = 0;
	CHECK(parse_ipv4(text, &a));
	return a;
}

// A frame with an IPv4 packet from guest number to the host's MAC address, or to all where that is unknown.
static void packet(struct frame *f, uint8_t number, const uint8_t *mac, const char *from, const char *to, uint8_t protocol,
	uint32_t len)
{
	frame_make(f, ALL, number, ETHERNET + IP + len);
	if (mac != NULL)
		memcpy(f->bytes, mac, 6);
	uint8_t *p = f->bytes + ETHERNET;
	put16(f->bytes + 12, 0x0800);
	memset(p, 0, IP);
	p[0] = 0x45;
	put16(p + 2, (uint16_t)(IP + len));
	p[9] = protocol;
	put32(p + 12, ip(from));
	put32(p + 16, ip(to));
	put16(p + 10, checksum(p, IP, 0));
}

// What the host says to a DHCP message; 0 for nothing, else the type, and whose address it gives.
static int dhcp(struct nic *n, uint8_t number, int type, const char *own, const char *wish, char given[16])
{
	struct frame f;
	packet(&f, number, NULL, own, "255.255.255.255", 17, UDP_HEADER + 300);
	uint8_t *udp = f.bytes + ETHERNET + IP, *p = udp + UDP_HEADER;
	memset(udp, 0, UDP_HEADER + 300);
	put16(udp, 68);
	put16(udp + 2, 67);
	put16(udp + 4, UDP_HEADER + 300);
	memcpy(p, (uint8_t[]){1, 1, 6, 0, 1, 2, 3, 4}, 8);
	put32(p + 12, ip(own));
	memcpy(p + 28, f.bytes + 6, 6);
	memcpy(p + 236, (uint8_t[]){99, 130, 83, 99, 53, 1, (uint8_t)type, 12, 5, 'g', 'u', 'e', 's', 't', 50, 4}, 16);
	put32(p + 252, wish == NULL ? 0 : ip(wish));
	p[256] = 255;
	EQUAL(VMNET_SUCCESS, nic_send(n, &f));
	if (nic_receive(n, &f) == 0)
		return 0;
	CHECK(checksum(f.bytes + ETHERNET, IP, 0) == 0);
	CHECK(memcmp(p + 4, (uint8_t[]){1, 2, 3, 4}, 4) == 0);
	format_ipv4(get32(p + 16), given);
	EQUAL(53, p[240]);
	return p[242];
}

static void on_host(struct nic *n, const char *start, const char *end)
{
	SET(host, HOST_ON);
	nic_open(n, NULL, describe_range(VMNET_SHARED_MODE, start, end, "255.255.255.0"));
}

CASE(host_answers_ping)
{
	struct nic n;
	struct frame f, got;
	uint8_t mac[6] = {0x02, 'h', 10, 11, 0, 1};
	on_host(&n, "10.11.0.1", "10.11.0.9");
	packet(&f, 1, mac, "10.11.0.7", "10.11.0.1", 1, 1480);
	uint8_t *icmp = f.bytes + ETHERNET + IP;
	memcpy(icmp, (uint8_t[]){8, 0, 0, 0}, 4);
	put16(icmp + 2, checksum(icmp, 1480, 0));
	EQUAL(VMNET_SUCCESS, nic_send(&n, &f));
	EQUAL(1, nic_receive(&n, &got));
	EQUAL(f.len, got.len);
	EQUAL(0, checksum(got.bytes + ETHERNET + IP, 1480, 0));
	icmp[2]++; // spoilt
	EQUAL(VMNET_SUCCESS, nic_send(&n, &f));
	nic_silent(&n);
	nic_close(&n);
}

CASE(host_leases_addresses)
{
	struct nic n;
	char a[16] = "", b[16] = "";
	on_host(&n, "10.12.0.1", "10.12.0.3");
	EQUAL(OFFER, dhcp(&n, 1, DISCOVER, "0.0.0.0", NULL, a));
	CHECK(strcmp(a, "10.12.0.2") == 0);
	EQUAL(ACK, dhcp(&n, 1, REQUEST, "0.0.0.0", a, a));
	CHECK(strcmp(a, "10.12.0.2") == 0);
	EQUAL(NAK, dhcp(&n, 2, REQUEST, "0.0.0.0", a, b));			// another's
	EQUAL(NAK, dhcp(&n, 2, REQUEST, "0.0.0.0", "10.12.0.4", b)); // beyond the range
	EQUAL(NAK, dhcp(&n, 2, REQUEST, "0.0.0.0", "10.12.0.1", b)); // the host's
	EQUAL(ACK, dhcp(&n, 2, REQUEST, "0.0.0.0", "10.12.0.3", b));
	EQUAL(0, dhcp(&n, 3, DISCOVER, "0.0.0.0", NULL, b)); // the range is full
	EQUAL(ACK, dhcp(&n, 1, REQUEST, "10.12.0.2", NULL, a)); // renewed
	SET(host, HOST_WITHOUT_DHCP);
	EQUAL(0, dhcp(&n, 2, REQUEST, "0.0.0.0", "10.12.0.3", b));
	nic_close(&n);
}

// A lease is of a MAC address and a subnet, and outlives the network.
CASE(host_keeps_leases)
{
	static const char *const nets[][3] = {{"10.13.0.1", "10.13.0.9", "10.13.0.5"}, {"10.14.0.1", "10.14.0.9", "10.14.0.6"}};
	struct nic n;
	char a[16];
	for (int i = 0; i < 2; i++) {
		on_host(&n, nets[i][0], nets[i][1]);
		EQUAL(ACK, dhcp(&n, 1, REQUEST, "0.0.0.0", nets[i][2], a));
		nic_close(&n);
	}
	for (int i = 0; i < 2; i++) {
		on_host(&n, nets[i][0], nets[i][1]);
		EQUAL(OFFER, dhcp(&n, 1, DISCOVER, "0.0.0.0", NULL, a));
		CHECK(strcmp(a, nets[i][2]) == 0);
		nic_close(&n);
	}
}

// Cut anywhere, and with each byte changed, a message does no harm.
CASE(host_survives_bad_frames)
{
	struct nic n;
	struct frame f;
	char a[16];
	on_host(&n, "10.15.0.1", "10.15.0.9");
	EQUAL(OFFER, dhcp(&n, 1, DISCOVER, "0.0.0.0", NULL, a));
	packet(&f, 1, NULL, "0.0.0.0", "255.255.255.255", 17, UDP_HEADER + 244);
	uint8_t *udp = f.bytes + ETHERNET + IP;
	memset(udp, 255, UDP_HEADER + 244);
	memcpy(udp, (uint8_t[]){0, 68, 0, 67}, 4);
	memcpy(udp + UDP_HEADER, (uint8_t[]){1, 1, 6}, 3);
	memcpy(udp + UDP_HEADER + 28, f.bytes + 6, 6);
	memcpy(udp + UDP_HEADER + 236, (uint8_t[]){99, 130, 83, 99, 53, 1, 1, 12}, 8);
	for (unsigned size = 0; size < 600; size++) {
		put16(udp + 4, (uint16_t)size);
		EQUAL(VMNET_SUCCESS, nic_send(&n, &f));
	}
	put16(udp + 4, UDP_HEADER + 244);
	for (size_t len = f.len; len >= MIN_FRAME; len--) {
		f.len = len;
		EQUAL(VMNET_SUCCESS, nic_send(&n, &f));
	}
	while (nic_receive(&n, &f) != 0) { // some were good
	}
	EQUAL(OFFER, dhcp(&n, 1, DISCOVER, "0.0.0.0", NULL, a));
	nic_close(&n);
}

#ifndef NO_MACOS26

static vmnet_network_ref network(const char *host, const uint8_t *reserved_for, const char *address, bool no_dhcp)
{
	vmnet_return_t st;
	struct in_addr s = {htonl(ip(host))}, m = {htonl(0xffffff00)}, r = {address == NULL ? 0 : htonl(ip(address))};
	vmnet_network_configuration_ref c = vmnet_network_configuration_create(VMNET_HOST_MODE, &st);
	EQUAL(VMNET_SUCCESS, vmnet_network_configuration_set_ipv4_subnet(c, &s, &m));
	if (address != NULL)
		EQUAL(VMNET_SUCCESS, vmnet_network_configuration_add_dhcp_reservation(c, reserved_for, &r));
	if (no_dhcp)
		vmnet_network_configuration_disable_dhcp(c);
	vmnet_network_ref n = vmnet_network_create(c, &st);
	EQUAL(VMNET_SUCCESS, st);
	CFRelease(c);
	return n;
}

CASE(host_honours_configurations)
{
	static const struct {
		const char *host;
		bool no_dhcp;
		int answer;
	} cases[] = {{"10.16.0.1", false, OFFER}, {"10.16.0.1", true, 0}, {"10.16.0.0", false, 0}};
	const uint8_t mac[6] = {2, 0, 0, 0, 0, 9};
	SET(host, HOST_ON);
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct nic n;
		char a[16];
		vmnet_network_ref net = network(cases[i].host, mac, "10.16.0.2", cases[i].no_dhcp);
		nic_open(&n, net, describe(0));
		EQUAL(cases[i].answer, dhcp(&n, 9, DISCOVER, "0.0.0.0", NULL, a));
		if (cases[i].answer != 0) {
			CHECK(strcmp(a, "10.16.0.2") == 0);
			EQUAL(OFFER, dhcp(&n, 8, DISCOVER, "0.0.0.0", NULL, a));
			CHECK(strcmp(a, "10.16.0.3") == 0); // the other one is reserved
		}
		nic_close(&n);
		CFRelease(net);
	}
}

#endif

// Gets a lease on 192.168.105.0/24, and prints the address.
TOOL(lease)
{
	struct nic n;
	char a[16];
	vmnetsim_host(HOST_ON);
	on_host(&n, "192.168.105.1", "192.168.105.254");
	EQUAL(OFFER, dhcp(&n, 9, DISCOVER, "0.0.0.0", NULL, a));
	EQUAL(ACK, dhcp(&n, 9, REQUEST, "0.0.0.0", a, a));
	printf("%s\n", a);
	nic_close(&n);
}
