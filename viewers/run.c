/* SPDX-License-Identifier: Apache-2.0
 *
 * Starting the job: it keeps its standard streams, its process group and its signals; this process
 * only waits and passes on what was sent to it alone.
 */
#include "viewers/run.h"
#include "viewers/viewers.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static int start_failure(const char *command, int error)
{
	if (error == ENOENT && strchr(command, '/') && access(command, F_OK) == 0) {
		say("starting '%s': it is there, but the interpreter in its first line is not",
		    command);
		return EXIT_RUN_MISSING;
	}
	if (error == ENOENT) {
		say("starting '%s': there is no such command; check its name and PATH", command);
		return EXIT_RUN_MISSING;
	}
	say("starting '%s': %s; check that it is a program that may be executed", command,
	    strerror(error));
	return EXIT_RUN_REFUSED;
}

int run_become(char *const *command)
{
	(void)execvp(command[0], command);
	return start_failure(command[0], errno);
}

/* --- signals ---------------------------------------------------------------------------------- */

static const int passed[] = {SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2};
#define PASSED (sizeof(passed) / sizeof(passed[0]))

static volatile sig_atomic_t child_pid;

/* What the kernel sends (^C, a closed terminal) the job has got too, as one of the foreground group:
 * it decides what that means. What someone sends to this process alone is meant for the job. */
static void pass_on(int number, siginfo_t *info, void *context)
{
	int saved = errno;

	(void)context;
	if (child_pid > 0 && info->si_code <= 0 && info->si_pid != (pid_t)child_pid)
		(void)kill((pid_t)child_pid, number);
	errno = saved;
}

static void signals_block(sigset_t *before)
{
	sigset_t set;

	(void)sigemptyset(&set);
	for (unsigned i = 0; i < PASSED; i++)
		(void)sigaddset(&set, passed[i]);
	(void)sigprocmask(SIG_BLOCK, &set, before);
}

static void signals_take(struct sigaction *before)
{
	struct sigaction action = {.sa_sigaction = pass_on, .sa_flags = SA_RESTART | SA_SIGINFO};

	(void)sigemptyset(&action.sa_mask);
	for (unsigned i = 0; i < PASSED; i++)
		(void)sigaction(passed[i], &action, &before[i]);
}

static void signals_give_back(const struct sigaction *before)
{
	for (unsigned i = 0; i < PASSED; i++)
		(void)sigaction(passed[i], &before[i], NULL);
}

/* --- the child -------------------------------------------------------------------------------- */

/* In the child: signal dispositions are those this process was started with, now the mask too. */
static void become_job(char *const *command, int report, const sigset_t *mask)
{
	int error;

	(void)sigprocmask(SIG_SETMASK, mask, NULL);
	(void)execvp(command[0], command);
	error = errno;
	while (write(report, &error, sizeof(error)) < 0 && errno == EINTR)
		;
	_exit(127);
}

static int wait_for(pid_t child)
{
	siginfo_t info;
	int status;

	/* Not reaped yet: its number stays its own until no signal is passed on any more. */
	while (waitid(P_PID, (id_t)child, &info, WEXITED | WNOWAIT) < 0 && errno == EINTR)
		;
	child_pid = 0;
	while (waitpid(child, &status, 0) < 0)
		if (errno != EINTR)
			return -EXIT_RUN_FAILED;
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

/* The pipe closes when the job has begun; a number in it is why it has not. 0: it has begun. */
static int why_not(int report)
{
	int error = 0;
	ssize_t got;

	do
		got = read(report, &error, sizeof(error));
	while (got < 0 && errno == EINTR);
	return got == (ssize_t)sizeof(error) ? error : 0;
}

int run_child(char *const *command)
{
	struct sigaction before[PASSED];
	int report[2], error, status;
	sigset_t mask;
	pid_t child;

	if (pipe2(report, O_CLOEXEC) != 0) {
		say("starting '%s': %s", command[0], strerror(errno));
		return -EXIT_RUN_FAILED;
	}
	/* No signal ends this process between the job's start and the moment it is passed on. */
	signals_block(&mask);
	child = fork();
	if (child == 0)
		become_job(command, report[1], &mask);
	error = errno;
	(void)close(report[1]);
	child_pid = child;
	if (child > 0)
		signals_take(before);
	(void)sigprocmask(SIG_SETMASK, &mask, NULL);
	if (child < 0) {
		say("starting '%s': %s", command[0], strerror(error));
		(void)close(report[0]);
		return -EXIT_RUN_FAILED;
	}
	error = why_not(report[0]);
	(void)close(report[0]);
	status = wait_for(child);
	signals_give_back(before);
	return error ? -start_failure(command[0], error) : status;
}

/* --- names ------------------------------------------------------------------------------------ */

void run_name_of_launcher(char *buf, size_t size)
{
	/* torchrun says "none" when it was given no name. */
	static const char *const jobs[] = {"TORCHELASTIC_RUN_ID", "PMIX_NAMESPACE",
					   "OMPI_MCA_ess_base_jobid", "PMI_JOBID", "PALS_APID"};
	const char *job = NULL, *step = getenv("SLURM_STEP_ID");

	for (unsigned i = 0; i < sizeof(jobs) / sizeof(jobs[0]); i++) {
		job = getenv(jobs[i]);
		if (job && *job && strcmp(job, "none") != 0) {
			(void)snprintf(buf, size, "%s", job);
			return;
		}
	}
	job = getenv("SLURM_JOB_ID");
	if (job && step)
		(void)snprintf(buf, size, "%s.%s", job, step);
	else
		*buf = '\0';
}

void run_name_new(char *buf, size_t size)
{
	struct timespec now;
	struct tm utc;
	size_t used;

	(void)clock_gettime(CLOCK_REALTIME, &now);
	(void)gmtime_r(&now.tv_sec, &utc);
	used = strftime(buf, size, "%Y%m%dT%H%M%S", &utc);
	(void)snprintf(buf + used, size - used, "-%d", (int)getpid());
}

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* An interpreter's script or module names the job better than the interpreter. */
static const char *python_name(char *const *arguments)
{
	for (; *arguments; arguments++) {
		size_t length = strlen(*arguments);

		if (strcmp(*arguments, "-m") == 0 && arguments[1]) {
			const char *dot = strrchr(arguments[1], '.');

			return dot ? dot + 1 : arguments[1];
		}
		if (length > 3 && strcmp(*arguments + length - 3, ".py") == 0)
			return base_name(*arguments);
	}
	return NULL;
}

void run_trace_name(char *const *command, char *buf, size_t size)
{
	const char *base = base_name(command[0]), *script = NULL, *dot;
	int length;

	if (strncmp(base, "python", 6) == 0)
		script = python_name(command + 1);
	if (script)
		base = script;
	dot = strrchr(base, '.');
	length = (int)(dot && dot != base ? (size_t)(dot - base) : strlen(base));
	(void)snprintf(buf, size, "%.*s.pftrace", length, base);
}

int run_make_directory(const char *path)
{
	char part[PATH_MAX];
	size_t length = strlen(path);

	if (!length || length >= sizeof(part))
		return length ? -ENAMETOOLONG : -ENOENT;
	for (size_t i = 1; i <= length; i++) {
		if (path[i] != '/' && path[i] != '\0')
			continue;
		memcpy(part, path, i);
		part[i] = '\0';
		if (mkdir(part, 0700) != 0 && errno != EEXIST) {
			int error = errno;
			struct stat is;

			/* On a read-only file system also what exists is refused. */
			if (stat(part, &is) != 0)
				return -error;
		}
	}
	return 0;
}
