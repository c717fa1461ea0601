/* SPDX-License-Identifier: Apache-2.0
 *
 * Writing a trace so that ^C leaves nothing half done.
 */
#include "viewers/viewers.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
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

/* On a terminal a line that is overwritten. */
static bool shown;
static int progress(void *user, unsigned permille)
{
	(void)user;
	if (shown && !stopped_by)
		(void)fprintf(stderr, "\rwaylay: exporting %3u.%u %%", permille / 10,
			      permille % 10);
	return stopped_by != 0;
}

int trace_write(struct model *model, enum trace_format format, const char *path,
		struct export_options *options, struct export_result *result)
{
	struct sigaction before[SIGNALS], action = {.sa_handler = stop};
	char err[1024] = "";
	int error;

	stopped_by = 0;
	shown = isatty(STDERR_FILENO) == 1;
	(void)sigemptyset(&action.sa_mask);
	for (unsigned i = 0; i < SIGNALS; i++) {
		(void)sigaction(signals[i], NULL, &before[i]);
		/* Who starts a command with nohup wants it to go on. */
		if (before[i].sa_handler != SIG_IGN)
			(void)sigaction(signals[i], &action, NULL);
	}
	options->progress = progress;
	error = (format == TRACE_CHROME ? chrome_export : perfetto_export)(
		model, path, options, result, err, sizeof(err));
	if (shown)
		(void)fputs("\r\033[K", stderr);
	for (unsigned i = 0; i < SIGNALS; i++)
		(void)sigaction(signals[i], &before[i], NULL);
	if (error && stopped_by)
		(void)raise(stopped_by);
	if (error)
		say("%s", *err ? err : strerror(-error));
	return error;
}
