/* SPDX-License-Identifier: Apache-2.0
 *
 * What `waylay export` shows of a recording: times, ranks, categories, sizes as words.
 */
#include "viewers/export_options.h"

#include "viewers/viewers.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { KEY_FROM, KEY_TO, KEY_RANGE, KEY_RANK, KEY_CATEGORY, KEY_MAX_SIZE };

/* "1.5s", "200ms", "3us", "17ns", "2m"; a bare number is seconds. */
static int parse_time(const char *text, int64_t *ns, char *err, size_t err_size)
{
	static const struct {
		const char *unit;
		double ns;
	} units[] = {{"", 1e9}, {"s", 1e9}, {"ms", 1e6}, {"us", 1e3}, {"ns", 1}, {"m", 60e9}};
	char *end;
	double value = isdigit((unsigned char)*text) ? strtod(text, &end) : -1;

	for (unsigned i = 0; value >= 0 && i < sizeof(units) / sizeof(units[0]); i++) {
		double wanted = value * units[i].ns;

		if (strcmp(end, units[i].unit) != 0 || !(wanted < 9e18))
			continue;
		*ns = (int64_t)(wanted + 0.5);
		return 0;
	}
	(void)snprintf(err, err_size,
		       "'%.80s' is no time since the begin of the recording, as 1.5s, 200ms, 3us",
		       text);
	return -EINVAL;
}

/* "0,3-5" */
static int parse_ranks(const char *text, uint64_t *ranks, char *err, size_t err_size)
{
	const char *at = text;

	while (isdigit((unsigned char)*at)) {
		char *end;
		unsigned long first = strtoul(at, &end, 10), last = first;

		if (*end == '-' && isdigit((unsigned char)end[1]))
			last = strtoul(end + 1, &end, 10);
		if (last < first || last >= EXPORT_RANKS_MAX || (*end && *end != ','))
			break;
		for (unsigned long rank = first; rank <= last; rank++)
			ranks[rank / 64] |= 1ull << rank % 64;
		if (!*end)
			return 0;
		at = end + 1;
	}
	(void)snprintf(err, err_size, "'%.80s' is no list of ranks below %u, as 0,3-5", text,
		       EXPORT_RANKS_MAX);
	return -EINVAL;
}

/* Categories of a name, or of all names that begin with it: "ofi" is ofi_mr, ofi_xfer, ... */
static uint32_t categories_named(const char *name, size_t length)
{
	uint32_t found = 0;

	for (unsigned i = 0; i < WL_CAT_MAX; i++) {
		const char *known = wl_category_name((enum wl_category)i);
		size_t at = 0;

		while (at < length && known[at] && (name[at] == '.' ? '_' : name[at]) == known[at])
			at++;
		if (length && at == length && (!known[at] || known[at] == '_'))
			found |= 1u << i;
	}
	return found;
}

static int parse_categories(const char *text, uint32_t *categories, char *err, size_t err_size)
{
	const char *at = text;

	for (;;) {
		size_t length = strcspn(at, ",");
		uint32_t found = categories_named(at, length);

		if (!found) {
			(void)snprintf(err, err_size,
				       "'%.*s' is no category; there are cuda (sync, copy, launch, "
				       "mem, graph, setup), ofi (mr, xfer, cq, setup), nvtx, gpu, "
				       "meta; as cuda,ofi.mr",
				       (int)(length < 40 ? length : 40), at);
			return -EINVAL;
		}
		*categories |= found;
		if (!at[length])
			return 0;
		at += length + 1;
	}
}

/* "100M": powers of 1024; a bare number is bytes. */
static int parse_size(const char *text, uint64_t *bytes, char *err, size_t err_size)
{
	char *end;
	double value = isdigit((unsigned char)*text) ? strtod(text, &end) : -1;
	const char *units = "kMGT", *unit;

	if (value > 0) {
		if (*end == 'K')
			*end = 'k';
		unit = *end ? strchr(units, *end) : NULL;
		for (long i = unit ? unit - units + 1 : 0; i > 0; i--)
			value *= 1024;
		if (value < 9e18 && (!*end || (unit && (!end[1] || !strcmp(end + 1, "B") ||
							!strcmp(end + 1, "iB"))))) {
			*bytes = (uint64_t)value;
			return 0;
		}
	}
	(void)snprintf(err, err_size, "'%.80s' is no size, as 500k, 100M, 2G", text);
	return -EINVAL;
}

static int take(void *user, int key, const char *arg, char *err, size_t err_size)
{
	struct export_choice *choice = user;

	switch (key) {
	case KEY_FROM:
		choice->timed = true;
		return parse_time(arg, &choice->from_ns, err, err_size);
	case KEY_TO:
		choice->timed = choice->ends = true;
		return parse_time(arg, &choice->to_ns, err, err_size);
	case KEY_RANGE:
		choice->range = arg;
		return 0;
	case KEY_RANK:
		choice->ranked = true;
		return parse_ranks(arg, choice->ranks, err, err_size);
	case KEY_CATEGORY:
		return parse_categories(arg, &choice->categories, err, err_size);
	default:
		return parse_size(arg, &choice->max_bytes, err, err_size);
	}
}

struct option_group export_choice_options(struct export_choice *choice)
{
	static const struct option_row rows[] = {
		{"from", 0, "TIME", "from this time after the begin on: 1.5s, 200ms, 3us",
		 KEY_FROM},
		{"to", 0, "TIME", "up to this time after the begin", KEY_TO},
		{"range", 0, "NAME", "only what lies in the range (NVTX) of this name", KEY_RANGE},
		{"rank", 0, "LIST", "only these ranks, as 0,3-5", KEY_RANK},
		{"category", 0, "LIST", "only these, as cuda,ofi.mr,nvtx,gpu", KEY_CATEGORY},
		{"max-size", 0, "SIZE",
		 "leave out the shortest events until the trace is no larger: 500k, 100M",
		 KEY_MAX_SIZE},
	};

	return (struct option_group){.title = "What of it:",
				     .rows = rows,
				     .count = sizeof(rows) / sizeof(rows[0]),
				     .take = take,
				     .user = choice};
}

int export_choose(struct model *model, const struct export_choice *choice,
		  struct selection **selection)
{
	struct selection_spec spec = {.from_ns = INT64_MIN,
				      .to_ns = INT64_MAX,
				      .range = choice->range,
				      .categories = choice->categories,
				      .one_host = choice->one_host,
				      .host = choice->host};
	int64_t first_ns, last_ns, realtime_ns;
	char err[512] = "";
	int error;

	*selection = NULL;
	if (choice->ranked && model_keep_ranks(model, choice->ranks, EXPORT_RANKS_MAX / 64)) {
		say("no process has one of these ranks (--rank)");
		return -ENOENT;
	}
	if (!choice->timed && !choice->range && !choice->categories && !choice->max_bytes &&
	    !choice->one_host)
		return 0;
	model_bounds(model, &first_ns, &last_ns, &realtime_ns);
	if (choice->timed)
		spec.from_ns = first_ns + choice->from_ns;
	if (choice->ends)
		spec.to_ns = first_ns + choice->to_ns;
	if (spec.from_ns > last_ns || spec.to_ns < spec.from_ns) {
		char length[24];

		say("--from and --to leave nothing of a recording of %s",
		    words_ns((uint64_t)(last_ns - first_ns), length));
		return -EINVAL;
	}
	*selection = selection_new(model, &spec, &error, err, sizeof(err));
	if (!*selection)
		say("%s", err);
	return error;
}
