/* SPDX-License-Identifier: Apache-2.0
 *
 * Writing a trace so that ^C leaves nothing half done, and no larger than wanted.
 */
#include "viewers/viewers.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
#define SIGNALS (sizeof(signals) / sizeof(signals[0]))

static volatile sig_atomic_t stopped_by;

static void stop(int number)
{
	/* The second time it is meant at once. */
	if (stopped_by)
		_exit(128 + number);
	stopped_by = number;
}

static double now_s(void)
{
	struct timespec now;

	(void)clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* On a terminal a line that is overwritten. */
static bool shown;
static const char *doing;
static double began_s;
static int progress(void *user, unsigned permille)
{
	double passed = now_s() - began_s;

	(void)user;
	if (!shown || stopped_by || permille == EXPORT_ASK)
		return stopped_by != 0;
	(void)fprintf(stderr, "\rwaylay: %s %3u.%u %%", doing, permille / 10, permille % 10);
	if (passed > 1 && permille > 5)
		(void)fprintf(stderr, ", %.0f s left   ", passed / permille * (1000 - permille));
	return 0;
}

static int write_once(struct model *model, const struct trace_request *request, const char *path,
		      struct export_result *result, char *err, size_t err_size)
{
	const struct export_options *options = &request->options;

	began_s = now_s();
	switch (request->format) {
	case TRACE_PERFETTO:
		return perfetto_export(model, path, options, result, err, err_size);
	case TRACE_CHROME:
		return chrome_export(model, path, options, result, err, err_size);
	default:
		return table_export(model, path,
				    request->format == TRACE_CSV     ? TABLE_FORMAT_CSV
				    : request->format == TRACE_JSONL ? TABLE_FORMAT_JSONL
								     : TABLE_FORMAT_SQLITE,
				    request->tables, options, result, err, err_size);
	}
}

#define FIT_ROUNDS 16

/*
 * Finds out by trial how much must be thinned out for the trace to fit: sizes are taken to grow in
 * proportion with what is kept, beyond what is never thinned out.
 */
static int fit(struct model *model, struct trace_request *request, char *err, size_t err_size)
{
	struct selection *selection = request->options.selection;
	double keep = 1, last_keep = 0, last_bytes = 0, max = (double)request->max_bytes;
	char size[24];

	doing = "measuring";
	for (unsigned round = 0; round < FIT_ROUNDS; round++) {
		struct export_result result;
		double bytes, slope;
		int error;

		selection_restart(selection);
		error = write_once(model, request, "/dev/null", &result, err, err_size);
		if (error)
			return error;
		bytes = (double)result.bytes;
		if (bytes <= max)
			return 0;
		if (keep <= 0) {
			(void)snprintf(err, err_size,
				       "writing %s: waits, ranges and registrations alone take %s: "
				       "choose less (--no-stacks, --category, --from, --to)",
				       request->path, words_bytes(result.bytes, size));
			return -EFBIG;
		}
		slope = last_bytes > bytes ? (last_bytes - bytes) / (last_keep - keep)
					   : bytes / keep;
		last_keep = keep;
		last_bytes = bytes;
		/* A little under, for estimates are estimates. */
		keep -= (bytes - max * 0.99) / slope;
		selection_thin(selection, keep);
	}
	(void)snprintf(err, err_size, "writing %s: no way found to make it that small",
		       request->path);
	return -EFBIG;
}

static void say_thinned(const struct trace_request *request)
{
	uint64_t of, thinned;
	char left_out[32], all[32], size[24];

	if (!request->max_bytes)
		return;
	thinned = selection_thinned(request->options.selection, &of);
	if (thinned)
		say("the %s shortest of %s events left out to stay below %s",
		    words_count(thinned, left_out), words_count(of, all),
		    words_bytes(request->max_bytes, size));
}

int trace_write(struct model *model, struct trace_request *request, struct export_result *result)
{
	struct sigaction before[SIGNALS], action = {.sa_handler = stop};
	char err[1024] = "";
	int error = 0;

	stopped_by = 0;
	shown = isatty(STDERR_FILENO) == 1;
	(void)sigemptyset(&action.sa_mask);
	for (unsigned i = 0; i < SIGNALS; i++) {
		(void)sigaction(signals[i], NULL, &before[i]);
		/* Who starts a command with nohup wants it to go on. */
		if (before[i].sa_handler != SIG_IGN)
			(void)sigaction(signals[i], &action, NULL);
	}
	request->options.progress = progress;
	if (request->max_bytes)
		error = fit(model, request, err, sizeof(err));
	doing = "exporting";
	if (!error && request->max_bytes)
		selection_restart(request->options.selection);
	if (!error)
		error = write_once(model, request, request->path, result, err, sizeof(err));
	if (shown)
		(void)fputs("\r\033[K", stderr);
	for (unsigned i = 0; i < SIGNALS; i++)
		(void)sigaction(signals[i], &before[i], NULL);
	if (error && stopped_by)
		(void)raise(stopped_by);
	if (error)
		say("%s", *err ? err : strerror(-error));
	else
		say_thinned(request);
	return error;
}
