/* SPDX-License-Identifier: Apache-2.0
 *
 * Reuse distances against caches that are really simulated, access by access, for every size.
 */
#include "viewers/reuse.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define LENGTH_MAX 400
#define THINGS_MAX 60

struct sequence {
	unsigned length, things;
	unsigned thing[LENGTH_MAX];
	uint64_t bytes[THINGS_MAX], time[LENGTH_MAX];
};

static uint64_t random_state;
static unsigned below(unsigned limit)
{
	random_state = random_state * 6364136223846793005u + 1442695040888963407u;
	return (unsigned)((random_state >> 33) % limit);
}

/* A cache as anyone would write it: an array, most recent first. entries or bytes bounds it. */
static struct reuse_point simulate(const struct sequence *sequence, uint64_t entries,
				   uint64_t bytes)
{
	unsigned held[THINGS_MAX], count = 0;
	struct reuse_point result = {0};
	uint64_t total = 0;

	for (unsigned i = 0; i < sequence->length; i++) {
		unsigned thing = sequence->thing[i], at = 0;

		while (at < count && held[at] != thing)
			at++;
		if (at < count) {
			result.hits++;
			result.time_ns += sequence->time[i];
		} else {
			count++;
			total += sequence->bytes[thing];
		}
		memmove(&held[1], &held[0], at * sizeof(held[0]));
		held[0] = thing;
		while (count > entries || total > bytes)
			total -= sequence->bytes[held[--count]];
	}
	return result;
}

static void sequence_make(struct sequence *sequence, unsigned seed)
{
	random_state = seed * 7919u + 17;
	sequence->things = 1 + below(THINGS_MAX);
	sequence->length = 1 + below(LENGTH_MAX);
	for (unsigned i = 0; i < sequence->things; i++)
		sequence->bytes[i] = 1 + below(seed % 3 ? 1000 : 3);
	for (unsigned i = 0; i < sequence->length; i++) {
		/* Some walk in circles, some prefer a few, some take anything. */
		sequence->thing[i] = seed % 3 == 0   ? i % sequence->things
				     : seed % 3 == 1 ? below(below(sequence->things) + 1)
						     : below(sequence->things);
		sequence->time[i] = 1 + below(10007);
	}
}

static void feed(struct reuse *reuse, const struct sequence *sequence)
{
	bool seen[THINGS_MAX] = {false};
	uint64_t repeated[LENGTH_MAX] = {0};
	struct reuse_curve entries, bytes;

	for (unsigned i = 0; i < sequence->length; i++) {
		unsigned thing = sequence->thing[i];

		assert_true(reuse_access(reuse, 3 * thing, 3 * thing + 2, sequence->bytes[thing],
					 sequence->time[i], &repeated[i]));
	}
	assert_true(reuse_curves(reuse, &entries, &bytes));
	for (unsigned i = 0; i < sequence->length; i++) {
		assert_int_equal(repeated[i], seen[sequence->thing[i]]);
		seen[sequence->thing[i]] = true;
	}
}

static void every_size_of_cache_is_as_simulated(void **state)
{
	struct sequence *sequence = calloc(1, sizeof(*sequence));

	(void)state;
	assert_non_null(sequence);
	for (unsigned seed = 0; seed < 1009; seed++) {
		struct reuse *reuse = reuse_new();
		struct reuse_curve entries, bytes;

		assert_non_null(reuse);
		sequence_make(sequence, seed);
		feed(reuse, sequence);
		assert_true(reuse_curves(reuse, &entries, &bytes));
		for (uint64_t size = 0; size <= sequence->things + 1; size++) {
			struct reuse_point want = simulate(sequence, size, UINT64_MAX);
			struct reuse_point have = reuse_at(&entries, size);

			assert_int_equal(have.hits, want.hits);
			assert_int_equal(have.time_ns, want.time_ns);
		}
		/* At each step of the curve, just below it, and at odd sizes. */
		for (unsigned i = 0; i < bytes.count; i += 1 + bytes.count / 29) {
			uint64_t size = bytes.points[i].capacity;

			assert_int_equal(reuse_at(&bytes, size).hits,
					 simulate(sequence, THINGS_MAX, size).hits);
			assert_int_equal(reuse_at(&bytes, size - 1).hits,
					 simulate(sequence, THINGS_MAX, size - 1).hits);
			assert_int_equal(reuse_at(&bytes, size).time_ns,
					 simulate(sequence, THINGS_MAX, size).time_ns);
		}
		for (unsigned i = 0; i < 7; i++) {
			uint64_t size = below(20000);

			assert_int_equal(reuse_at(&bytes, size).hits,
					 simulate(sequence, THINGS_MAX, size).hits);
		}
		reuse_free(reuse);
	}
	free(sequence);
}

/* More accesses than there are times before they are numbered anew, and more distances than a buffer. */
static void long_sequences_are_renumbered(void **state)
{
	struct reuse *reuse = reuse_new();
	struct reuse_curve entries, bytes;
	uint64_t repeated = 0;

	(void)state;
	assert_non_null(reuse);
	for (unsigned i = 0; i < 200003; i++)
		assert_true(reuse_access(reuse, i % 1009, i % 1009 + 1, 4096, 3, &repeated));
	assert_true(reuse_curves(reuse, &entries, &bytes));
	/* A walk in a circle hits when all of it fits, and not at all before. */
	assert_int_equal(entries.count, 1);
	assert_int_equal(entries.points[0].capacity, 1009);
	assert_int_equal(entries.points[0].hits, 200003 - 1009);
	assert_int_equal(entries.points[0].time_ns, 3 * (200003 - 1009));
	assert_int_equal(bytes.points[0].capacity, 1009 * 4096);
	assert_ptr_equal(reuse_knee(&entries, 90), &entries.points[0]);
	reuse_free(reuse);
}

