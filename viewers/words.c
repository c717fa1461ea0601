/* SPDX-License-Identifier: Apache-2.0
 *
 * Numbers for people.
 */
#include "viewers/viewers.h"

#include <stdarg.h>
#include <string.h>

void say(const char *format, ...)
{
	va_list args;

	(void)fputs("waylay: ", stderr);
	va_start(args, format);
	(void)vfprintf(stderr, format, args);
	va_end(args);
	(void)fputc('\n', stderr);
}

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
