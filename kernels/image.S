/* SPDX-License-Identifier: Apache-2.0 */
/* Puts the device code into the program; a NUL follows it, since an image may be text. */
	.section .rodata
	.balign 16
	.global kernels_sampler_image
	.hidden kernels_sampler_image
kernels_sampler_image:
	.incbin KERNELS_SAMPLER_IMAGE
	.global kernels_sampler_image_end
	.hidden kernels_sampler_image_end
kernels_sampler_image_end:
	.byte 0
	.balign 16
	.global kernels_tbe_image
	.hidden kernels_tbe_image
kernels_tbe_image:
	.incbin KERNELS_TBE_IMAGE
	.byte 0
	.global kernels_image_maker
	.hidden kernels_image_maker
kernels_image_maker:
	.asciz KERNELS_IMAGE_MAKER
	.section .note.GNU-stack,"",%progbits
