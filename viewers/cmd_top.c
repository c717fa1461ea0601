/* SPDX-License-Identifier: Apache-2.0
 *
 * waylay top: what a running job waits for, now. It reads the recordings as a report does, again and
 * again; the job is not asked for anything and does not know of it.
 */
#include "viewers/control.h"
#include "viewers/options.h"
#include "viewers/viewers.h"

#include "tracer/settings/settings.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

/* Reading takes at most this part of a processor. */
#define SHARE 10

struct top_arguments {
	uint64_t interval_ns;
	uint64_t frames; /* 0: until the job ends */
	const char *what;
};

enum { TOP_INTERVAL, TOP_FRAMES };
static const struct option_row rows[] = {
	{"interval", 'i', "TIME", "between two looks (1s)", TOP_INTERVAL},
	{"frames", 'n', "N", "end after N looks (when the job does)", TOP_FRAMES},
};

static int take(void *user, int key, const char *arg, char *err, size_t err_size)
{
	struct top_arguments *arguments = user;

	if (key == TOP_INTERVAL) {
		if (wl_time_parse(arg, &arguments->interval_ns) &&
		    arguments->interval_ns >= 10000000 && arguments->interval_ns <= 3600000000000u)
			return 0;
		(void)snprintf(err, err_size, "'%.40s' is no time such as 500ms, 5s (10ms to 1h)",
			       arg);
		return -EINVAL;
	}
	if (parse_count(arg, UINT32_MAX, &arguments->frames) && arguments->frames)
		return 0;
	(void)snprintf(err, err_size, "'%.40s' is no whole number above 0", arg);
	return -EINVAL;
}

/* --- one look --------------------------------------------------------------------------------- */

/* What was counted up to a look. */
struct look {
	int64_t at_ns;
	uint64_t events, waits, stages, held_ns, launches, registrations, posts, bytes;
};

static int64_t now_ns(void)
{
	struct timespec ts;

	(void)clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000000000ll + ts.tv_nsec;
}

/* Of this process and the helpers that it started. */
static int64_t cpu_ns(void)
{
	struct rusage own, helpers;

	if (getrusage(RUSAGE_SELF, &own) != 0 || getrusage(RUSAGE_CHILDREN, &helpers) != 0)
		return 0;
	return (own.ru_utime.tv_sec + own.ru_stime.tv_sec + helpers.ru_utime.tv_sec +
		helpers.ru_stime.tv_sec) *
		       1000000000ll +
	       (own.ru_utime.tv_usec + own.ru_stime.tv_usec + helpers.ru_utime.tv_usec +
		helpers.ru_stime.tv_usec) *
		       1000ll;
}

static struct look look_of(const struct analysis *analysis, int64_t at_ns)
{
	struct look look = {.at_ns = at_ns,
			    .events = analysis->events,
			    .waits = analysis->waits,
			    .stages = analysis->stages,
			    .held_ns = analysis->held_ns,
			    .launches = analysis->launches,
			    .registrations = analysis->registrations,
			    .posts = analysis->posts};

	for (unsigned op = 0; op < WL_ofi_op_MAX; op++)
		look.bytes += analysis->transfers[op].bytes;
	return look;
}

struct screen {
	bool terminal;
	unsigned columns, lines, used;
	struct termios before;
	bool raw;
};

static volatile sig_atomic_t ended, suspended;
static void end(int number)
{
	ended = number;
}
static void suspend(int number)
{
	suspended = number;
}

