// SPDX-License-Identifier: Apache-2.0

//go:build darwin || vmnetsim

#include "textflag.h"

// The functions of blocks. They are called from C, mostly on threads that Go does not know: they keep to C's rules (System V
// ABI) and never enter Go. Offsets are those of blockLiteral, wakeFlag and collection, which layout.go checks.

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
	MOVQ  32(DI), R11 // blockLiteral.flag
	MOVL  $1, AX
	XCHGL AX, 0(R11)  // wakeFlag.pending
	TESTL AX, AX
	JNZ   pending

	// return write(flag.fd, flag.bytes, 1)
	MOVL 4(R11), DI
	LEAQ 16(R11), SI
	MOVL $1, DX
	MOVQ 8(R11), AX
	JMP  AX

pending:
	RET

// void blockAnswer(struct Block_literal *block, vmnet_return_t status, xpc_object_t params)
//
// It stores its arguments, the first time that it is called for a use of the block, and goes on as blockEvent. params is kept
// only in a block that has a function to retain it.
TEXT blockAnswer(SB), NOSPLIT|NOFRAME, $0-0
	MOVL  $1, AX
	XCHGL AX, 40(DI) // blockLiteral.called
	TESTL AX, AX
	JNZ   again
	MOVL  SI, 48(DI) // blockLiteral.status
	CMPL  SI, $1000  // VMNET_SUCCESS: else there are no parameters
	JNE   stored
	MOVQ  64(DI), AX // blockLiteral.retain
	TESTQ AX, AX
	JZ    stored
	TESTQ DX, DX
	JZ    stored
	MOVQ  DX, 56(DI) // blockLiteral.params
	PUSHQ DI         // which aligns the stack to 16 bytes as well
	MOVQ  DX, DI
	CALL  AX         // retain(params)
	POPQ  DI

stored:
	MOVL  $1, AX
	XCHGL AX, 44(DI) // blockLiteral.answered: from here on only the flag's address is looked at, which stays the same
	JMP   blockEvent(SB)

again:
	RET

// bool blockCollect(struct Block_literal *block, const char *key, xpc_object_t value)
//
// It appends key and value to block's collection, and is false when that is full.
TEXT blockCollect(SB), NOSPLIT|NOFRAME, $0-0
	MOVQ 32(DI), R11 // blockLiteral.flag, here the *collection
	MOVQ 0(R11), R10 // collection.n
	XORL AX, AX
	CMPQ R10, $255   // maxEntries
	JCC  full
	INCQ 0(R11)
	SHLQ $4, R10
	MOVQ SI, 8(R11)(R10*1)
	MOVQ DX, 16(R11)(R10*1)
	MOVL $1, AX

full:
	RET
