// SPDX-License-Identifier: Apache-2.0

// Memory: mmap and what goes with it.
#include "darwin.h"

#include <sys/mman.h>

void *s_mmap(void *addr, size_t n, int prot, int flags, int fd, off_t off)
{
	enum { D_NORESERVE = 0x40, D_ANON = 0x1000 };
	int l = flags & (MAP_SHARED | MAP_PRIVATE | MAP_FIXED); // these three are the same
	if (flags & ~(l | D_NORESERVE | D_ANON)) {
		TRACE("mmap flags %#x are not known", flags);
		return (void *)(long)fail(D_EINVAL);
	}
	if (flags & D_ANON) //: fd may be a tag there
		l |= MAP_ANONYMOUS, fd = -1, off = 0;
	if (prot == PROT_NONE)
		l |= MAP_NORESERVE;
	return (void *)ret((long)mmap(addr, n, prot, l, fd, off));
}
long s_madvise(void *addr, size_t n, int advice)
{
	switch (advice) {
	case 0: case 1: case 2: case 3: return ret(madvise(addr, n, advice));
	case 4: return 0; // DONTNEED is only a hint there, and on Linux it loses what is in the pages
	case 5: case 7: return ret(madvise(addr, n, MADV_FREE)); // FREE, FREE_REUSABLE
	case 8: return 0; // FREE_REUSE
	}
	return fail(D_EINVAL);
}
