/* SPDX-License-Identifier: Apache-2.0 */
/* Puts the collectives' device code into the program; a NUL follows it, since it may be text. */
	.section .rodata
	.balign 16
	.global kernels_coll_image
	.hidden kernels_coll_image
kernels_coll_image:
	.incbin KERNELS_COLL_IMAGE
	.byte 0
	.section .note.GNU-stack,"",%progbits
