/* SPDX-License-Identifier: Apache-2.0
 *
 * Clocks of hosts aligned by their traffic. A message is received after it was sent: each one bounds the
 * offset of two hosts' clocks, from below or from above by its direction. The straight line (offset and
 * drift) that keeps the greatest distance from all bounds is taken; how far any other line that breaks
 * none could be from it is the bound of the error. Where no one line fits, the time is halved.
 */
#include "exporters/model/internal.h"
#include "exporters/model/match.h"
#include "exporters/model/messages.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define BUCKETS     256 /* parts of the time of which only the tightest bounds are kept */
#define SAMPLES_MAX (1u << 18)
#define DRIFT_MAX   1e-3 /* no clock is that bad */
#define ROUNDS      100
#define SPLITS      5

/* Both ends of a message, as far as they were seen: host clocks (MONOTONIC), host 0 reference. */
struct sample {
	uint64_t message; /* 0 free */
	int64_t sent_ns, received_ns;
	uint32_t from, to; /* hosts + 1, 0 not seen */
};

struct bound {
	double t, u, l; /* u: above, l: below; unset: has_u, has_l false */
	bool has_u, has_l;
};

struct aligner {
	struct model *model;
	struct sample *samples; /* open addressing */
	uint32_t count;
	unsigned level; /* only messages whose number is a multiple of 2^level are kept */
	uint32_t host;  /* of the process being read */
};

/* --- samples ------------------------------------------------------------------------------------ */

#define SLOTS (SAMPLES_MAX * 2)

static struct sample *sample_at(struct aligner *aligner, uint64_t message)
{
	uint32_t slot = (uint32_t)(message >> 20) % SLOTS;

	while (aligner->samples[slot].message && aligner->samples[slot].message != message)
		slot = (slot + 1) % SLOTS;
	return &aligner->samples[slot];
}

/* Every other message goes: the same ones on both sides. */
static int thin_out(struct aligner *aligner)
{
	struct sample *old = aligner->samples;

	aligner->samples = calloc(SLOTS, sizeof(*old));
	if (!aligner->samples) {
		aligner->samples = old;
		return -ENOMEM;
	}
	aligner->level++;
	aligner->count = 0;
	for (uint32_t i = 0; i < SLOTS; i++) {
		if (!old[i].message || old[i].message & ((1ull << aligner->level) - 1))
			continue;
		*sample_at(aligner, old[i].message) = old[i];
		aligner->count++;
	}
	free(old);
	return 0;
}

static void on_transfer(void *user, const struct model_transfer *transfer)
{
	struct aligner *aligner = user;
	unsigned op = (unsigned)MODEL_ARG(&transfer->post, ofi_post, op);
	bool send = op == WL_ofi_op_send || op == WL_ofi_op_tsend;
	struct sample *sample;

	if (!transfer->message || transfer->failed ||
	    transfer->message & ((1ull << aligner->level) - 1) ||
	    (!send && transfer->how != MODEL_TRANSFER_COMPLETED))
		return;
	if (aligner->count >= SAMPLES_MAX && thin_out(aligner))
		return;
	sample = sample_at(aligner, transfer->message);
	if (!sample->message) {
		sample->message = transfer->message;
		aligner->count++;
	}
	if (send) {
		sample->sent_ns = transfer->post.begin_ns;
		sample->from = aligner->host + 1;
	} else {
		sample->received_ns = transfer->end_ns;
		sample->to = aligner->host + 1;
	}
}

static int read_process(struct model *model, unsigned index, const struct model_match_ops *ops,
			void *user, bool fill)
{
	struct model_matcher *matcher = fill ? model_matcher_new_senders(model, index)
					     : model_matcher_new(model, index, ops, user);
	struct trace_event event;
	int error = 0;
	struct model_cursor *cursor = model_cursor_open(model, index, MODEL_ALL_THREADS, &error);

	if (!matcher && !error)
		error = -ENOMEM;
	while (!error && model_cursor_next(cursor, &event) > 0) {
		if (event.type->category == WL_CAT_ofi_xfer ||
		    event.type->category == WL_CAT_ofi_cq ||
		    event.type->category == WL_CAT_ofi_setup)
			model_matcher_feed(matcher, &event);
	}
	model_cursor_close(cursor);
	model_matcher_free(matcher);
	return error;
}

/* --- lines -------------------------------------------------------------------------------------- */

