/* SPDX-License-Identifier: Apache-2.0
 *
 * Starting the job: it keeps its standard streams, its process group and its signals; this process
 * only waits and passes on what was sent to it alone.
 */
#include "viewers/run.h"
#include "viewers/viewers.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static int start_failure(const char *command, int error)
{
	if (error == ENOENT) {
		say("there is no command '%s'", command);
		return EXIT_RUN_MISSING;
	}
	say("starting '%s': %s", command, strerror(error));
	return EXIT_RUN_REFUSED;
}

int run_become(char *const *command)
{
	(void)execvp(command[0], command);
	return start_failure(command[0], errno);
}

static volatile sig_atomic_t child_pid;

static void pass_on(int signal_number)
{
	int saved = errno;

	if (child_pid > 0)
		(void)kill((pid_t)child_pid, signal_number);
	errno = saved;
}

/* The terminal sends ^C to the whole group: the job decides what it means. What is sent to this
 * process alone is passed on. */
static void signals_prepare(void)
{
	static const int passed[] = {SIGTERM, SIGHUP, SIGUSR1, SIGUSR2};
	struct sigaction action = {.sa_handler = pass_on, .sa_flags = SA_RESTART};

	(void)sigemptyset(&action.sa_mask);
	for (unsigned i = 0; i < sizeof(passed) / sizeof(passed[0]); i++)
		(void)sigaction(passed[i], &action, NULL);
	(void)signal(SIGINT, SIG_IGN);
	(void)signal(SIGQUIT, SIG_IGN);
}

/* In the child: the dispositions the job would have had without us. */
static void become_job(char *const *command, int report, const struct sigaction *before)
{
	(void)sigaction(SIGINT, &before[0], NULL);
	(void)sigaction(SIGQUIT, &before[1], NULL);
	(void)execvp(command[0], command);
	int error = errno;

	while (write(report, &error, sizeof(error)) < 0 && errno == EINTR)
		;
	_exit(127);
}

static int wait_for(pid_t child)
{
	int status;

	while (waitpid(child, &status, 0) < 0)
		if (errno != EINTR)
			return EXIT_RUN_FAILED;
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

int run_child(char *const *command)
{
	struct sigaction before[2];
	int report[2], error = 0;
	ssize_t got;
	pid_t child;

	if (pipe2(report, O_CLOEXEC) != 0) {
		say("starting '%s': %s", command[0], strerror(errno));
		return -EXIT_RUN_FAILED;
	}
	(void)sigaction(SIGINT, NULL, &before[0]);
	(void)sigaction(SIGQUIT, NULL, &before[1]);
	child = fork();
	if (child == 0) {
		(void)close(report[0]);
		become_job(command, report[1], before);
	}
	(void)close(report[1]);
	if (child < 0) {
		say("starting '%s': %s", command[0], strerror(errno));
		(void)close(report[0]);
		return -EXIT_RUN_FAILED;
	}
	child_pid = child;
	signals_prepare();
	/* The pipe closes when the job has begun; a number in it is why it has not. */
	do
		got = read(report[0], &error, sizeof(error));
	while (got < 0 && errno == EINTR);
	(void)close(report[0]);
	int status = wait_for(child);

	child_pid = 0;
	return got == (ssize_t)sizeof(error) ? -start_failure(command[0], error) : status;
}

void run_identifier(char *buf, size_t size)
{
	static const char *const jobs[] = {
		"TORCHELASTIC_RUN_ID", "PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid",
		"PMI_JOBID",           "PALS_APID",      "SLURM_JOB_ID"};
	const char *step = getenv("SLURM_STEP_ID");
	struct timespec now;
	struct tm utc;

	for (unsigned i = 0; i < sizeof(jobs) / sizeof(jobs[0]); i++) {
		const char *job = getenv(jobs[i]);

		if (!job || !*job || strcmp(job, "none") == 0)
			continue;
		(void)snprintf(buf, size, "%s%s%s", job, step ? "." : "", step ? step : "");
		return;
	}
	(void)clock_gettime(CLOCK_REALTIME, &now);
	(void)gmtime_r(&now.tv_sec, &utc);
	size_t used = strftime(buf, size, "%Y%m%dT%H%M%S", &utc);

	(void)snprintf(buf + used, size - used, "-%d", (int)getpid());
}

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

void run_trace_name(char *const *command, char *buf, size_t size)
{
	const char *base = base_name(command[0]);

	/* An interpreter's script names the job better than the interpreter. */
	if (strncmp(base, "python", 6) == 0)
		for (char *const *arg = command + 1; *arg; arg++) {
			size_t length = strlen(*arg);

			if (length > 3 && strcmp(*arg + length - 3, ".py") == 0) {
				base = base_name(*arg);
				break;
			}
		}
	const char *dot = strrchr(base, '.');
	int length = (int)(dot && dot != base ? (size_t)(dot - base) : strlen(base));

	(void)snprintf(buf, size, "%.*s.pftrace", length, base);
}

/* Reads the run's identifier where the format keeps it, through the model's own reader: here only
 * whether there is any recording at all, so that its absence is not an error of the model's. */
bool run_recorded(void)
{
	const char *directory = getenv("WAYLAY_DIR");
	DIR *dir = directory ? opendir(directory) : NULL;
	bool found = false;

	if (!dir)
		return false;
	for (const struct dirent *entry; !found && (entry = readdir(dir));) {
		size_t length = strlen(entry->d_name);

		found = length > 7 && strcmp(entry->d_name + length - 7, ".wspool") == 0;
	}
	(void)closedir(dir);
	return found;
}
