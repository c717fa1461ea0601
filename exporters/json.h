/* SPDX-License-Identifier: Apache-2.0
 *
 * JSON text as a stream: buffered, compressed if wanted, into an output file.
 */
#ifndef WAYLAY_EXPORTERS_JSON_H
#define WAYLAY_EXPORTERS_JSON_H

#include "exporters/exporters.h"

#include <stdbool.h>

struct json {
	struct output output;
	char *buffer;
	size_t used;
	struct json_gzip *gzip; /* NULL: plain */
	bool finished;
	bool memory; /* written nowhere: what does not fit is left out */
};

/* Text in memory alone: json_memory_text() gives what was written since it was last called, up to
 * JSON_MEMORY_MAX bytes; json_memory_close frees it. -ENOMEM. */
#define JSON_MEMORY_MAX ((1u << 18) - (1u << 15))
int json_memory_open(struct json *json);
const char *json_memory_text(struct json *json);
void json_memory_close(struct json *json);

/* options: as output_open's. */
int json_open(struct json *json, const char *path, bool gzip, const struct export_options *options,
	      char *err, size_t err_size);
/* Writes what is left; nothing may follow but json_close. 0 or -errno. */
int json_finish(struct json *json);
/* error: 0, or why the file is given up. */
int json_close(struct json *json, int error, char *err, size_t err_size);

void json_raw(struct json *json, const char *text);
/* Bytes as they are, any number. */
void json_put(struct json *json, const char *bytes, size_t length);
/* A text in quotes: escaped, valid UTF-8, cut at 4 KiB. */
void json_text(struct json *json, const char *text);
void json_uint(struct json *json, uint64_t value);
void json_int(struct json *json, int64_t value);
/* As "0x..." in quotes: JavaScript has no whole numbers above 2^53. */
void json_hex(struct json *json, uint64_t value);
/* A number that JavaScript can hold, else decimal digits in quotes. */
void json_safe_uint(struct json *json, uint64_t value);
void json_double(struct json *json, double value);
/* Nanoseconds as microseconds with three decimals. */
void json_us(struct json *json, int64_t ns);
/* value / 10^digits with three decimals, more where those are not zero. digits: 3 to 9. */
void json_decimal(struct json *json, int64_t value, unsigned digits);

#endif