struct points {
	struct bound *list;
	unsigned count;
};

/* For a slope: between which offsets at t = 0 the line may lie. */
static void room(const struct points *points, double slope, double *low, double *high)
{
	*low = -1e300;
	*high = 1e300;
	for (unsigned i = 0; i < points->count; i++) {
		const struct bound *bound = &points->list[i];

		if (bound->has_u && bound->u - slope * bound->t < *high)
			*high = bound->u - slope * bound->t;
		if (bound->has_l && bound->l - slope * bound->t > *low)
			*low = bound->l - slope * bound->t;
	}
}

static double width(const struct points *points, double slope)
{
	double low, high;

	room(points, slope, &low, &high);
	return high - low;
}

/* The room is concave in the slope: the widest is found by thirds. */
static double widest(const struct points *points)
{
	double from = -DRIFT_MAX, to = DRIFT_MAX;

	for (unsigned i = 0; i < ROUNDS; i++) {
		double a = from + (to - from) / 3, b = to - (to - from) / 3;

		if (width(points, a) < width(points, b))
			from = a;
		else
			to = b;
	}
	return (from + to) / 2;
}

/* The last slope on the way from one with room towards a limit that still has some. */
static double slope_limit(const struct points *points, double inside, double outside)
{
	if (width(points, outside) >= 0)
		return outside;
	for (unsigned i = 0; i < ROUNDS; i++) {
		double middle = (inside + outside) / 2;

		if (width(points, middle) >= 0)
			inside = middle;
		else
			outside = middle;
	}
	return inside;
}

/* How high (sign 1) or low (-1) a line that breaks no bound can be at t. */
static double reach(const struct points *points, double least, double most, double t, double sign)
{
	double from = least, to = most, low, high, value = 0;

	for (unsigned i = 0; i <= ROUNDS; i++) {
		double third = (to - from) / 3, at[2] = {from + third, to - third}, found[2];

		for (unsigned k = 0; k < 2; k++) {
			room(points, at[k], &low, &high);
			found[k] = (sign > 0 ? high : -low) + sign * at[k] * t;
		}
		value = found[0] > found[1] ? found[0] : found[1];
		if (found[0] < found[1])
			from = at[0];
		else
			to = at[1];
	}
	return sign * value;
}

struct line {
	double offset, slope; /* at t = 0 */
	double from, to;      /* where it holds */
	double error;
	bool broken; /* some bound is */
};

static struct line fit_line(const struct points *points, double from, double to)
{
	struct line line = {.slope = widest(points), .from = from, .to = to};
	double low, high, least, most;

	room(points, line.slope, &low, &high);
	line.offset = (low + high) / 2;
	line.broken = high < low;
	if (line.broken)
		return line;
	least = slope_limit(points, line.slope, -DRIFT_MAX);
	most = slope_limit(points, line.slope, DRIFT_MAX);
	for (unsigned end = 0; end < 2; end++) {
		double t = end ? to : from, value = line.offset + line.slope * t;
		double above = reach(points, least, most, t, 1) - value;
		double below = value - reach(points, least, most, t, -1);

		line.error = above > line.error ? above : line.error;
		line.error = below > line.error ? below : line.error;
	}
	return line;
}

static bool both_sides(const struct points *points)
{
	bool u = false, l = false;

	for (unsigned i = 0; i < points->count; i++) {
		u |= points->list[i].has_u;
		l |= points->list[i].has_l;
	}
	return u && l;
}

/* Lines in order of time; how many. */
static unsigned fit(const struct points *points, double from, double to, unsigned depth,
		    struct line *lines)
{
	struct line line = fit_line(points, from, to);
	struct points halves[2] = {
		{points->list, points->count / 2},
		{points->list + points->count / 2, points->count - points->count / 2}};

	if (line.broken && depth < SPLITS && both_sides(&halves[0]) && both_sides(&halves[1])) {
		double middle = halves[1].list[0].t;
		unsigned count = fit(&halves[0], from, middle, depth + 1, lines);

		return count + fit(&halves[1], middle, to, depth + 1, lines + count);
	}
	*lines = line;
	return 1;
}

/* --- hosts -------------------------------------------------------------------------------------- */

/* Any process of a host stands for it: they share the clock. */
static struct process *process_of_host(const struct model *model, uint32_t host)
{
	for (unsigned i = 0; i < model->process_count; i++) {
		if (model->processes[i]->public.host == host)
			return model->processes[i];
	}
	return NULL;
}

