/* SPDX-License-Identifier: Apache-2.0
 *
 * waylay diff: two recordings, place by place. A place is the same line; where that is gone on both
 * sides, the same function of the same file by the same rule, whose lines have moved.
 */
#include "viewers/options.h"
#include "viewers/viewers.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

enum { KEY_JSON, KEY_RUN_A, KEY_RUN_B };
enum { A, B, SIDES };

struct diff_arguments {
	bool json;
	const char *runs[SIDES];
};

struct side {
	const char *path;
	struct model *model;
	struct analysis *analysis;
};

/* A place on either side or both. */
struct pair {
	const struct site *site[SIDES];
};

static const struct option_row rows[] = {
	{"json", 0, NULL, "for programs (schema: waylay-diff(1))", KEY_JSON},
	{"run-a", 0, "ID", "the run of A with this identifier, not its newest", KEY_RUN_A},
	{"run-b", 0, "ID", "likewise of B", KEY_RUN_B},
};

static int take(void *user, int key, const char *arg, char *err, size_t err_size)
{
	struct diff_arguments *arguments = user;

	(void)err;
	(void)err_size;
	if (key == KEY_JSON)
		arguments->json = true;
	else
		arguments->runs[key - KEY_RUN_A] = arg;
	return 0;
}

/* --- pairing ---------------------------------------------------------------------------------- */

static bool same_text(const char *a, const char *b)
{
	return a && b && strcmp(a, b) == 0;
}

static bool same_place(const struct site *a, const struct site *b)
{
	return a->rule == b->rule && a->cls == b->cls && strcmp(a->place, b->place) == 0;
}

static bool same_function(const struct site *a, const struct site *b)
{
	return a->rule == b->rule && a->cls == b->cls && same_text(a->file, b->file) &&
	       same_text(a->function, b->function);
}

struct pairs {
	struct pair *items;
	unsigned count;
};

/* The one pair that has only the other side and is alike; NULL if there are none or several. */
static struct pair *only_match(struct pairs *pairs, const struct site *site)
{
	struct pair *match = NULL;

	for (unsigned i = 0; i < pairs->count; i++) {
		struct pair *pair = &pairs->items[i];

		if (!pair->site[A] || pair->site[B] || !same_function(pair->site[A], site))
			continue;
		if (match)
			return NULL;
		match = pair;
	}
	return match;
}

/* How many unpaired sites of B are of the same function. */
static unsigned rivals(struct site *const *sites, unsigned count, const bool *paired,
		       const struct site *site)
{
	unsigned found = 0;

	for (unsigned i = 0; i < count; i++)
		found += !paired[i] && same_function(sites[i], site);
	return found;
}

/* Pairs the sites of both sides; false when memory is short. */
static bool pairs_make(struct site *const *a, unsigned a_count, struct site *const *b,
		       unsigned b_count, struct pairs *pairs)
{
	bool *paired = calloc(b_count + 1u, sizeof(bool));

	*pairs = (struct pairs){.items = calloc(a_count + b_count + 1u, sizeof(struct pair))};
	if (!paired || !pairs->items) {
		free(paired);
		return false;
	}
	for (unsigned i = 0; i < a_count; i++) {
		struct pair *pair = &pairs->items[pairs->count++];

		pair->site[A] = a[i];
		for (unsigned k = 0; k < b_count && !pair->site[B]; k++)
			if (!paired[k] && same_place(a[i], b[k])) {
				pair->site[B] = b[k];
				paired[k] = true;
			}
	}
	for (unsigned k = 0; k < b_count; k++) {
		struct pair *pair = NULL;

		if (paired[k])
			continue;
		if (rivals(b, b_count, paired, b[k]) == 1)
			pair = only_match(pairs, b[k]);
		if (!pair)
			pair = &pairs->items[pairs->count++];
		pair->site[B] = b[k];
	}
	free(paired);
	return true;
}

static uint64_t distance(uint64_t a, uint64_t b)
{
	return a > b ? a - b : b - a;
}

static uint64_t count_of(const struct site *site)
{
	return site ? site->count : 0;
}

static uint64_t held_of(const struct site *site)
{
	return site ? site->held.sum_ns : 0;
}

