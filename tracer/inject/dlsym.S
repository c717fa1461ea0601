/* SPDX-License-Identifier: Apache-2.0
 *
 * dlsym and dlvsym as everybody in the process sees them. glibc answers RTLD_NEXT and RTLD_DEFAULT
 * from its caller's return address, so these are jumps, not calls: for those two handles and for every
 * name that no domain wants. The rest goes to C with the caller's return address as a further argument,
 * again by a jump.
 */

/*
 * STUB name, real, asked, extra
 *   real   variable that holds the function to jump to
 *   asked  C function that answers for names we want
 *   extra  register of its last argument: the caller's return address
 * A name that begins as those of a domain do is looked at by wl_symbol_route(), which says how to go on:
 * 0 as if we were not there, 1 through `asked`, else as if this had been the handle.
 */

#if defined(__x86_64__)

.macro SAVE
	pushq	%rdi
	.cfi_adjust_cfa_offset 8
	pushq	%rsi
	.cfi_adjust_cfa_offset 8
	pushq	%rdx
	.cfi_adjust_cfa_offset 8
.endm

.macro RESTORE
	popq	%rdx
	.cfi_adjust_cfa_offset -8
	popq	%rsi
	.cfi_adjust_cfa_offset -8
	popq	%rdi
	.cfi_adjust_cfa_offset -8
.endm

.macro STUB name, real, asked, extra
	.globl	\name
	.type	\name, @function
	.p2align 4
\name:
	.cfi_startproc
	endbr64
	cmpq	$0, \real(%rip)
	je	3f
1:	testq	%rsi, %rsi
	je	2f
	movzbl	(%rsi), %ecx
	cmpb	$'c', %cl		/* cu..., */
	je	4f
	cmpb	$'f', %cl		/* fi_... */
	je	4f
2:	jmp	*\real(%rip)
3:	SAVE				/* nobody has looked for the real one yet */
	call	wl_symbols_start
	RESTORE
	jmp	1b
4:	SAVE
	movq	24(%rsp), %rdx		/* the caller's return address, above what was saved */
	call	wl_symbol_route
	RESTORE
	testq	%rax, %rax
	je	2b
	cmpq	$1, %rax
	je	5f
	movq	%rax, %rdi
	jmp	2b
5:	movq	(%rsp), \extra
	jmp	\asked
	.cfi_endproc
	.size	\name, . - \name
.endm

#define DLSYM_EXTRA  %rdx
#define DLVSYM_EXTRA %rcx

#elif defined(__aarch64__)

.macro SAVE
	stp	x29, x30, [sp, #-48]!
	.cfi_adjust_cfa_offset 48
	.cfi_rel_offset x29, 0
	.cfi_rel_offset x30, 8
	stp	x0, x1, [sp, #16]
	str	x2, [sp, #32]
.endm

.macro RESTORE
	ldr	x2, [sp, #32]
	ldp	x0, x1, [sp, #16]
	ldp	x29, x30, [sp], #48
	.cfi_adjust_cfa_offset -48
	.cfi_restore x29
	.cfi_restore x30
.endm

.macro STUB name, real, asked, extra
	.globl	\name
	.type	\name, %function
	.p2align 4
\name:
	.cfi_startproc
	hint	#34			/* bti c */
	adrp	x16, \real
	ldr	x16, [x16, :lo12:\real]
	cbz	x16, 3f
1:	cbz	x1, 2f
	ldrb	w9, [x1]
	cmp	w9, #'c'		/* cu..., */
	b.eq	4f
	cmp	w9, #'f'		/* fi_... */
	b.eq	4f
2:	adrp	x16, \real
	ldr	x16, [x16, :lo12:\real]
	br	x16
3:	SAVE				/* nobody has looked for the real one yet */
	bl	wl_symbols_start
	RESTORE
	b	1b
4:	SAVE
	mov	x2, x30
	bl	wl_symbol_route
	mov	x9, x0
	RESTORE
	cbz	x9, 2b
	cmp	x9, #1
	b.eq	5f
	mov	x0, x9
	b	2b
5:	mov	\extra, x30
	b	\asked
	.cfi_endproc
	.size	\name, . - \name
.endm

#define DLSYM_EXTRA  x2
#define DLVSYM_EXTRA x3

#else
#error "dlsym.S has no code for this processor"
#endif

	.hidden	wl_next_dlsym
	.hidden	wl_next_dlvsym
	.hidden	wl_symbols_start
	.hidden	wl_symbol_route
	.hidden	wl_dlsym_wanted
	.hidden	wl_dlvsym_wanted
	.text
	STUB	dlsym, wl_next_dlsym, wl_dlsym_wanted, DLSYM_EXTRA
	STUB	dlvsym, wl_next_dlvsym, wl_dlvsym_wanted, DLVSYM_EXTRA

	.section .note.GNU-stack,"",%progbits