static void extent(const struct model *model, uint32_t host, int64_t *from_ns, int64_t *to_ns)
{
	*from_ns = INT64_MAX;
	*to_ns = INT64_MIN;
	for (unsigned i = 0; i < model->process_count; i++) {
		const struct model_process *public = &model->processes[i]->public;

		if (public->host != host)
			continue;
		if (public->info.start_ns < *from_ns)
			*from_ns = public->info.start_ns;
		if (public->info.end_ns > *to_ns)
			*to_ns = public->info.end_ns;
	}
}

static void add_bound(struct bound *bounds, int64_t from_ns, int64_t to_ns, int64_t at_ns,
		      double value, bool above)
{
	double part = (double)(at_ns - from_ns) / ((double)(to_ns - from_ns) + 1);
	struct bound *bound = &bounds[part <= 0   ? 0
				      : part >= 1 ? BUCKETS - 1
						  : (unsigned)(part * BUCKETS)];

	/* Above and below of one bucket have times of their own: two rows. */
	bound += above ? 0 : BUCKETS;
	if (above ? !bound->has_u || value < bound->u : !bound->has_l || value > bound->l) {
		bound->t = (double)(at_ns - from_ns);
		if (above)
			bound->u = value;
		else
			bound->l = value;
		bound->has_u = above;
		bound->has_l = !above;
	}
}

static int by_time(const void *left, const void *right)
{
	const struct bound *a = left, *b = right;

	return a->t < b->t ? -1 : a->t > b->t;
}

/* Bounds of model time - host time, less base, over the host's clock. Messages with aligned hosts. */
static void gather(const struct aligner *aligner, uint32_t host, const bool *aligned,
		   int64_t from_ns, int64_t to_ns, int64_t base, struct points *points)
{
	struct bound *bounds = points->list;

	memset(bounds, 0, 2 * BUCKETS * sizeof(*bounds));
	for (uint32_t i = 0; i < SLOTS; i++) {
		const struct sample *sample = &aligner->samples[i];
		uint32_t from = sample->from - 1, to = sample->to - 1;

		if (!sample->from || !sample->to || from == to)
			continue;
		if (to == host && aligned[from]) {
			const struct process *other = process_of_host(aligner->model, from);

			add_bound(bounds, from_ns, to_ns, sample->received_ns,
				  (double)(model_time(&other->public, sample->sent_ns) -
					   sample->received_ns - base),
				  false);
		} else if (from == host && aligned[to]) {
			const struct process *other = process_of_host(aligner->model, to);

			add_bound(bounds, from_ns, to_ns, sample->sent_ns,
				  (double)(model_time(&other->public, sample->received_ns) -
					   sample->sent_ns - base),
				  true);
		}
	}
	points->count = 0;
	for (unsigned i = 0; i < 2 * BUCKETS; i++) {
		if (bounds[i].has_u || bounds[i].has_l)
			bounds[points->count++] = bounds[i];
	}
	qsort(bounds, points->count, sizeof(*bounds), by_time);
}

static int set_knots(struct model *model, uint32_t host, const struct line *lines, unsigned count,
		     int64_t from_ns, int64_t base, int64_t error_ns)
{
	for (unsigned i = 0; i < model->process_count; i++) {
		struct process *process = model->processes[i];
		struct clock_knot *knots;

		if (process->public.host != host)
			continue;
		knots = calloc(count * 2u, sizeof(*knots));
		if (!knots)
			return -ENOMEM;
		for (unsigned k = 0; k < count * 2; k++) {
			const struct line *line = &lines[k / 2];
			double t = k % 2 ? line->to : line->from;

			/* Of two lines the second begins a nanosecond later: one moment, one time. */
			t += k && !(k % 2) ? 1 : 0;
			knots[k].monotonic_ns = from_ns + (int64_t)t;
			knots[k].model_ns = knots[k].monotonic_ns + base +
					    (int64_t)(line->offset + line->slope * t);
			if (k && knots[k].model_ns < knots[k - 1].model_ns)
				knots[k].model_ns = knots[k - 1].model_ns;
		}
		free(process->knots);
		process->knots = knots;
		process->knot_count = count * 2;
		process->public.clock_error_ns = error_ns;
		process->public.aligned = true;
	}
	return 0;
}

