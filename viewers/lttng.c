/* SPDX-License-Identifier: Apache-2.0
 *
 * LTTng sessions by the commands of lttng-tools, each with a time limit: a daemon that hangs must not
 * hold the job. Buffers are a process's own, since those shared between processes may wedge for all when
 * one of them is killed.
 */
#include "viewers/lttng.h"
#include "viewers/viewers.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

#define PROBE_MS   5000  /* is anybody there */
#define COMMAND_MS 20000 /* creating, starting */
#define DAEMON_MS  20000
#define STOP_MS    60000 /* waits until the buffers have been written */
#define LOCK_MS    60000
#define WORDS_MAX  16
#define LIVE_US    "1000000" /* how late a watcher of a relayed session sees what happens */

/* --- commands with a time limit --------------------------------------------------------------- */

static int64_t now_ms(void)
{
	struct timespec ts;

	(void)clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

/* What it says, the last line of it, goes to words. -ETIME when it was killed for taking too long. */
static int await(pid_t pid, int from, int limit_ms, char *words, size_t words_size)
{
	int64_t until = now_ms() + limit_ms;
	char text[4096];
	size_t used = 0;
	int status, left;
	char *last;

	for (;;) {
		struct pollfd ready = {.fd = from, .events = POLLIN};
		ssize_t n;

		left = (int)(until - now_ms());
		if (left <= 0 || poll(&ready, 1, left) == 0) {
			(void)kill(pid, SIGKILL);
			(void)waitpid(pid, &status, 0);
			return -ETIME;
		}
		n = read(from, text + used, sizeof(text) - 1 - used);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			break;
		used = used + (size_t)n < sizeof(text) - 1024 ? used + (size_t)n : 0;
	}
	text[used] = '\0';
	while (used && text[used - 1] == '\n')
		text[--used] = '\0';
	last = strrchr(text, '\n');
	(void)snprintf(words, words_size, "%.200s", last ? last + 1 : text);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return WIFEXITED(status) ? WEXITSTATUS(status) : -EINTR;
}

/* The exit status, or -errno when it could not be run. */
static int command(int limit_ms, char *words, size_t words_size, const char *const *argv)
{
	posix_spawn_file_actions_t actions;
	int pipe_fd[2], rc;
	pid_t pid;

	*words = '\0';
	if (pipe2(pipe_fd, O_CLOEXEC) != 0)
		return -errno;
	(void)posix_spawn_file_actions_init(&actions);
	(void)posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
	(void)posix_spawn_file_actions_adddup2(&actions, pipe_fd[1], 1);
	(void)posix_spawn_file_actions_adddup2(&actions, pipe_fd[1], 2);
#if __GLIBC_PREREQ(2, 34)
	/* Locks and pipes of whoever started us are no business of a daemon's. */
	(void)posix_spawn_file_actions_addclosefrom_np(&actions, 3);
#endif
	rc = -posix_spawnp(&pid, argv[0], &actions, NULL, (char *const *)argv, environ);
	(void)posix_spawn_file_actions_destroy(&actions);
	(void)close(pipe_fd[1]);
	if (!rc)
		rc = await(pid, pipe_fd[0], limit_ms, words, words_size);
	(void)close(pipe_fd[0]);
	return rc;
}

#define LTTNG(limit, words, size, ...)                                                             \
	command(limit, words, size, (const char *const[]){"lttng", __VA_ARGS__, NULL})

/* --- the parts of a session ------------------------------------------------------------------- */

/* The daemon of this user, started where there is none. Root's own serves root. */
static int daemon_ready(char *words, size_t size)
{
	static const char *const start[] = {"lttng-sessiond", "--daemonize", "--no-kernel", NULL};
	int rc = LTTNG(PROBE_MS, words, size, "--no-sessiond", "list");

	if (rc <= 0)
		return rc;
	/* Its descriptors are inherited by the daemon, so what it says is not waited for. */
	return command(DAEMON_MS, words, size, start);
}

/* HOST, HOST:PORT, [IPV6]:PORT -> net://HOST:PORT:PORT+1 */
static void relay_url(const char *relay, char *url, size_t size)
{
	int host = 0;
	unsigned port = 0;

	/* The settings were checked when they were read. */
	(void)wl_relay_parse(relay, &host, &port);
	(void)snprintf(url, size, "net://%.*s:%u:%u", host, relay, port, port + 1);
}

static int create(const struct lttng_session *s, const struct wl_settings *settings, char *words,
		  size_t size)
{
	char where[PATH_MAX + 32];

	if (!*settings->relay)
		(void)snprintf(where, sizeof(where), "--output=%s", s->output);
	else
		(void)snprintf(where, sizeof(where), "--set-url=%s", s->output);
	if (!*settings->relay)
		return LTTNG(COMMAND_MS, words, size, "--no-sessiond", "create", s->name, where);
	/* What a relay daemon receives can be watched meanwhile. */
	return LTTNG(COMMAND_MS, words, size, "--no-sessiond", "create", s->name, where,
		     "--live=" LIVE_US);
}

static int enable_channel(const struct lttng_session *s, const struct wl_settings *settings,
			  const char *buffers, char *words, size_t size)
{
	const char *policy = settings->block ? "--blocking-timeout=inf" : "--discard";
	char subbuf[48];

	(void)snprintf(subbuf, sizeof(subbuf), "--subbuf-size=%llu",
		       (unsigned long long)settings->subbuf);
	return LTTNG(COMMAND_MS, words, size, "--no-sessiond", "enable-channel", "--userspace",
		     "--session", s->name, buffers, subbuf, "--num-subbuf=4", policy, "waylay");
}

static int enable(const struct lttng_session *s, const struct wl_settings *settings, char *words,
		  size_t size)
{
	int rc = enable_channel(s, settings, "--buffers-pid", words, size);

	/* All channels of a session have the same kind of buffers. */
	if (rc > 0 && !s->own)
		rc = enable_channel(s, settings, "--buffers-uid", words, size);
	if (rc == 0 || (rc > 0 && !s->own)) /* it may be there already */
		rc = LTTNG(COMMAND_MS, words, size, "--no-sessiond", "enable-event", "--userspace",
			   "--session", s->name, "--channel", "waylay", "waylay:*");
	/* A session that has run once takes no more channels. */
	if (rc > 0 && !s->own)
		rc = LTTNG(COMMAND_MS, words, size, "--no-sessiond", "enable-event", "--userspace",
			   "--session", s->name, "waylay:*");
	/* Whether our events are enabled, by us or others, the job finds out. */
	return rc > 0 && !s->own ? 0 : rc;
}

static int start(const struct lttng_session *s, char *words, size_t size)
{
	int rc = LTTNG(COMMAND_MS, words, size, "--no-sessiond", "start", s->name);

	/* one that was joined is mostly running */
	return rc > 0 && !s->own ? 0 : rc;
}

static void destroy(const struct lttng_session *s)
{
	char words[256];
	int rc = LTTNG(STOP_MS, words, sizeof(words), "--no-sessiond", "stop", s->name);

	if (rc == 0)
		rc = LTTNG(STOP_MS, words, sizeof(words), "--no-sessiond", "destroy", s->name);
	if (rc == 0)
		return;
	say("ending the LTTng session %s: %s; what it had written is kept", s->name,
	    rc == -ETIME ? "its daemon does not answer"
	    : rc < 0     ? strerror(-rc)
			 : words);
	/* With the daemon gone there is nobody to ask. */
	(void)LTTNG(COMMAND_MS, words, sizeof(words), "--no-sessiond", "destroy", "--no-wait",
		    s->name);
}

/* --- one session for all ranks of a host ------------------------------------------------------ */

static bool lock_wait(int fd, int how, int limit_ms)
{
	const struct timespec pause = {.tv_nsec = 10000000};
	int64_t until = now_ms() + limit_ms;

	while (flock(fd, how | LOCK_NB) != 0) {
		if ((errno != EWOULDBLOCK && errno != EINTR) || now_ms() > until)
			return false;
		(void)nanosleep(&pause, NULL);
	}
	return true;
}

/* Locked alone while the session is being made or ended; shared while it is used. */
static bool lock_open(struct lttng_session *s)
{
	s->lock_fd = open(s->lock, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	return s->lock_fd >= 0 && lock_wait(s->lock_fd, LOCK_EX, LOCK_MS);
}

static void name_clean(char *name)
{
	for (; *name; name++)
		if (!strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.",
			    *name))
			*name = '_';
}

static bool names_make(struct lttng_session *s, const struct wl_settings *settings,
		       const char *directory, const char *run)
{
	char host[65] = "localhost";
	int n;

	(void)gethostname(host, sizeof(host) - 1);
	if (*settings->session)
		(void)snprintf(s->name, sizeof(s->name), "%s", settings->session);
	else
		(void)snprintf(s->name, sizeof(s->name), "waylay-%.100s-%s", run, host);
	name_clean(s->name);
	if (*settings->relay) {
		relay_url(settings->relay, s->output, sizeof(s->output));
	} else {
		n = snprintf(s->output, sizeof(s->output), "%s/lttng-%s", directory,
			     s->name + (strncmp(s->name, "waylay-", 7) == 0 ? 7 : 0));
		if (n < 0 || (size_t)n >= sizeof(s->output))
			return false;
	}
	n = snprintf(s->lock, sizeof(s->lock), "%s/.%s.lock", directory, s->name);
	return n > 0 && (size_t)n < sizeof(s->lock);
}

/* Made by whoever comes first; 0 or what the failing command said. */
static int session_make(struct lttng_session *s, const struct wl_settings *settings, char *words,
			size_t size, const char **doing)
{
	int rc;

	*doing = "starting LTTng's daemon";
	rc = daemon_ready(words, size);
	if (rc)
		return rc;
	*doing = "looking for the session";
	rc = LTTNG(COMMAND_MS, words, size, "--no-sessiond", "list", s->name);
	s->own = !*settings->session;
	if (rc < 0 || (rc > 0 && !s->own))
		return rc;
	if (rc == 0 && s->own)
		return 0; /* another rank's, complete since it held the lock */
	if (rc > 0) {
		*doing = "creating a session";
		rc = create(s, settings, words, size);
	}
	if (!rc) {
		*doing = "enabling Waylay's events";
		rc = enable(s, settings, words, size);
	}
	if (!rc) {
		*doing = "starting the session";
		rc = start(s, words, size);
	}
	return rc;
}

static void say_why(const struct lttng_session *s, const char *doing, int rc, const char *words)
{
	say("--sink=lttng: %s (%s): %s; recording to the spool instead", doing, s->name,
	    rc == -ENOENT  ? "lttng-tools is not installed"
	    : rc == -ETIME ? "the daemon does not answer"
	    : rc < 0       ? strerror(-rc)
	    : *words       ? words
			   : "it failed");
}

bool lttng_begin(struct lttng_session *s, const struct wl_settings *settings, const char *directory,
		 const char *run)
{
	char words[256] = "";
	const char *doing = "";
	int rc;

	memset(s, 0, sizeof(*s));
	s->lock_fd = -1;
	if (!names_make(s, settings, directory, run))
		return false;
	if (!lock_open(s)) {
		say("--sink=lttng: locking %s: %s; recording to the spool instead", s->lock,
		    strerror(errno));
		return false;
	}
	rc = session_make(s, settings, words, sizeof(words), &doing);
	if (rc) {
		say_why(s, doing, rc, words);
		if (s->own)
			(void)LTTNG(COMMAND_MS, words, sizeof(words), "--no-sessiond", "destroy",
				    "--no-wait", s->name);
		(void)close(s->lock_fd);
		return false;
	}
	(void)flock(s->lock_fd, LOCK_SH);
	s->open = true;
	return true;
}

void lttng_end(struct lttng_session *s)
{
	if (!s->open)
		return;
	s->open = false;
	/* Nobody else uses it when the lock can be had alone. */
	if (s->own && flock(s->lock_fd, LOCK_EX | LOCK_NB) == 0) {
		destroy(s);
		(void)unlink(s->lock);
	}
	(void)close(s->lock_fd);
}
