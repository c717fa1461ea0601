/* SPDX-License-Identifier: Apache-2.0
 *
 * waylay view: a trace in the Perfetto UI. The UI runs in the browser and fetches the trace from this
 * machine; nothing leaves it.
 */
#include "viewers/options.h"
#include "viewers/view_commands.h"
#include "viewers/view_processor.h"
#include "viewers/view_server.h"
#include "viewers/viewers.h"

#include "tracer/settings/settings.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define UI   "https://ui.perfetto.dev"
#define PORT 9001 /* the only one that the UI may fetch from without TLS */
/* More than a browser holds. */
#define LARGE_BYTES ((off_t)3 << 29)

struct view_arguments {
	struct input input;
	bool no_open, verbose, server;
	const char *ui;
	uint64_t port, wait_ns;
};

enum { VIEW_NO_OPEN, VIEW_SERVER, VIEW_UI, VIEW_PORT, VIEW_WAIT, VIEW_VERBOSE };
static const struct option_row rows[] = {
	{"no-open", 0, NULL, "print the link, start no browser", VIEW_NO_OPEN},
	{"server", 0, NULL, "for a large trace: trace_processor's own server reads it",
	 VIEW_SERVER},
	{"wait", 0, "TIME", "for the browser to come (10m)", VIEW_WAIT},
	{"ui", 0, "URL", "a Perfetto UI of your own (" UI ")", VIEW_UI},
	{"port", 0, "N", "of 127.0.0.1, for a UI of your own (9001)", VIEW_PORT},
	{"verbose", 'v', NULL, "print each request", VIEW_VERBOSE},
};

static int take(void *user, int key, const char *arg, char *err, size_t err_size)
{
	struct view_arguments *arguments = user;

	switch (key) {
	case VIEW_NO_OPEN:
		arguments->no_open = true;
		return 0;
	case VIEW_SERVER:
		arguments->server = true;
		return 0;
	case VIEW_VERBOSE:
		arguments->verbose = true;
		return 0;
	case VIEW_UI:
		arguments->ui = arg;
		if (strncmp(arg, "https://", 8) == 0 || strncmp(arg, "http://", 7) == 0)
			return 0;
		(void)snprintf(err, err_size, "'%.80s' is no address such as " UI, arg);
		return -EINVAL;
	case VIEW_PORT:
		if (parse_count(arg, 65535, &arguments->port))
			return 0;
		(void)snprintf(err, err_size, "'%.40s' is no port", arg);
		return -EINVAL;
	default:
		if (wl_time_parse(arg, &arguments->wait_ns) &&
		    arguments->wait_ns <= 86400000000000u)
			return 0;
		(void)snprintf(err, err_size, "'%.40s' is no time such as 30s, 10m", arg);
		return -EINVAL;
	}
}

/* --- the trace -------------------------------------------------------------------------------- */

/* What is shown: a trace that is there, or one made for this. */
struct shown {
	char path[PATH_MAX];
	char directory[PATH_MAX]; /* with the made one; "" none */
	char *commands;           /* for the UI, as JSON */
};

/* True for a file that the UI reads as it is: a Perfetto or Chrome trace, compressed or not. */
static bool is_trace(const char *path)
{
	unsigned char head[2] = {0};
	struct stat info;
	FILE *file;
	bool is;

	if (stat(path, &info) != 0 || !S_ISREG(info.st_mode))
		return false;
	file = fopen(path, "re");
	is = file && fread(head, 1, 2, file) == 2 &&
	     (head[0] == 0x0a || head[0] == '{' || head[0] == '[' ||
	      (head[0] == 0x1f && head[1] == 0x8b));
	if (file)
		(void)fclose(file);
	return is;
}