/* Walks in a circle of the largest cache that is looked at, and of one more: all of it hits, or nothing. */
static void no_larger_cache_is_looked_at(void **state)
{
	(void)state;
	for (unsigned more = 0; more < 2; more++) {
		struct reuse *reuse = reuse_new();
		struct reuse_curve entries, bytes;
		unsigned things = REUSE_ENTRIES_MAX + more;
		uint64_t hits = 0;

		assert_non_null(reuse);
		for (unsigned i = 0; i < 3 * things; i++)
			assert_true(
				reuse_access(reuse, i % things, i % things + 1, 4096, 3, &hits));
		assert_true(reuse_curves(reuse, &entries, &bytes));
		assert_int_equal(hits, more ? 0 : 2 * things);
		assert_int_equal(entries.count, !more);
		assert_int_equal(reuse_at(&entries, REUSE_ENTRIES_MAX).hits, hits);
		assert_int_equal(reuse_at(&entries, REUSE_ENTRIES_MAX - 1).hits, 0);
		assert_int_equal(reuse_at(&bytes, (uint64_t)REUSE_ENTRIES_MAX * 4096).hits, hits);
		/* What was used a short while ago is known still. */
		hits = 0;
		assert_true(reuse_access(reuse, things - 7, things - 6, 4096, 3, &hits));
		assert_true(reuse_curves(reuse, &entries, &bytes));
		assert_int_equal(hits, 1);
		assert_int_equal(reuse_at(&entries, 7).hits, 1);
		assert_int_equal(reuse_at(&bytes, 7 * 4096).hits, 1);
		reuse_free(reuse);
	}
}

/* More capacities in bytes than are kept exactly: rounded up, by less than a hundredth. */
static void many_capacities_are_rounded_up(void **state)
{
	struct reuse *reuse = reuse_new();
	struct reuse_curve entries, bytes;
	uint64_t largest = 0, all = 0;

	(void)state;
	assert_non_null(reuse);
	random_state = 41;
	for (unsigned i = 0; i < 900001; i++) {
		unsigned thing = below(50021);

		assert_true(reuse_access(reuse, thing, thing + 1, 1 + (uint64_t)thing * thing, 1,
					 &all));
	}
	for (uint64_t thing = 0; thing < 50021; thing++)
		largest += 1 + thing * thing;
	assert_true(reuse_curves(reuse, &entries, &bytes));
	assert_true(bytes.count < 20000);
	assert_int_equal(reuse_at(&bytes, largest + largest / 100).hits, all);
	assert_true(reuse_at(&bytes, largest / 2).hits < all);
	assert_int_equal(reuse_at(&entries, 50021).hits, all);
	reuse_free(reuse);
}

/* Nothing at all is a range, too: it fits into any cache. */
static void empty_things_fit_anywhere(void **state)
{
	struct reuse *reuse = reuse_new();
	struct reuse_curve entries, bytes;
	uint64_t repeated = 0;

	(void)state;
	assert_non_null(reuse);
	for (unsigned i = 0; i < 3; i++)
		assert_true(reuse_access(reuse, 5, 5, 0, 7, &repeated));
	assert_true(reuse_curves(reuse, &entries, &bytes));
	assert_int_equal(reuse_at(&bytes, 0).hits, 2);
	assert_int_equal(reuse_at(&entries, 1).hits, 2);
	assert_int_equal(reuse_at(&entries, 0).hits, 0);
	reuse_free(reuse);
}

static void processes_have_caches_of_their_own(void **state)
{
	struct reuse *reuse = reuse_new();
	struct reuse_curve entries, bytes;
	uint64_t repeated = 0;

	(void)state;
	assert_non_null(reuse);
	for (unsigned process = 0; process < 3; process++) {
		assert_true(reuse_access(reuse, 1, 2, 10, 7, &repeated));
		assert_true(reuse_access(reuse, 5, 9, 20, 7, &repeated));
		assert_true(reuse_access(reuse, 1, 2, 10, 7, &repeated));
		assert_true(reuse_forget(reuse));
		assert_int_equal(repeated, process + 1);
	}
	assert_true(reuse_curves(reuse, &entries, &bytes));
	assert_int_equal(entries.count, 1);
	assert_int_equal(entries.points[0].capacity, 2);
	assert_int_equal(entries.points[0].hits, 3);
	assert_int_equal(bytes.points[0].capacity, 30);
	reuse_free(reuse);
}

static void nothing_repeated_has_no_knee(void **state)
{
	struct reuse *reuse = reuse_new();
	struct reuse_curve entries, bytes;
	uint64_t repeated = 0;

	(void)state;
	assert_non_null(reuse);
	assert_true(reuse_access(reuse, 1, 2, 10, 7, &repeated));
	assert_true(reuse_curves(reuse, &entries, &bytes));
	assert_int_equal(entries.count, 0);
	assert_null(reuse_knee(&entries, 90));
	assert_int_equal(reuse_at(&bytes, UINT64_MAX).hits, 0);
	reuse_free(reuse);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_size_of_cache_is_as_simulated),
		cmocka_unit_test(long_sequences_are_renumbered),
		cmocka_unit_test(no_larger_cache_is_looked_at),
		cmocka_unit_test(many_capacities_are_rounded_up),
		cmocka_unit_test(empty_things_fit_anywhere),
		cmocka_unit_test(processes_have_caches_of_their_own),
		cmocka_unit_test(nothing_repeated_has_no_knee),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
