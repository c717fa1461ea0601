/* SPDX-License-Identifier: Apache-2.0
 *
 * Texts kept once: equal texts have one address and one small number, so that later steps compare
 * and cache by number.
 */
#ifndef WAYLAY_EXPORTERS_TEXT_H
#define WAYLAY_EXPORTERS_TEXT_H

#include <stddef.h>
#include <stdint.h>

struct text_pool;

struct text_pool *text_pool_new(void);
void text_pool_free(struct text_pool *pool);
/* The number of a text, from 1 on; 0 when memory is short. */
uint32_t text_pool_add(struct text_pool *pool, const char *text, size_t length);
/* The text of a number given by text_pool_add; "" for 0 or any other. Lives as long as the pool. */
const char *text_pool_get(const struct text_pool *pool, uint32_t number);
uint32_t text_pool_count(const struct text_pool *pool);
/* The pool's own copy of a text; NULL gives NULL, "" when memory is short. */
const char *text_keep(struct text_pool *pool, const char *text);
const char *text_keepf(struct text_pool *pool, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* Mixes the bits of a number: for hash tables and for ids that must not collide by chance. */
static inline uint64_t text_mix(uint64_t x)
{
	x ^= x >> 30;
	x *= 0xbf58476d1ce4e5b9u;
	x ^= x >> 27;
	x *= 0x94d049bb133111ebu;
	return x ^ x >> 31;
}

/*
 * Copies text as valid UTF-8 of at most size - 1 bytes (never cutting a character), replacing bytes
 * that are not by U+FFFD. Returns the length written, without the NUL. size > 0.
 */
size_t text_clean(char *to, size_t size, const char *from, size_t length);

#endif