static int make_trace(const struct view_arguments *arguments, struct shown *shown)
{
	const char *temporary = getenv("TMPDIR");
	struct trace_request request = {.format = TRACE_PERFETTO,
					.options = {.compress = EXPORT_COMPRESS_DEFLATE}};
	struct model *model = input_open(&arguments->input);
	int error;

	if (!model)
		return -ENOENT;
	(void)snprintf(shown->directory, sizeof(shown->directory), "%.4000s/waylay-view-XXXXXX",
		       temporary && *temporary ? temporary : "/tmp");
	if (!mkdtemp(shown->directory)) {
		say("making a directory for the trace, %s: %s; set TMPDIR", shown->directory,
		    strerror(errno));
		*shown->directory = '\0';
		model_close(model);
		return -EIO;
	}
	(void)snprintf(shown->path, sizeof(shown->path), "%.4060s/waylay.pftrace",
		       shown->directory);
	request.path = shown->path;
	error = trace_write(model, &request, NULL);
	if (!error)
		shown->commands = view_commands(model);
	model_close(model);
	return error;
}

static void shown_done(struct shown *shown)
{
	free(shown->commands);
	if (!*shown->directory)
		return;
	(void)unlink(shown->path);
	(void)rmdir(shown->directory);
}

/* --- the link --------------------------------------------------------------------------------- */

