// SPDX-License-Identifier: Apache-2.0

//go:build darwin || vmnetsim

#include "textflag.h"

// The functions of blocks. They are called from C, mostly on threads that Go does not know: they keep to C's rules (AAPCS64) and
// never enter Go. Offsets are those of blockLiteral, wakeFlag and collection, which layout.go checks.

GLOBL ·blockEventAddress(SB), NOPTR|RODATA, $8
DATA ·blockEventAddress(SB)/8, $blockEvent(SB)
GLOBL ·blockAnswerAddress(SB), NOPTR|RODATA, $8
DATA ·blockAnswerAddress(SB)/8, $blockAnswer(SB)
GLOBL ·blockCollectAddress(SB), NOPTR|RODATA, $8
DATA ·blockCollectAddress(SB)/8, $blockCollect(SB)

// void blockEvent(struct Block_literal *block, uint32_t mask, xpc_object_t event)
//
// It writes a byte to the pipe of block's wakeFlag, unless one is there.
TEXT blockEvent(SB), NOSPLIT|NOFRAME, $0-0
	MOVD 32(R0), R8 // blockLiteral.flag
	MOVW $1, R9

exchange:
	LDAXRW (R8), R10      // wakeFlag.pending
	STLXRW R9, (R8), R11
	CBNZW  R11, exchange
	CBNZW  R10, pending

	// return write(flag.fd, flag.bytes, 1)
	MOVW 4(R8), R0
	ADD  $16, R8, R1
	MOVD $1, R2
	MOVD 8(R8), R9
	JMP  (R9)

pending:
	RET

// void blockAnswer(struct Block_literal *block, vmnet_return_t status, xpc_object_t params)
//
// It stores its arguments, the first time that it is called for a use of the block, and goes on as blockEvent. params is kept
// only in a block that has a function to retain it.
TEXT blockAnswer(SB), NOSPLIT|NOFRAME, $0-0
	ADD  $40, R0, R8
	MOVW $1, R9

exchange:
	LDAXRW (R8), R10      // blockLiteral.called
	STLXRW R9, (R8), R11
	CBNZW  R11, exchange
	CBNZW  R10, again
	MOVW   R1, 48(R0)     // blockLiteral.status
	CMPW   $1000, R1      // VMNET_SUCCESS: else there are no parameters
	BNE    stored
	MOVD   64(R0), R9     // blockLiteral.retain
	CBZ    R9, stored
	CBZ    R2, stored
	MOVD   R2, 56(R0)     // blockLiteral.params

	// retain(params), with a frame record as C makes it
	STP.W (R29, R30), -32(RSP)
	MOVD  R0, 16(RSP)
	MOVD  RSP, R29
	MOVD  R2, R0
	CALL  (R9)
	MOVD  16(RSP), R0
	LDP.P 32(RSP), (R29, R30)

stored:
	ADD   $44, R0, R8
	MOVW  $1, R9
	STLRW R9, (R8)        // blockLiteral.answered: from here on only the flag's address is looked at, which stays the same
	JMP   blockEvent(SB)

again:
	RET

// bool blockCollect(struct Block_literal *block, const char *key, xpc_object_t value)
//
// It appends key and value to block's collection, and is false when that is full.
TEXT blockCollect(SB), NOSPLIT|NOFRAME, $0-0
	MOVD 32(R0), R8    // blockLiteral.flag, here the *collection
	MOVD (R8), R9      // collection.n
	MOVD $0, R0
	CMP  $255, R9      // maxEntries
	BHS  full
	ADD  $1, R9, R10
	MOVD R10, (R8)
	ADD  R9<<4, R8, R8
	MOVD R1, 8(R8)
	MOVD R2, 16(R8)
	MOVD $1, R0

full:
	RET
