/* SPDX-License-Identifier: Apache-2.0
 *
 * The parts of the page. built.js is made of the scripts beside it: `make viewers`.
 */
	.section .rodata
#define PART(name, file)                                                                           \
	.global page_##name; .global page_##name##_end;                                            \
	.hidden page_##name; .hidden page_##name##_end;                                            \
	page_##name: .incbin file; page_##name##_end: .byte 0
PART(css, "viewers/page/page.css")
PART(html, "viewers/page/page.html")
PART(script, "viewers/page/built.js")
	.section .note.GNU-stack, "", %progbits
