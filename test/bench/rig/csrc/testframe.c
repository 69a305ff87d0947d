// SPDX-License-Identifier: Apache-2.0

// The test frame.
#include "load.h"

static void make_mac(uint8_t *p, int client)
{
	// Locally administered, unicast.
	const uint8_t mac[MAC_LEN] = {0x02, 0x62, 0x65, 0x6e, (uint8_t)(client >> 8), (uint8_t)client};
	memcpy(p, mac, MAC_LEN);
}

static bool is_mac(const uint8_t *p, int client)
{
	uint8_t mac[MAC_LEN];
	make_mac(mac, client);
	return memcmp(p, mac, MAC_LEN) == 0;
}

void make_frame(uint8_t *p, enum kind kind, int from, int to, int len)
{
	put_prefix(p, (uint32_t)len);
	uint8_t *frame = p + PREFIX_LEN;
	make_mac(frame, to);
	make_mac(frame + MAC_LEN, from);
	frame[12] = 0x88; // IEEE 802 local experimental
	frame[13] = 0xb5;
	frame[KIND_AT] = (uint8_t)kind;
	frame[KIND_AT + 1] = 0;
	for (int i = PATTERN_AT; i < len; i++)
		frame[i] = (uint8_t)(i * 7 + from);
	set_seq(p, len, 0);
}

void set_seq(uint8_t *p, int len, uint64_t seq)
{
	memcpy(p + PREFIX_LEN + SEQ_AT, &seq, sizeof seq);
	memcpy(p + PREFIX_LEN + len - TAIL_LEN, &seq, sizeof seq);
}

uint64_t get_seq(const uint8_t *frame)
{
	uint64_t seq;
	memcpy(&seq, frame + SEQ_AT, sizeof seq);
	return seq;
}

bool is_for(const uint8_t *frame, int to)
{
	return is_mac(frame, to);
}

bool is_from(const uint8_t *frame, int from)
{
	return is_mac(frame + MAC_LEN, from);
}
