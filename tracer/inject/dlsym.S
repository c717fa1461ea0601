/* SPDX-License-Identifier: Apache-2.0
 *
 * dlsym and dlvsym as everybody in the process sees them. glibc answers RTLD_NEXT and RTLD_DEFAULT
 * from its caller's return address, so these are jumps, not calls: for those two handles, for a
 * missing name, and for every name that no domain wants. The rest goes to C with the caller's return
 * address as a further argument, again by a jump.
 */

#if defined(__x86_64__)

/* \real: variable to jump through; \wanted: C function; \extra: register of its last argument */
.macro STUB name, real, wanted, extra
	.globl	\name
	.type	\name, @function
	.p2align 4
\name:
	.cfi_startproc
	endbr64
	movq	\real(%rip), %rax
	testq	%rax, %rax
	je	3f
1:	leaq	1(%rdi), %rcx		/* RTLD_NEXT is -1, RTLD_DEFAULT is 0 */
	cmpq	$1, %rcx
	jbe	2f
	testq	%rsi, %rsi
	je	2f
	movzbl	(%rsi), %ecx
	cmpb	$'c', %cl		/* the first letters of all domains: cheap, and safe ... */
	je	4f
	cmpb	$'f', %cl		/* ... for whoever looks up "malloc" before main */
	je	4f
2:	jmp	*%rax
3:	/* nobody has looked for the real one yet */
	pushq	%rdi
	.cfi_adjust_cfa_offset 8
	pushq	%rsi
	.cfi_adjust_cfa_offset 8
	pushq	%rdx
	.cfi_adjust_cfa_offset 8
	call	wl_symbols_start
	popq	%rdx
	.cfi_adjust_cfa_offset -8
	popq	%rsi
	.cfi_adjust_cfa_offset -8
	popq	%rdi
	.cfi_adjust_cfa_offset -8
	movq	\real(%rip), %rax
	jmp	1b
4:	pushq	%rdi
	.cfi_adjust_cfa_offset 8
	pushq	%rsi
	.cfi_adjust_cfa_offset 8
	pushq	%rdx
	.cfi_adjust_cfa_offset 8
	movq	%rsi, %rdi
	call	wl_symbol_wanted
	popq	%rdx
	.cfi_adjust_cfa_offset -8
	popq	%rsi
	.cfi_adjust_cfa_offset -8
	popq	%rdi
	.cfi_adjust_cfa_offset -8
	testb	%al, %al
	movq	\real(%rip), %rax
	je	2b
	movq	(%rsp), \extra
	jmp	\wanted
	.cfi_endproc
	.size	\name, . - \name
.endm

	.hidden	wl_next_dlsym
	.hidden	wl_next_dlvsym
	.hidden	wl_symbols_start
	.hidden	wl_symbol_wanted
	.hidden	wl_dlsym_wanted
	.hidden	wl_dlvsym_wanted
	.text
	STUB	dlsym, wl_next_dlsym, wl_dlsym_wanted, %rdx
	STUB	dlvsym, wl_next_dlvsym, wl_dlvsym_wanted, %rcx

#elif defined(__aarch64__)

.macro STUB name, real, wanted, extra
	.globl	\name
	.type	\name, %function
	.p2align 4
\name:
	.cfi_startproc
	hint	#34			/* bti c */
	adrp	x16, \real
	ldr	x16, [x16, :lo12:\real]
	cbz	x16, 3f
1:	add	x9, x0, #1		/* RTLD_NEXT is -1, RTLD_DEFAULT is 0 */
	cmp	x9, #1
	b.ls	2f
	cbz	x1, 2f
	ldrb	w9, [x1]
	cmp	w9, #'c'		/* the first letters of all domains: cheap, and safe ... */
	b.eq	4f
	cmp	w9, #'f'		/* ... for whoever looks up "malloc" before main */
	b.eq	4f
2:	br	x16
3:	/* nobody has looked for the real one yet */
	stp	x29, x30, [sp, #-48]!
	.cfi_adjust_cfa_offset 48
	.cfi_rel_offset x29, 0
	.cfi_rel_offset x30, 8
	stp	x0, x1, [sp, #16]
	str	x2, [sp, #32]
	bl	wl_symbols_start
	ldr	x2, [sp, #32]
	ldp	x0, x1, [sp, #16]
	ldp	x29, x30, [sp], #48
	.cfi_adjust_cfa_offset -48
	.cfi_restore x29
	.cfi_restore x30
	adrp	x16, \real
	ldr	x16, [x16, :lo12:\real]
	b	1b
4:	stp	x29, x30, [sp, #-48]!
	.cfi_adjust_cfa_offset 48
	.cfi_rel_offset x29, 0
	.cfi_rel_offset x30, 8
	stp	x0, x1, [sp, #16]
	str	x2, [sp, #32]
	mov	x0, x1
	bl	wl_symbol_wanted
	mov	w9, w0
	ldr	x2, [sp, #32]
	ldp	x0, x1, [sp, #16]
	ldp	x29, x30, [sp], #48
	.cfi_adjust_cfa_offset -48
	.cfi_restore x29
	.cfi_restore x30
	adrp	x16, \real
	ldr	x16, [x16, :lo12:\real]
	tst	w9, #0xff
	b.eq	2b
	mov	\extra, x30
	b	\wanted
	.cfi_endproc
	.size	\name, . - \name
.endm

	.hidden	wl_next_dlsym
	.hidden	wl_next_dlvsym
	.hidden	wl_symbols_start
	.hidden	wl_symbol_wanted
	.hidden	wl_dlsym_wanted
	.hidden	wl_dlvsym_wanted
	.text
	STUB	dlsym, wl_next_dlsym, wl_dlsym_wanted, x2
	STUB	dlvsym, wl_next_dlvsym, wl_dlvsym_wanted, x3

#else
#error "dlsym.S has no code for this processor"
#endif

	.section .note.GNU-stack,"",%progbits