static const struct site *either(const struct pair *pair)
{
	return pair->site[B] ? pair->site[B] : pair->site[A];
}

/* What changed most comes first: counts, then time. */
static int by_change(const void *left, const void *right)
{
	const struct pair *a = left, *b = right;
	uint64_t counts_a = distance(count_of(a->site[A]), count_of(a->site[B]));
	uint64_t counts_b = distance(count_of(b->site[A]), count_of(b->site[B]));
	uint64_t held_a = distance(held_of(a->site[A]), held_of(a->site[B]));
	uint64_t held_b = distance(held_of(b->site[A]), held_of(b->site[B]));

	if (counts_a != counts_b)
		return counts_a < counts_b ? 1 : -1;
	if (held_a != held_b)
		return held_a < held_b ? 1 : -1;
	if (strcmp(either(a)->place, either(b)->place) != 0)
		return strcmp(either(a)->place, either(b)->place);
	return (int)either(a)->rule - (int)either(b)->rule;
}

/* --- text ------------------------------------------------------------------------------------- */

static char *change(uint64_t a, uint64_t b, char buf[40])
{
	char count[32];

	(void)snprintf(buf, 40, "%s%s",
		       a == b  ? ""
		       : b > a ? "+"
			       : "-",
		       words_count(distance(a, b), count));
	return buf;
}

static void line(const char *what, uint64_t a, uint64_t b)
{
	char count_a[32], count_b[32], by[40];

	(void)printf("%-28s %12s %12s %12s\n", what, words_count(a, count_a),
		     words_count(b, count_b), change(a, b, by));
}

static void line_held(const char *what, uint64_t a, uint64_t b)
{
	char held_a[24], held_b[24], by[24];

	(void)printf("%-28s %12s %12s %s%11s\n", what, words_ns(a, held_a), words_ns(b, held_b),
		     a == b  ? " "
		     : b > a ? "+"
			     : "-",
		     words_ns(distance(a, b), by));
}

static void places_text(const char *title, const struct pairs *pairs)
{
	char place[1024], before[1024], count_a[32], count_b[32], held_a[24], held_b[24], by[40];
	bool titled = false;

	for (unsigned i = 0; i < pairs->count; i++) {
		const struct site *a = pairs->items[i].site[A], *b = pairs->items[i].site[B];
		const struct site *site = either(&pairs->items[i]);
		bool moved = a && b && strcmp(a->place, b->place) != 0;

		if (count_of(a) == count_of(b) && !moved)
			continue;
		if (!titled)
			(void)printf("\n%s that changed\n  %9s %9s %9s %9s %9s  %-18s %s\n", title,
				     "A", "B", "change", "held A", "held B", "rule", "place");
		titled = true;
		(void)printf("  %9s %9s %9s %9s %9s  %-18s %s%s%s%s\n",
			     words_count(count_of(a), count_a), words_count(count_of(b), count_b),
			     change(count_of(a), count_of(b), by), words_ns(held_of(a), held_a),
			     words_ns(held_of(b), held_b),
			     site->rule ? wl_rule_info(site->rule)->word : "registration",
			     words_clean(site->place, place, sizeof(place)), moved ? " (was " : "",
			     moved ? words_clean(a->place, before, sizeof(before)) : "",
			     moved ? ")" : "");
	}
}

static double each(const struct range_stat *range)
{
	return range && range->instances ? (double)range->waits / (double)range->instances : 0;
}

static void range_text(const char *name, const struct range_stat *a, const struct range_stat *b)
{
	char text[64], length_a[24], length_b[24];

	(void)printf("  %-26s %9llu %9llu %8.1f %8.1f %10s %10s\n", words_clean(name, text, 27),
		     (unsigned long long)(a ? a->instances : 0),
		     (unsigned long long)(b ? b->instances : 0), each(a), each(b),
		     a ? words_ns(histogram_percentile(&a->length, 50), length_a) : "-",
		     b ? words_ns(histogram_percentile(&b->length, 50), length_b) : "-");
}

