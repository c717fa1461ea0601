/* SPDX-License-Identifier: Apache-2.0
 *
 * Steps of a job that does not name them: its launches begin again and again with the same sequence.
 */
#include "viewers/analysis_internal.h"

#include <stdlib.h>
#include <string.h>

#define PLACES      8u /* of each kernel at which a distance is tried */
#define REPETITIONS 3u
#define LEAST_SCORE 0.75 /* of the places repeat */
#define NEARLY_BEST 0.95 /* the shortest distance that is so good is the period */

/* The launches of the thread that made most. */
struct sequence {
	size_t count;
	struct launch *launches;
	uint32_t symbols; /* launches[].what: 0 .. symbols-1 */
};

struct symbol {
	uint32_t what, number;
	UT_hash_handle hh;
};

static void symbols_free(struct symbol *symbols)
{
	struct symbol *next;
	struct symbol *symbol = symbols;

	HASH_CLEAR(hh, symbols);
	for (; symbol; symbol = next) {
		next = symbol->hh.next;
		free(symbol);
	}
}

static bool number_symbols(struct sequence *sequence)
{
	struct symbol *symbols = NULL;

	for (size_t i = 0; i < sequence->count; i++) {
		struct symbol *symbol = NULL;
		uint32_t what = sequence->launches[i].what;

		HASH_FIND(hh, symbols, &what, sizeof(what), symbol);
		if (!symbol) {
			symbol = calloc(1, sizeof(*symbol));
			if (!symbol) {
				symbols_free(symbols);
				return false;
			}
			symbol->what = what;
			symbol->number = sequence->symbols++;
			HASH_ADD(hh, symbols, what, sizeof(symbol->what), symbol);
		}
		sequence->launches[i].what = symbol->number;
	}
	symbols_free(symbols);
	return true;
}

static uint32_t busiest_thread(const struct launch *launches, size_t count)
{
	uint32_t best = 0;
	size_t counts[64] = {0};

	/* Few threads launch; those beyond are looked over. */
	for (size_t i = 0; i < count; i++)
		if (launches[i].thread < 64)
			counts[launches[i].thread]++;
	for (uint32_t thread = 1; thread < 64; thread++)
		if (counts[thread] > counts[best])
			best = thread;
	return best;
}

/* Places of one kernel at which a distance is tried. */
struct places {
	unsigned count;
	uint32_t at[PLACES];
};

/* Up to so many a kernel, evenly spread; NULL when memory is short. */
static struct places *places_of(const struct sequence *sequence, size_t looked_at)
{
	struct places *places = calloc(sequence->symbols, sizeof(*places));
	uint32_t *seen = calloc(sequence->symbols, sizeof(*seen));
	uint32_t *all = calloc(sequence->symbols, sizeof(*all));

	for (size_t i = 0; all && i < looked_at; i++)
		all[sequence->launches[i].what]++;
	for (size_t i = 0; places && seen && all && i < looked_at; i++) {
		uint32_t what = sequence->launches[i].what;
		struct places *of = &places[what];
		uint64_t wanted = (uint64_t)of->count * all[what] / PLACES;

		if (of->count < PLACES && seen[what]++ >= wanted)
			of->at[of->count++] = (uint32_t)i;
	}
	if (!seen || !all) {
		free(places);
		places = NULL;
	}
	free(seen);
	free(all);
	return places;
}

/* How well the launches so far apart are the same: each kernel weighs as much as any other, so that the
 * equal layers of a network do not pass for its steps. */
static double score(const struct sequence *sequence, const struct places *places, size_t looked_at,
		    size_t distance)
{
	double sum = 0;
	unsigned symbols = 0;

	for (uint32_t symbol = 0; symbol < sequence->symbols; symbol++) {
		unsigned tried = 0, same = 0;

		if (places[symbol].count < REPETITIONS)
			continue;
		for (unsigned k = 0; k < places[symbol].count; k++) {
			size_t i = places[symbol].at[k];

			if (i + distance >= looked_at)
				break;
			tried++;
			same += sequence->launches[i + distance].what == symbol;
		}
		if (!tried)
			continue;
		symbols++;
		sum += (double)same / tried;
		/* Most are tried in vain: given up early. */
		if (symbols == 8 && sum < 2)
			return 0;
	}
	return symbols ? sum / symbols : 0;
}

