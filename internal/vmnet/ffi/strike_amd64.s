// SPDX-License-Identifier: Apache-2.0

//go:build darwin || vmnetsim

#include "textflag.h"

GLOBL ·strikeAddress(SB), NOPTR|RODATA, $8
DATA ·strikeAddress(SB)/8, $strike(SB)

// void strike(struct Block_literal *block, uint32_t mask, xpc_object_t event)
//
// Called from C, on a thread that Go does not know. It keeps to C's rules, needs no stack, and leaves everything but
// registers that a call may change as it is. See bell.go.
TEXT strike(SB), NOSPLIT|NOFRAME, $0-0
	MOVQ  40(DI), R11 // blockLiteral.chime
	MOVL  $1, AX
	XCHGL AX, 0(R11)  // chime.rung
	TESTL AX, AX
	JNZ   rung

	// return write(chime.fd, chime.stroke, 1)
	MOVL 4(R11), DI
	LEAQ 16(R11), SI
	MOVL $1, DX
	MOVQ 8(R11), AX
	JMP  AX

rung:
	RET