/* Ranges of both, those of A first, then what B alone has. */
static void ranges_text(const struct side *sides)
{
	const struct analysis *a = sides[A].analysis, *b = sides[B].analysis;

	if (!a->range_count && !b->range_count)
		return;
	(void)printf("\n%-28s %9s %9s %8s %8s %10s %10s\n", "Ranges (NVTX)", "inst. A", "inst. B",
		     "syncs A", "syncs B", "length A", "length B");
	for (unsigned i = 0; i < a->range_count; i++)
		range_text(a->ranges[i]->name, a->ranges[i], analysis_range(b, a->ranges[i]->name));
	for (unsigned i = 0; i < b->range_count; i++)
		if (!analysis_range(a, b->ranges[i]->name))
			range_text(b->ranges[i]->name, NULL, b->ranges[i]);
}

static void diff_text(const struct side *sides, const struct pairs *cuda,
		      const struct pairs *fabric)
{
	const struct analysis *a = sides[A].analysis, *b = sides[B].analysis;
	char path[512];

	(void)printf("A: %s\n", words_clean(sides[A].path, path, sizeof(path)));
	(void)printf("B: %s\n\n", words_clean(sides[B].path, path, sizeof(path)));
	(void)printf("%-28s %12s %12s %12s\n", "", "A", "B", "change");
	line("Synchronizations", a->waits, b->waits);
	line("Staged copies", a->stages, b->stages);
	line_held("Held the host", a->held_ns, b->held_ns);
	line("Kernel launches", a->launches, b->launches);
	line("Memory registrations", a->registrations, b->registrations);
	line("Transfers posted", a->posts, b->posts);
	line_held("Wall time", (uint64_t)a->wall_ns, (uint64_t)b->wall_ns);
	ranges_text(sides);
	places_text("Places", cuda);
	places_text("Registrations", fabric);
}

/* --- JSON ------------------------------------------------------------------------------------- */

static json_t *text(const char *value)
{
	char clean[1024];

	return value ? json_string(words_clean(value, clean, sizeof(clean))) : json_null();
}

static json_t *both(uint64_t a, uint64_t b)
{
	return json_pack("[I,I]", (json_int_t)a, (json_int_t)b);
}

static json_t *places_json(const struct pairs *pairs)
{
	json_t *array = json_array();

	for (unsigned i = 0; i < pairs->count; i++) {
		const struct site *a = pairs->items[i].site[A], *b = pairs->items[i].site[B];
		json_t *object = json_object();

		json_object_set_new(object, "place_a", text(a ? a->place : NULL));
		json_object_set_new(object, "place_b", text(b ? b->place : NULL));
		json_object_set_new(object, "rule",
				    text(wl_rule_info(either(&pairs->items[i])->rule)->word));
		json_object_set_new(object, "count", both(count_of(a), count_of(b)));
		json_object_set_new(object, "held_ns", both(held_of(a), held_of(b)));
		json_array_append_new(array, object);
	}
	return array;
}

static json_t *range_json(const char *name, const struct range_stat *a, const struct range_stat *b)
{
	json_t *object = json_object();

	json_object_set_new(object, "name", text(name));
	json_object_set_new(object, "instances", both(a ? a->instances : 0, b ? b->instances : 0));
	json_object_set_new(object, "synchronizations", both(a ? a->waits : 0, b ? b->waits : 0));
	json_object_set_new(object, "synchronizations_worst",
			    both(a ? a->waits_worst : 0, b ? b->waits_worst : 0));
	json_object_set_new(object, "staged", both(a ? a->stages : 0, b ? b->stages : 0));
	json_object_set_new(object, "held_ns", both(a ? a->held_ns : 0, b ? b->held_ns : 0));
	return object;
}

static json_t *ranges_json(const struct analysis *a, const struct analysis *b)
{
	json_t *array = json_array();

	for (unsigned i = 0; i < a->range_count; i++)
		json_array_append_new(array, range_json(a->ranges[i]->name, a->ranges[i],
							analysis_range(b, a->ranges[i]->name)));
	for (unsigned i = 0; i < b->range_count; i++)
		if (!analysis_range(a, b->ranges[i]->name))
			json_array_append_new(array,
					      range_json(b->ranges[i]->name, NULL, b->ranges[i]));
	return array;
}

static bool complete(const struct analysis *analysis)
{
	return !analysis->incomplete_processes && !analysis->unreadable;
}

