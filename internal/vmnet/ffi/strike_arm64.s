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
	MOVD 40(R0), R8 // blockLiteral.chime
	MOVW $1, R9

again:
	LDAXRW (R8), R10    // chime.rung
	STLXRW R9, (R8), R11
	CBNZW  R11, again
	CBNZW  R10, rung

	// return write(chime.fd, chime.stroke, 1)
	MOVW 4(R8), R0
	ADD  $16, R8, R1
	MOVD $1, R2
	MOVD 8(R8), R9
	JMP  (R9)

rung:
	RET