/* As a part of an address; the caller's to free. NULL when memory is short. */
static char *escaped(const char *from)
{
	static const char plain[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~";
	char *text = malloc(3 * strlen(from) + 1), *to = text;

	for (; text && *from; from++)
		if (strchr(plain, *from))
			*to++ = *from;
		else
			to += sprintf(to, "%%%02X", (unsigned char)*from);
	if (text)
		*to = '\0';
	return text;
}

/* path: of the trace at our server; NULL: the UI asks trace_processor's. The caller's to free. */
static char *link_make(const struct view_arguments *arguments, const char *commands,
		       const char *path, uint16_t port)
{
	char *text = commands ? escaped(commands) : NULL, *link = NULL;
	char from[700] = "";
	int length;

	if (path)
		(void)snprintf(from, sizeof(from), "url=http://127.0.0.1:%u%s&", port, path);
	else if (port != PORT)
		(void)snprintf(from, sizeof(from), "rpc_port=%u&", port);
	length = asprintf(&link, "%s/#!/?%sreferrer=waylay%s%s", arguments->ui, from,
			  text ? "&startupCommands=" : "", text ? text : "");
	free(text);
	return length < 0 ? NULL : link;
}

/* The link's origin: "https://ui.perfetto.dev" of "https://ui.perfetto.dev/v1/". */
static void origin_of(const char *ui, char *origin, size_t size)
{
	const char *host = strstr(ui, "//") + 2;

	(void)snprintf(origin, size, "%.*s", (int)(host - ui + (long)strcspn(host, "/#?")), ui);
}

/* --- the browser ------------------------------------------------------------------------------ */

/* Starts it in a session of its own; false when there is none to start. */
static bool browser_start(const char *link)
{
	const char *browser = getenv("BROWSER");
	pid_t pid;
	int status;

	if ((!getenv("DISPLAY") && !getenv("WAYLAND_DISPLAY") && !(browser && *browser)) ||
	    getenv("SSH_CONNECTION"))
		return false;
	pid = fork();
	if (pid == 0) {
		int null = open("/dev/null", O_RDWR | O_CLOEXEC);
		sigset_t none;

		(void)sigemptyset(&none);
		(void)sigprocmask(SIG_SETMASK, &none, NULL);
		if (null >= 0) {
			(void)dup2(null, 0);
			(void)dup2(null, 1);
			(void)dup2(null, 2);
		}
		if (setsid() < 0 || fork() != 0)
			_exit(0);
		if (browser && *browser)
			(void)execlp(browser, browser, link, (char *)NULL);
		(void)execlp("xdg-open", "xdg-open", link, (char *)NULL);
		_exit(127);
	}
	return pid > 0 && waitpid(pid, &status, 0) == pid;
}

static void say_how(const struct view_arguments *arguments, const char *link, uint16_t port)
{
	bool opened = !arguments->no_open && browser_start(link);
	char host[256] = "HOST";

	if (opened)
		say("opened in the browser; if nothing shows there, open this:");
	else if (arguments->no_open)
		say("open this in a browser on this machine:");
	else
		say("no browser to start here; open this in one:");
	(void)printf("%s\n", link);
	(void)fflush(stdout);
	say("the browser may ask whether the page may access other apps and services on this device "
	    "(or the local network): allow it, that is how the page reads the trace from here");
	if (!getenv("SSH_CONNECTION"))
		return;
	(void)gethostname(host, sizeof(host) - 1);
	say("from where you came by ssh, first run: ssh -N -L %u:127.0.0.1:%u %s", port, port,
	    host);
}

static void say_large(const char *path)
{
	struct stat info;
	char size[24];

	if (stat(path, &info) != 0 || info.st_size < LARGE_BYTES)
		return;
	say("%s is %s, which browsers do not hold; %s, or make it smaller (waylay export --max-size)",
	    path, words_bytes((uint64_t)info.st_size, size),
	    processor_find() ? "end this (^C) and run it with --server"
			     : "with trace_processor_shell from perfetto.dev in PATH, waylay view "
			       "--server shows it");
}

/* --- serving ---------------------------------------------------------------------------------- */

static void log_request(const char *method, const char *path, const char *origin, unsigned status)
{
	say("%u %s %s%s%s", status, method, path, *origin ? " from " : "", origin);
}

static sigset_t view_signals;
static void signals_block(void)
{
	(void)sigemptyset(&view_signals);
	(void)sigaddset(&view_signals, SIGINT);
	(void)sigaddset(&view_signals, SIGTERM);
	(void)sigaddset(&view_signals, SIGHUP);
	(void)sigprocmask(SIG_BLOCK, &view_signals, NULL);
	(void)signal(SIGPIPE, SIG_IGN);
}

/* Until the file was given, a signal, or too long. The exit status. */
static int serve(struct view_server *server, const sigset_t *signals, uint64_t wait_ns)
{
	struct pollfd waits[2] = {{.fd = view_server_done(server), .events = POLLIN},
				  {.fd = signalfd(-1, signals, SFD_CLOEXEC), .events = POLLIN}};
	struct signalfd_siginfo info = {0};
	int status = EXIT_HOLDS, ready = poll(waits, 2, (int)(wait_ns / 1000000));

	if (ready == 0) {
		say("no browser came for the trace; if one was there, see whether it blocks the page from "
		    "this device (in its settings for the site), or open the trace by hand");
		status = EXIT_EXCEEDED;
	} else if (waits[1].revents && read(waits[1].fd, &info, sizeof(info)) == sizeof(info)) {
		status = 128 + (int)info.ssi_signo;
	}
	if (waits[1].fd >= 0)
		(void)close(waits[1].fd);
	return status;
}

/* trace_processor's server, until a signal ends it. */
static int view_by_processor(const struct view_arguments *arguments, const struct shown *shown)
{
	uint16_t port = (uint16_t)(arguments->port ? arguments->port : PORT);
	char origin[256], err[512], *link;
	struct processor processor;
	int status;

	origin_of(arguments->ui, origin, sizeof(origin));
	signals_block();
	if (processor_start(&processor, shown->path, origin, port, err, sizeof(err)) != 0) {
		say("%s", err);
		return EXIT_EXCEEDED;
	}
	link = link_make(arguments, shown->commands, NULL, port);
	if (link) {
		say_how(arguments, link, port);
		say("in the page choose the loaded trace; ^C here ends the server");
	}
	free(link);
	status = processor_wait(&processor, &view_signals);
	return status;
}

static int view(const struct view_arguments *arguments, const struct shown *shown)
{
	const char *slash = strrchr(shown->path, '/');
	char path[512], name[300], origin[256], err[512], *link;
	struct view_offer offer = {.file = shown->path,
				   .path = path,
				   .origin = origin,
				   .port = (uint16_t)arguments->port,
				   .log = arguments->verbose ? log_request : NULL};
	struct view_server *server;
	unsigned char token[8];
	int status;

	origin_of(arguments->ui, origin, sizeof(origin));
	/* Others on this machine cannot guess what to ask for. */
	if (getrandom(token, sizeof(token), 0) != (ssize_t)sizeof(token)) {
		say("no random numbers to be had: %s", strerror(errno));
		return EXIT_EXCEEDED;
	}
	/* Letters alone: servers and browsers need not agree on others. */
	(void)snprintf(name, sizeof(name), "%.250s", slash ? slash + 1 : shown->path);
	for (char *c = name; *c; c++)
		if (!strchr("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._",
			    *c))
			*c = '_';
	(void)snprintf(path, sizeof(path), "/%02x%02x%02x%02x%02x%02x%02x%02x/%s", token[0],
		       token[1], token[2], token[3], token[4], token[5], token[6], token[7], name);
	/* Before there are threads, so that none of them takes these. */
	signals_block();
	if (view_server_start(&offer, &server, err, sizeof(err)) != 0) {
		say("%s", err);
		return EXIT_EXCEEDED;
	}
	link = link_make(arguments, shown->commands, path, view_server_port(server));
	status = EXIT_EXCEEDED;
	if (link) {
		say_how(arguments, link, view_server_port(server));
		status = serve(server, &view_signals, arguments->wait_ns);
	}
	free(link);
	view_server_stop(server);
	return status;
}

static volatile sig_atomic_t stopped;
static void stop(int number)
{
	stopped = number;
}

/* While the trace is made, a signal ends that, and then what was made is taken away. */
static void signals_take(void (*how)(int))
{
	static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};
	struct sigaction action = {.sa_handler = how}, before;

	(void)sigemptyset(&action.sa_mask);
	for (unsigned i = 0; i < 3; i++)
		if (sigaction(numbers[i], NULL, &before) == 0 && before.sa_handler != SIG_IGN)
			(void)sigaction(numbers[i], &action, NULL);
}

