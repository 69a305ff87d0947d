// SPDX-License-Identifier: Apache-2.0

// A second reader of the stream's format, by the rules of QEMU's (net/net.c, net_fill_rstate): a byte at a time, a length in network order,
// then as many bytes, which fit into NET_BUFSIZE or end the connection. It reads streams of at most 1 MiB, each after its length as
// uint32 of the machine, and writes for each of them: for each frame its length, then its bytes; 0xffffffff and the bytes left over for
// an end that waits for more, 0xfffffffe for a connection that is ended.

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { largest = 4096 + 65536, waits = -1, ended = -2 };

static unsigned char frame[largest];

static void put(uint32_t v) { fwrite(&v, sizeof v, 1, stdout); }

static void read_stream(uint32_t bytes)
{
	uint32_t length = 0, have = 0, left = 0;
	int prefix = 4, lost = 0;
	while (bytes-- > 0) {
		int c = getchar();
		if (c == EOF)
			exit(1);
		if (lost)
			continue;
		left++;
		if (prefix > 0) {
			length = length << 8 | (uint32_t)c;
			if (--prefix > 0)
				continue;
			have = 0;
		} else if (have < largest) {
			frame[have++] = (unsigned char)c;
		}
		if (length > largest) { // QEMU ends it at the first byte that does not fit, and hands on nothing until then
			lost = 1;
		} else if (have == length) {
			put(length);
			fwrite(frame, 1, length, stdout);
			prefix = 4, length = 0, left = 0;
		}
	}
	put(lost ? (uint32_t)ended : (uint32_t)waits);
	if (!lost)
		put(left);
	fflush(stdout);
}

int main(void)
{
	uint32_t bytes;
	while (fread(&bytes, sizeof bytes, 1, stdin) == 1)
		read_stream(bytes);
	return 0;
}