/* A line of the screen, cut to its width; lines beyond its height are left out. */
static void line(struct screen *screen, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
static void line(struct screen *screen, const char *format, ...)
{
	char text[2048], clean[2048];
	va_list args;

	if (screen->terminal && screen->used >= screen->lines)
		return;
	va_start(args, format);
	(void)vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	(void)words_clean(text, clean,
			  screen->columns + 1 < sizeof(clean) ? screen->columns + 1
							      : sizeof(clean));
	(void)printf("%s%s", screen->terminal && screen->used ? "\n" : "", clean);
	if (!screen->terminal)
		(void)putchar('\n');
	else
		(void)fputs("\033[K", stdout);
	screen->used++;
}

static uint64_t per_second(uint64_t now, uint64_t before, int64_t ns)
{
	return ns > 0 && now > before ? (uint64_t)((double)(now - before) * 1e9 / (double)ns) : 0;
}

static double percent(uint64_t now, uint64_t before, double of)
{
	return of > 0 && now > before ? 100 * (double)(now - before) / of : 0;
}

/* --- the screen ------------------------------------------------------------------------------- */

/* What a place had at the look before. */
struct place_before {
	uint64_t key, count, held_ns;
};
struct places {
	unsigned count;
	struct place_before items[512];
};

static uint64_t place_key(const struct site *site)
{
	uint64_t hash = 1469598103934665603u ^ site->rule * 31 ^ site->cls;

	for (const char *p = site->place; *p; p++)
		hash = (hash ^ (unsigned char)*p) * 1099511628211u;
	return hash;
}

static const struct place_before *place_find(const struct places *places, uint64_t key)
{
	for (unsigned i = 0; i < places->count; i++)
		if (places->items[i].key == key)
			return &places->items[i];
	return NULL;
}

static void places_keep(struct places *places, const struct analysis *analysis)
{
	places->count = 0;
	for (unsigned i = 0; i < analysis->site_count && places->count < 512; i++)
		places->items[places->count++] = (struct place_before){
			place_key(analysis->sites[i]), analysis->sites[i]->count,
			analysis->sites[i]->held.sum_ns};
}

static void numbers(struct screen *screen, const struct look *look, const struct look *before,
		    double host_ns)
{
	int64_t ns = look->at_ns - before->at_ns;
	char rate[32], all[32];

	line(screen, "%-16s %14s %16s", "", "now", "in all");
	line(screen, "%-16s %12s/s %16s", "synchronizations",
	     words_count(per_second(look->waits, before->waits, ns), rate),
	     words_count(look->waits, all));
	line(screen, "%-16s %12.1f %% %16s", "host held",
	     percent(look->held_ns, before->held_ns, host_ns), words_ns(look->held_ns, all));
	line(screen, "%-16s %12s/s %16s", "staged copies",
	     words_count(per_second(look->stages, before->stages, ns), rate),
	     words_count(look->stages, all));
	line(screen, "%-16s %12s/s %16s", "launches",
	     words_count(per_second(look->launches, before->launches, ns), rate),
	     words_count(look->launches, all));
	line(screen, "%-16s %12s/s %16s", "registrations",
	     words_count(per_second(look->registrations, before->registrations, ns), rate),
	     words_count(look->registrations, all));
	line(screen, "%-16s %12s/s %16s", "transferred",
	     words_bytes(per_second(look->bytes, before->bytes, ns), rate),
	     words_bytes(look->bytes, all));
}

static void costliest(struct screen *screen, const struct analysis *analysis,
		      const struct places *before, double host_ns, int64_t ns)
{
	char rate[32], all[32];

	line(screen, "%s", "");
	line(screen, "%10s %7s %9s  %-18s %s", "now", "held", "in all", "rule", "place");
	for (unsigned i = 0; i < analysis->site_count && screen->used + 1 < screen->lines; i++) {
		const struct site *site = analysis->sites[i];
		const struct place_before *was = place_find(before, place_key(site));

		line(screen, "%8s/s %5.1f %% %9s  %-18s %s",
		     words_count(per_second(site->count, was ? was->count : 0, ns), rate),
		     percent(site->held.sum_ns, was ? was->held_ns : 0, host_ns),
		     words_ns(site->held.sum_ns, all), wl_rule_info(site->rule)->word, site->place);
	}
}

static void screen_size(struct screen *screen)
{
	struct winsize size;

	screen->columns = 80;
	screen->lines = 24;
	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col && size.ws_row) {
		screen->columns = size.ws_col;
		screen->lines = size.ws_row;
	}
	screen->used = 0;
}

static void show_screen(struct screen *screen, struct model *model, const struct analysis *analysis,
			const struct look *look, const struct look *before,
			const struct places *places, unsigned running, int64_t took_ns)
{
	const struct model_process *first = model_process(model, 0);
	int64_t ns = look->at_ns - before->at_ns;
	double host_ns = (double)ns * (running ? running : 1);
	char wall[24], events[32], took[24];

	screen_size(screen);
	(void)fputs("\033[H", stdout);
	line(screen, "%s", *first->info.command ? first->info.command : first->info.process_name);
	line(screen, "%u of %u processes running, %s recorded, %s events, read in %s", running,
	     model_process_count(model), words_ns((uint64_t)analysis->wall_ns, wall),
	     words_count(analysis->events, events), words_ns((uint64_t)took_ns, took));
	if (analysis->drops_lost)
		line(screen, "%llu records are missing: counts are at least these",
		     (unsigned long long)analysis->drops_lost);
	line(screen, "%s", "");
	numbers(screen, look, before, host_ns);
	costliest(screen, analysis, places, host_ns, ns);
	while (screen->used + 1 < screen->lines)
		line(screen, "%s", "");
	line(screen, "q: end");
	(void)fputs("\033[J", stdout);
}

