/* SPDX-License-Identifier: Apache-2.0
 *
 * Which arguments are shown, and what payloads stand for.
 */
#include "exporters/arg_rules.h"

#include <string.h>

/* The word 0 of these enumerations says nothing; that of others ("system") does. */
static bool says_nothing(const struct wl_arg *arg, uint64_t value)
{
	const char *word = arg->enumeration->count ? arg->enumeration->words[0] : "";

	return value == 0 &&
	       (!strcmp(word, "none") || !strcmp(word, "unknown") || !strcmp(word, "other"));
}

bool arg_left_out(const struct wl_arg *arg, uint64_t value)
{
	switch (arg->show) {
	case WL_SHOW_STACK:
		return true;
	case WL_SHOW_STR:
	case WL_SHOW_FLAGS:
		return value == 0;
	case WL_SHOW_ENUM:
		return says_nothing(arg, value);
	default:
		return false;
	}
}

struct payload payload_of(uint64_t value, unsigned type)
{
	struct payload payload = {.kind = PAYLOAD_UINT, .as_uint = value};
	uint32_t low = (uint32_t)value;
	float small;

	switch (type) {
	case WL_payload_type_f64:
		payload.kind = PAYLOAD_DOUBLE;
		memcpy(&payload.as_double, &value, sizeof(value));
		break;
	case WL_payload_type_f32:
		payload.kind = PAYLOAD_DOUBLE;
		memcpy(&small, &low, sizeof(small));
		payload.as_double = (double)small;
		break;
	case WL_payload_type_i64:
		payload.kind = PAYLOAD_INT;
		payload.as_int = (int64_t)value;
		break;
	case WL_payload_type_i32:
		payload.kind = PAYLOAD_INT;
		payload.as_int = (int32_t)low;
		break;
	default:
		break;
	}
	return payload;
}