/* Messages in one direction alone bound nothing, but none may arrive before it was sent: the clock is
 * moved as little as that takes. */
static void move_clock(struct model *model, uint32_t host, const struct points *points,
		       int64_t from_ns, int64_t base)
{
	const struct process *process = process_of_host(model, host);
	double move = 0;

	for (unsigned i = 0; i < points->count; i++) {
		const struct bound *bound = &points->list[i];
		int64_t at_ns = from_ns + (int64_t)bound->t;
		double now = (double)(model_time(&process->public, at_ns) - at_ns - base);

		if (bound->has_u && now + move > bound->u)
			move = bound->u - now;
		if (bound->has_l && now + move < bound->l)
			move = bound->l - now;
	}
	for (unsigned i = 0; i < model->process_count; i++) {
		if (model->processes[i]->public.host != host)
			continue;
		for (unsigned k = 0; k < model->processes[i]->knot_count; k++)
			model->processes[i]->knots[k].model_ns += (int64_t)move;
	}
}

/* The host's clock by messages with hosts that are aligned. Whether there were any. */
static bool align_host(struct aligner *aligner, uint32_t host, const bool *aligned, int *error)
{
	struct bound *bounds = calloc(2 * BUCKETS, sizeof(*bounds));
	const struct process *process = process_of_host(aligner->model, host);
	struct points points = {bounds, 0};
	struct line lines[1 << SPLITS];
	int64_t from_ns, to_ns, base, error_ns = 0;
	unsigned count;

	if (!bounds) {
		*error = -ENOMEM;
		return false;
	}
	extent(aligner->model, host, &from_ns, &to_ns);
	base = model_time(&process->public, from_ns) - from_ns;
	gather(aligner, host, aligned, from_ns, to_ns, base, &points);
	if (points.count && both_sides(&points)) {
		count = fit(&points, 0, (double)(to_ns - from_ns), 0, lines);
		for (unsigned i = 0; i < count && error_ns >= 0; i++) {
			if (lines[i].broken)
				error_ns = -1;
			else if (lines[i].error > (double)error_ns)
				error_ns = (int64_t)lines[i].error + 1;
		}
		*error = set_knots(aligner->model, host, lines, count, from_ns, base, error_ns);
	} else if (points.count) {
		move_clock(aligner->model, host, &points, from_ns, base);
	}
	count = points.count;
	free(bounds);
	return count > 0;
}

static void tell_error(struct model *model, uint32_t host)
{
	const struct model_process *process = &process_of_host(model, host)->public;

	if (process->clock_error_ns >= 0)
		model_add_note(
			model,
			"clock of %s aligned by its messages: at most %.3f us from that of %s",
			process->info.host, (double)process->clock_error_ns / 1000,
			process_of_host(model, 0)->public.info.host);
}

static int align_hosts(struct aligner *aligner)
{
	struct model *model = aligner->model;
	bool *aligned = calloc(model->host_count, sizeof(*aligned)), grown = true;
	int error = aligned ? 0 : -ENOMEM;

	if (aligned)
		aligned[0] = true;
	while (grown && !error) {
		grown = false;
		for (uint32_t host = 1; host < model->host_count && !error; host++) {
			if (aligned[host] || !align_host(aligner, host, aligned, &error))
				continue;
			aligned[host] = grown = true;
			tell_error(model, host);
		}
	}
	free(aligned);
	return error;
}

int model_align_by_messages(struct model *model)
{
	static const struct model_match_ops ops = {.transfer = on_transfer};
	struct aligner aligner = {.model = model};
	int error = 0;

	if (model->process_count < 2)
		return 0;
	model->senders = message_senders_new();
	if (!model->senders)
		return -ENOMEM;
	for (unsigned i = 0; i < model->process_count && !error; i++)
		error = read_process(model, i, NULL, NULL, true);
	if (error || model->host_count < 2)
		return error;
	aligner.samples = calloc(SLOTS, sizeof(*aligner.samples));
	if (!aligner.samples)
		return -ENOMEM;
	for (unsigned i = 0; i < model->process_count && !error; i++) {
		aligner.host = model->processes[i]->public.host;
		error = read_process(model, i, &ops, &aligner, false);
	}
	if (!error)
		error = align_hosts(&aligner);
	free(aligner.samples);
	return error;
}