static void show_line(const struct analysis *analysis, const struct look *look,
		      const struct look *before, unsigned running)
{
	int64_t ns = look->at_ns - before->at_ns;
	char syncs[32], all[32], registrations[32], bytes[32], place[512], events[32];

	(void)printf(
		"%s events; %s syncs (%s/s), held %.1f %%; %s registrations; %s/s; costliest: %s\n",
		words_count(look->events, events), words_count(look->waits, all),
		words_count(per_second(look->waits, before->waits, ns), syncs),
		percent(look->held_ns, before->held_ns, (double)ns * (running ? running : 1)),
		words_count(look->registrations, registrations),
		words_bytes(per_second(look->bytes, before->bytes, ns), bytes),
		analysis->site_count ? words_clean(analysis->sites[0]->place, place, sizeof(place))
				     : "-");
}

/* --- looking ---------------------------------------------------------------------------------- */

struct watch {
	struct control_targets known; /* of a process: they stay when it has gone */
	struct screen screen;
	struct look before;
	struct places places;
	bool any;
};

/* What there is to read. A process's recordings are found by it once; a directory may get more. */
static int find(struct watch *watch, const struct top_arguments *arguments,
		struct control_targets *targets)
{
	int error = 0;

	if (arguments->what[strspn(arguments->what, "0123456789")])
		return control_find(targets, arguments->what, false);
	if (!watch->known.count)
		error = control_find(&watch->known, arguments->what, false);
	for (unsigned i = 0; !error && i < watch->known.count; i++)
		error = control_find(targets, watch->known.items[i].path, false);
	return error;
}

/* Reads everything there is. The number of processes that still run, or -errno, said. */
static int look_once(struct watch *watch, const struct top_arguments *arguments)
{
	struct model_options options = {.all_runs = true, .symbols = true};
	struct control_targets targets = {0};
	struct analysis *analysis = NULL;
	struct model *model = NULL;
	char err[1024] = "";
	int64_t started = now_ns();
	unsigned running = 0;
	const char **paths;
	int error = find(watch, arguments, &targets);

	if (error) {
		control_free(&targets);
		return error;
	}
	paths = calloc(targets.count + 1, sizeof(*paths));
	for (unsigned i = 0; paths && i < targets.count; i++) {
		paths[i] = targets.items[i].path;
		/* Whether one on another machine lives is known from its recording alone. */
		running += targets.items[i].life == CONTROL_RUNNING ||
			   (targets.items[i].life == CONTROL_ELSEWHERE &&
			    !atomic_load(&targets.items[i].header->ended));
	}
	/* Of a directory the newest run, as a report takes it. */
	options.all_runs = false;
	error = paths ? model_open(paths, targets.count, &options, &model, err, sizeof(err))
		      : -ENOMEM;
	if (!error)
		error = analysis_run(model, NULL, &analysis, err, sizeof(err));
	if (!error) {
		struct look look = look_of(analysis, now_ns());

		if (!watch->any)
			watch->before = (struct look){.at_ns = look.at_ns - analysis->wall_ns};
		if (watch->screen.terminal)
			show_screen(&watch->screen, model, analysis, &look, &watch->before,
				    &watch->places, running, look.at_ns - started);
		else
			show_line(analysis, &look, &watch->before, running);
		(void)fflush(stdout);
		watch->before = look;
		places_keep(&watch->places, analysis);
		watch->any = true;
	} else {
		say("%s", *err ? err : strerror(-error));
	}
	analysis_free(analysis);
	model_close(model);
	free(paths);
	control_free(&targets);
	return error ? error : (int)running;
}

static void screen_take(struct screen *screen)
{
	struct termios raw;

	(void)fputs("\033[?1049h\033[?25l\033[2J", stdout);
	screen->raw = tcgetattr(STDIN_FILENO, &screen->before) == 0;
	if (!screen->raw)
		return;
	raw = screen->before;
	raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
	(void)tcsetattr(STDIN_FILENO, TCSANOW, &raw);
}

