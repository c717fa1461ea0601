/* SPDX-License-Identifier: Apache-2.0
 *
 * Words and numbers for people.
 */
#include "viewers/viewers.h"

#include <stdarg.h>
#include <string.h>

/* --- text from outside ------------------------------------------------------------------------ */

/* The bytes of the UTF-8 character at text, 0 if there is none. Shortest forms alone: "over-long"
 * ones could smuggle in what is refused here. */
static unsigned character(const unsigned char *text, uint32_t *value)
{
	static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
	unsigned bytes = text[0] < 0x80   ? 1
			 : text[0] < 0xc2 ? 0
			 : text[0] < 0xe0 ? 2
			 : text[0] < 0xf0 ? 3
			 : text[0] < 0xf5 ? 4
					  : 0;

	if (bytes <= 1) {
		*value = text[0];
		return bytes;
	}
	*value = text[0] & (0x7fu >> bytes);
	for (unsigned i = 1; i < bytes; i++) {
		if ((text[i] & 0xc0) != 0x80)
			return 0;
		*value = *value << 6 | (text[i] & 0x3f);
	}
	return *value < least[bytes] || *value > 0x10ffff || (*value & ~0x7ffu) == 0xd800 ? 0
											  : bytes;
}

/* Control characters could drive a terminal, marks of direction show a line other than it is. */
static bool shown(uint32_t value)
{
	return value >= 0x20 && !(value >= 0x7f && value < 0xa0) &&
	       !(value >= 0x200e && value <= 0x200f) && !(value >= 0x2028 && value <= 0x202e) &&
	       !(value >= 0x2066 && value <= 0x2069);
}

char *words_clean(const char *text, char *buf, size_t size)
{
	const unsigned char *from = (const unsigned char *)text;
	size_t used = 0;

	while (*from) {
		uint32_t value = 0;
		unsigned bytes = character(from, &value);

		if (used + (bytes ? bytes : 1) >= size)
			break;
		if (bytes && shown(value))
			memcpy(buf + used, from, bytes);
		else
			buf[used] = '?';
		used += bytes && shown(value) ? bytes : 1;
		from += bytes ? bytes : 1;
	}
	buf[used] = '\0';
	return buf;
}

void say(const char *format, ...)
{
	char text[2048], clean[2048];
	va_list args;

	va_start(args, format);
	(void)vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	(void)fprintf(stderr, "waylay: %s\n", words_clean(text, clean, sizeof(clean)));
}

/* --- numbers ---------------------------------------------------------------------------------- */

/* Three significant digits and a unit. */
static char *scaled(double value, const char *const *units, double step, char *buf, size_t size)
{
	unsigned unit = 0;

	while (value >= step * 0.9995 && units[unit + 1]) {
		value /= step;
		unit++;
	}
	if (unit == 0)
		(void)snprintf(buf, size, "%.0f %s", value, units[unit]);
	else
		(void)snprintf(buf, size, "%.*f %s",
			       value < 9.995   ? 2
			       : value < 99.95 ? 1
					       : 0,
			       value, units[unit]);
	return buf;
}

char *words_ns(uint64_t ns, char buf[24])
{
	static const char *const units[] = {"ns", "us", "ms", "s", NULL};

	return scaled((double)ns, units, 1000.0, buf, 24);
}

char *words_bytes(uint64_t bytes, char buf[24])
{
	static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", NULL};

	return scaled((double)bytes, units, 1024.0, buf, 24);
}

char *words_count(uint64_t count, char buf[32])
{
	char digits[24];
	int length = snprintf(digits, sizeof(digits), "%llu", (unsigned long long)count);
	char *to = buf;

	for (int i = 0; i < length; i++) {
		if (i && (length - i) % 3 == 0)
			*to++ = ',';
		*to++ = digits[i];
	}
	*to = '\0';
	return buf;
}

bool parse_count(const char *text, uint64_t max, uint64_t *value)
{
	uint64_t number = 0;

	if (!*text)
		return false;
	for (const char *p = text; *p; p++) {
		if (*p < '0' || *p > '9' || number > (max - (uint64_t)(*p - '0')) / 10)
			return false;
		number = number * 10 + (uint64_t)(*p - '0');
	}
	*value = number;
	return true;
}
