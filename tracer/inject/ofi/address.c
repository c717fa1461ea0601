/* SPDX-License-Identifier: Apache-2.0
 *
 * Fabric addresses in words. The provider is not asked: its own function may be called only by a job that
 * holds what locks it needs. Formats that say nothing to a person stay without words.
 */
#include "tracer/inject/ofi/ofi.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#define WORDS 480u /* of several addresses together */

struct words {
	char text[WORDS];
	size_t used;
};

static void add(struct words *words, const char *text, size_t bytes)
{
	if (bytes > sizeof(words->text) - words->used)
		bytes = sizeof(words->text) - words->used;
	memcpy(words->text + words->used, text, bytes);
	words->used += bytes;
}

static void add_port(struct words *words, uint16_t port)
{
	char digits[8];
	size_t at = sizeof(digits);

	do
		digits[--at] = (char)('0' + port % 10);
	while (port /= 10);
	digits[--at] = ':';
	add(words, digits + at, sizeof(digits) - at);
}

/* Bytes that the address takes, 0 when it cannot be read. */
static size_t add_address(struct words *words, uint32_t format, const void *addr, size_t bytes)
{
	char text[INET6_ADDRSTRLEN + 2];
	uint16_t family;

	if (format == FI_ADDR_STR) {
		size_t length = strnlen(addr, bytes);

		/* "fi_shm://...": anything else may be a table of pointers. */
		if (bytes < 3 || memcmp(addr, "fi_", 3) != 0)
			return 0;
		add(words, addr, length);
		return length + 1;
	}
	if (bytes < sizeof(family) ||
	    (format != FI_SOCKADDR && format != FI_SOCKADDR_IN && format != FI_SOCKADDR_IN6))
		return 0;
	memcpy(&family, addr, sizeof(family));
	if (family == AF_INET && bytes >= sizeof(struct sockaddr_in)) {
		const struct sockaddr_in *in = addr;

		if (!inet_ntop(AF_INET, &in->sin_addr, text, sizeof(text)))
			return 0;
		add(words, text, strlen(text));
		add_port(words, ntohs(in->sin_port));
		return sizeof(*in);
	}
	if (family == AF_INET6 && bytes >= sizeof(struct sockaddr_in6)) {
		const struct sockaddr_in6 *in = addr;

		text[0] = '[';
		if (!inet_ntop(AF_INET6, &in->sin6_addr, text + 1, sizeof(text) - 2))
			return 0;
		text[strlen(text) + 1] = '\0';
		text[strlen(text)] = ']';
		add(words, text, strlen(text));
		add_port(words, ntohs(in->sin6_port));
		return sizeof(*in);
	}
	return 0;
}

uint32_t ofi_address_name(uint32_t format, const void *addr, size_t bytes)
{
	struct words words = {.used = 0};
	int saved = errno;

	if (bytes)
		(void)add_address(&words, format, addr, bytes);
	errno = saved;
	return words.used ? spool_intern_string(words.text, words.used) : 0;
}

uint32_t ofi_address_names(uint32_t format, const void *addr, size_t count)
{
	/* The provider has read that many of that format, so they are there to be read. */
	size_t each = format == FI_SOCKADDR_IN6 ? sizeof(struct sockaddr_in6)
		      : format == FI_ADDR_STR   ? WORDS
						: sizeof(struct sockaddr_in);
	struct words words = {.used = 0};
	const char *at = addr;
	int saved = errno;

	for (size_t i = 0; at && i < count && words.used + 64 < WORDS; i++) {
		size_t before = words.used, took;

		if (i)
			add(&words, ", ", 2);
		took = add_address(&words, format, at, each);
		if (!took) {
			words.used = before;
			break;
		}
		at += took;
	}
	errno = saved;
	return words.used ? spool_intern_string(words.text, words.used) : 0;
}

uint32_t ofi_service_name(const char *node, const char *service)
{
	struct words words = {.used = 0};

	if (node)
		add(&words, node, strlen(node));
	if (service) {
		add(&words, ":", 1);
		add(&words, service, strlen(service));
	}
	return words.used ? spool_intern_string(words.text, words.used) : 0;
}
