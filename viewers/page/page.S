/* SPDX-License-Identifier: Apache-2.0
 *
 * The parts of the page, as they are in the source.
 */
	.section .rodata
#define PART(name, file)                                                                           \
	.global page_##name; .global page_##name##_end;                                            \
	.hidden page_##name; .hidden page_##name##_end;                                            \
	page_##name: .incbin file; page_##name##_end: .byte 0
PART(css, "viewers/page/page.css")
PART(html, "viewers/page/page.html")
PART(words, "viewers/page/words.js")
PART(tables, "viewers/page/tables.js")
PART(charts, "viewers/page/charts.js")
PART(timeline, "viewers/page/timeline.js")
PART(main, "viewers/page/main.js")
	.section .note.GNU-stack, "", %progbits