static int diff_json(const struct side *sides, const struct pairs *cuda, const struct pairs *fabric)
{
	const struct analysis *a = sides[A].analysis, *b = sides[B].analysis;
	json_t *root = json_object();
	int failed;

	json_object_set_new(root, "schema", json_integer(1));
	json_object_set_new(root, "complete", json_pack("[b,b]", complete(a), complete(b)));
	json_object_set_new(root, "synchronizations", both(a->waits, b->waits));
	json_object_set_new(root, "staged", both(a->stages, b->stages));
	json_object_set_new(root, "held_ns", both(a->held_ns, b->held_ns));
	json_object_set_new(root, "launches", both(a->launches, b->launches));
	json_object_set_new(root, "registrations", both(a->registrations, b->registrations));
	json_object_set_new(root, "posts", both(a->posts, b->posts));
	json_object_set_new(root, "wall_ns", both((uint64_t)a->wall_ns, (uint64_t)b->wall_ns));
	json_object_set_new(root, "ranges", ranges_json(a, b));
	json_object_set_new(root, "places", places_json(cuda));
	json_object_set_new(root, "registration_places", places_json(fabric));
	failed = json_dumpf(root, stdout, JSON_INDENT(2));
	json_decref(root);
	return failed || putchar('\n') == EOF ? -EIO : 0;
}

/* --- the command ------------------------------------------------------------------------------ */

static bool side_open(struct side *side, const char *path, const char *run)
{
	const struct input input = {.paths = &path, .path_count = 1, .run = run};
	char err[256];

	side->path = path;
	side->model = input_open(&input);
	if (!side->model)
		return false;
	if (analysis_run(side->model, NULL, &side->analysis, err, sizeof(err)) == 0)
		return true;
	say("%s", err);
	return false;
}

static int show(const struct side *sides, bool json)
{
	const struct analysis *a = sides[A].analysis, *b = sides[B].analysis;
	struct pairs cuda = {0}, fabric = {0};
	int error = 0;

	if (!pairs_make(a->sites, a->site_count, b->sites, b->site_count, &cuda) ||
	    !pairs_make(a->registration_sites, a->registration_site_count, b->registration_sites,
			b->registration_site_count, &fabric))
		error = -ENOMEM;
	errno = 0;
	if (!error) {
		qsort(cuda.items, cuda.count, sizeof(struct pair), by_change);
		qsort(fabric.items, fabric.count, sizeof(struct pair), by_change);
		if (json)
			error = diff_json(sides, &cuda, &fabric);
		else
			diff_text(sides, &cuda, &fabric);
	}
	if (fflush(stdout) != 0 || ferror(stdout) || error) {
		say("writing the comparison to standard output: %s",
		    strerror(error == -ENOMEM ? ENOMEM
			     : errno          ? errno
					      : EIO));
		error = -EIO;
	}
	free(cuda.items);
	free(fabric.items);
	return error ? EXIT_EXCEEDED : EXIT_HOLDS;
}

int cmd_diff(int argc, char **argv)
{
	struct diff_arguments arguments = {0};
	const struct command_line line_of = {
		.name = "waylay diff",
		.operands = "A B",
		.what = "Compares two recordings, place by place: what B does more than A.",
		.more = "A and B are directories or files. Of a directory the newest run is "
			"taken.\n\n"
			"Examples:\n"
			"  waylay diff before after\n"
			"  waylay diff waylay-out waylay-out --run-a first --run-b second",
		.mistake_status = EXIT_USAGE,
		.group_count = 1,
		.groups = {{NULL, rows, sizeof(rows) / sizeof(rows[0]), take, &arguments, NULL}},
	};
	int first = options_parse(&line_of, argc, argv), status = EXIT_EXCEEDED;
	struct side sides[SIDES] = {0};

	if (argc - first != 2)
		options_mistake(&line_of, "two recordings are needed, not %d", argc - first);
	if (side_open(&sides[A], argv[first], arguments.runs[A]) &&
	    side_open(&sides[B], argv[first + 1], arguments.runs[B]))
		status = show(sides, arguments.json);
	for (unsigned i = SIDES; i-- > 0;) {
		analysis_free(sides[i].analysis);
		model_close(sides[i].model);
	}
	return status;
}
