/* SPDX-License-Identifier: Apache-2.0
 *
 * What goes between the exporter and its symbol helper. Both are one program, so structs go as they
 * are; sizes are checked all the same, since the helper handles files of unknown make.
 */
#ifndef WAYLAY_EXPORTERS_SYMBOLS_H
#define WAYLAY_EXPORTERS_SYMBOLS_H

#include <stdint.h>

#define SYMBOL_TEXT_MAX  2048
#define SYMBOL_COUNT_MAX 16

/* As an offset: not an address is asked about; the path is a mangled name, and the answer what it means. */
#define SYMBOL_OF_NAME UINT64_MAX

struct symbol_request {  /* the path follows */
	uint64_t offset; /* a return address: what is asked about lies before it */
	uint8_t build_id[20];
	uint32_t build_id_bytes;
	uint32_t path_bytes;
};

struct symbol_answer { /* count times struct symbol_line follow */
	uint32_t count;
};

struct symbol_line { /* function and file follow */
	uint32_t line;
	uint32_t function_bytes, file_bytes;
};

#endif