/* 0: none; *good: false when memory is short. */
static size_t find_distance(const struct sequence *sequence, bool *good)
{
	size_t looked_at = sequence->count < PERIOD_LAUNCHES ? sequence->count : PERIOD_LAUNCHES,
	       found = 0;
	struct places *places = places_of(sequence, looked_at);
	double best = 0;

	*good = places != NULL;
	if (!places)
		return 0;
	for (size_t distance = 1; distance <= looked_at / REPETITIONS; distance++) {
		double is = score(sequence, places, looked_at, distance);

		if (is > best)
			best = is;
	}
	for (size_t distance = 1;
	     best >= LEAST_SCORE && !found && distance <= looked_at / REPETITIONS; distance++)
		if (score(sequence, places, looked_at, distance) >= NEARLY_BEST * best)
			found = distance;
	free(places);
	return found;
}

/* What is known of one kernel as the first of a step. */
struct anchor {
	size_t count, regular, last; /* regular: came again after one period */
	int64_t pause_ns;            /* between the launches before it and it */
};

/* The kernel that comes once a period, most regularly, and before which the launching thread did
 * something else for longest: a step begins with it. -1: none does. */
static int64_t find_anchor(const struct sequence *sequence, size_t distance)
{
	struct anchor *anchors = calloc(sequence->symbols, sizeof(*anchors));
	int64_t best = -1;

	if (!anchors)
		return -2;
	for (size_t i = 0; i < sequence->count; i++) {
		struct anchor *anchor = &anchors[sequence->launches[i].what];

		anchor->regular += anchor->count && i - anchor->last == distance;
		anchor->last = i;
		anchor->count++;
		if (i)
			anchor->pause_ns +=
				sequence->launches[i].begin_ns - sequence->launches[i - 1].begin_ns;
	}
	for (uint32_t symbol = 0; symbol < sequence->symbols; symbol++) {
		const struct anchor *anchor = &anchors[symbol];

		if (anchor->count < REPETITIONS || anchor->regular * 2 < anchor->count ||
		    anchor->count * distance > sequence->count + sequence->count / 4 + distance)
			continue;
		if (best < 0 ||
		    anchor->regular > anchors[best].regular + anchors[best].count / 10 ||
		    (anchor->regular + anchor->count / 10 >= anchors[best].regular &&
		     anchor->pause_ns > anchors[best].pause_ns))
			best = symbol;
	}
	free(anchors);
	return best;
}

static bool sequence_take(const struct launch *launches, size_t count, struct sequence *sequence,
			  uint32_t thread)
{
	sequence->launches = calloc(count + 1, sizeof(*launches));
	if (!sequence->launches)
		return false;
	for (size_t i = 0; i < count; i++)
		if (launches[i].thread == thread)
			sequence->launches[sequence->count++] = launches[i];
	return number_symbols(sequence);
}

bool period_find(const struct launch *launches, size_t count, struct period *period)
{
	struct sequence sequence = {0};
	uint32_t thread = busiest_thread(launches, count);
	int64_t anchor = -1;
	size_t distance = 0;
	bool good = true;

	*period = (struct period){.thread = thread};
	if (!sequence_take(launches, count, &sequence, thread)) {
		free(sequence.launches);
		return false;
	}
	/* One kernel over and over is no sequence. */
	if (sequence.count >= 2 * REPETITIONS && sequence.symbols > 1)
		distance = find_distance(&sequence, &good);
	if (distance > 1)
		anchor = find_anchor(&sequence, distance);
	if (anchor >= 0) {
		size_t at = 0;

		period->launches = (unsigned)distance;
		for (size_t i = 0; good && i < count; i++) {
			if (launches[i].thread != thread)
				continue;
			if (sequence.launches[at++].what == (uint32_t)anchor) {
				period->what = launches[i].what;
				good = period_go_on(period, &launches[i]);
			}
		}
	}
	free(sequence.launches);
	return good && anchor != -2;
}

bool period_go_on(struct period *period, const struct launch *launch)
{
	if (!period->launches || launch->thread != period->thread || launch->what != period->what)
		return true;
	if (period->count == period->room) {
		size_t room = period->room ? period->room * 2 : 256;
		int64_t *times = realloc(period->times, room * sizeof(*times));

		if (!times)
			return false;
		period->times = times;
		period->room = room;
	}
	period->times[period->count++] = launch->begin_ns;
	return true;
}