static void screen_open(struct screen *screen)
{
	struct sigaction action = {.sa_handler = end}, stop = {.sa_handler = suspend};
	const char *kind = getenv("TERM");

	(void)sigemptyset(&action.sa_mask);
	(void)sigemptyset(&stop.sa_mask);
	(void)sigaction(SIGINT, &action, NULL);
	(void)sigaction(SIGTERM, &action, NULL);
	(void)sigaction(SIGHUP, &action, NULL);
	screen->columns = 4096;
	/* A terminal that says nothing of itself may know no more than lines. */
	screen->terminal = isatty(STDOUT_FILENO) == 1 && kind && *kind && strcmp(kind, "dumb") != 0;
	if (!screen->terminal)
		return;
	(void)sigaction(SIGTSTP, &stop, NULL);
	screen_take(screen);
}

static void screen_close(struct screen *screen)
{
	if (!screen->terminal)
		return;
	(void)fputs("\033[?25h\033[?1049l", stdout);
	(void)fflush(stdout);
	if (screen->raw)
		(void)tcsetattr(STDIN_FILENO, TCSANOW, &screen->before);
}

/* ^Z: whoever has the terminal meanwhile finds it as it was. */
static void screen_lend(struct screen *screen)
{
	suspended = 0;
	screen_close(screen);
	(void)raise(SIGSTOP);
	screen_take(screen);
}

/* Waits; true when the person wants to end. */
static bool pause_for(struct watch *watch, int64_t ns)
{
	struct pollfd input = {.fd = watch->screen.raw ? STDIN_FILENO : -1, .events = POLLIN};
	int64_t until = now_ns() + ns;
	char key;

	/* Keys are looked at also where there is no time to pause. */
	for (;;) {
		int64_t left = until - now_ns();

		if (ended)
			return true;
		if (suspended) {
			screen_lend(&watch->screen);
			return ended != 0;
		}
		if (poll(&input, 1, left > 0 ? (int)(left / 1000000) + 1 : 0) > 0) {
			/* Any other key: look at once. */
			return read(STDIN_FILENO, &key, 1) != 1 || key == 'q' || key == 'Q';
		}
		if (left <= 0)
			return ended != 0;
	}
}

/* Until nothing runs any more, or as often as asked. 0 or -errno. */
static int watch_job(struct watch *watch, const struct top_arguments *arguments)
{
	int64_t interval = (int64_t)arguments->interval_ns;

	for (uint64_t frame = 1;; frame++) {
		int64_t started = now_ns(), used = cpu_ns(), pause;
		int running = look_once(watch, arguments);

		if (running < 0)
			return watch->any ? 0 : running;
		/* The last look was at all that there will be. */
		if (!running || frame == arguments->frames || ferror(stdout))
			return 0;
		used = (cpu_ns() - used) * SHARE;
		pause = (used > interval ? used : interval) - (now_ns() - started);
		if (pause_for(watch, pause > 0 ? pause : 0))
			return 0;
	}
}

int cmd_top(int argc, char **argv)
{
	struct top_arguments arguments = {.interval_ns = 1000000000};
	const struct command_line command = {
		.name = "waylay top",
		.operands = "[DIR|PID]",
		.what = "Shows what a running job waits for, as it runs: rates, and the costliest lines.",
		.more = "DIR defaults to $WAYLAY_DIR, else waylay-out. The job is not touched: its\n"
			"recordings are read, with a tenth of a processor at most. On anything but a\n"
			"terminal it prints a line a look. It ends with the job.\n\n"
			"Examples:\n"
			"  waylay top\n"
			"  waylay top 4711 | tee top.log",
		.mistake_status = EXIT_USAGE,
		.group_count = 1,
		.groups = {{NULL, rows, sizeof(rows) / sizeof(rows[0]), take, &arguments, NULL}},
	};
	const char *directory = getenv("WAYLAY_DIR");
	struct watch *watch = calloc(1, sizeof(*watch));
	int first = options_parse(&command, argc, argv), error;

	if (argc - first > 1)
		options_mistake(&command, "'%s' is one word too many", argv[first + 1]);
	arguments.what = first < argc              ? argv[first]
			 : directory && *directory ? directory
						   : "waylay-out";
	if (!watch)
		return EXIT_EXCEEDED;
	/* The job comes first. */
	(void)setpriority(PRIO_PROCESS, 0, 10);
	screen_open(&watch->screen);
	error = watch_job(watch, &arguments);
	screen_close(&watch->screen);
	/* What was on the screen stays readable. */
	if (!error && watch->screen.terminal && watch->any) {
		char count[32], held[24];

		(void)printf("%s synchronizations held the host %s in all\n",
			     words_count(watch->before.waits, count),
			     words_ns(watch->before.held_ns, held));
	}
	control_free(&watch->known);
	free(watch);
	if (ended && ended != SIGINT)
		return 128 + ended;
	return error ? EXIT_EXCEEDED : EXIT_HOLDS;
}