int cmd_view(int argc, char **argv)
{
	struct view_arguments arguments = {.ui = UI, .port = PORT, .wait_ns = 600000000000u};
	const struct command_line line = {
		.name = "waylay view",
		.operands = "[TRACE|DIR|FILE...]",
		.what = "Opens a trace in the Perfetto UI. The browser fetches it from this machine, "
			"once; nothing is sent anywhere.",
		.more = "DIR defaults to $WAYLAY_DIR, else waylay-out; recordings are exported first.\n\n"
			"Examples:\n"
			"  waylay view\n"
			"  waylay view --no-open waylay-out/train.pftrace",
		.mistake_status = EXIT_USAGE,
		.group_count = 2,
		.groups = {{NULL, rows, sizeof(rows) / sizeof(rows[0]), take, &arguments, NULL},
			   input_options(&arguments.input)},
	};
	struct shown shown = {0};
	int status = EXIT_EXCEEDED;

	input_operands(&arguments.input, argc, argv, options_parse(&line, argc, argv));
	if (arguments.input.path_count == 1 && is_trace(arguments.input.paths[0])) {
		(void)snprintf(shown.path, sizeof(shown.path), "%.4090s", arguments.input.paths[0]);
		shown.commands = view_commands(NULL);
		status = EXIT_HOLDS;
	} else {
		signals_take(stop);
		if (make_trace(&arguments, &shown) == 0)
			status = EXIT_HOLDS;
		signals_take(SIG_DFL);
	}
	if (stopped)
		status = 128 + stopped;
	if (status == EXIT_HOLDS) {
		if (arguments.server) {
			status = view_by_processor(&arguments, &shown);
		} else {
			say_large(shown.path);
			status = view(&arguments, &shown);
		}
	}
	shown_done(&shown);
	return status;
}
