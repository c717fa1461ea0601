/* SPDX-License-Identifier: Apache-2.0
 *
 * trace_processor_shell is started, waited for, and ended with this process: its server has no end of its own.
 */
#include "viewers/view_processor.h"

#include "viewers/viewers.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* In PATH, into found. */
static bool in_path(const char *name, char *found, size_t size)
{
	const char *path = getenv("PATH");

	for (const char *next; path && *path; path = next) {
		size_t length = strcspn(path, ":");

		next = path + length + (path[length] == ':');
		(void)snprintf(found, size, "%.*s/%s", (int)length, path, name);
		if (length && access(found, X_OK) == 0)
			return true;
	}
	return false;
}

const char *processor_find(void)
{
	static char found[PATH_MAX];
	const char *named = getenv("TRACE_PROCESSOR");

	if (named && *named)
		return access(named, X_OK) == 0 ? named : NULL;
	if (in_path("trace_processor_shell", found, sizeof(found)) ||
	    in_path("trace_processor", found, sizeof(found)))
		return found;
	return NULL;
}

int processor_start(struct processor *processor, const char *trace, const char *origin,
		    uint16_t port, char *err, size_t err_size)
{
	const char *program = processor_find();
	char number[8];
	pid_t parent = getpid();

	if (!program) {
		(void)snprintf(
			err, err_size,
			"--server needs trace_processor_shell, which is neither in PATH nor named by "
			"TRACE_PROCESSOR; perfetto.dev has it");
		return -ENOENT;
	}
	(void)snprintf(number, sizeof(number), "%u", port);
	processor->pid = fork();
	if (processor->pid == 0) {
		sigset_t none;

		/* Not left behind, however this command ends. */
		if (prctl(PR_SET_PDEATHSIG, SIGTERM) != 0 || getppid() != parent)
			_exit(127);
		(void)sigemptyset(&none);
		(void)sigprocmask(SIG_SETMASK, &none, NULL);
		(void)dup2(STDERR_FILENO, STDOUT_FILENO);
		/* In the words that old and new ones understand. */
		(void)execl(program, program, "--httpd", "--http-port", number, "--http-ip-address",
			    "127.0.0.1", "--http-additional-cors-origins", origin, trace,
			    (char *)NULL);
		_exit(127);
	}
	processor->end = processor->pid > 0 ? (int)syscall(SYS_pidfd_open, processor->pid, 0) : -1;
	if (processor->end >= 0)
		return 0;
	(void)snprintf(err, err_size, "starting %s: %s", program, strerror(errno));
	if (processor->pid > 0) {
		(void)kill(processor->pid, SIGTERM);
		(void)waitpid(processor->pid, NULL, 0);
	}
	return -EIO;
}

int processor_wait(struct processor *processor, const sigset_t *signals)
{
	struct pollfd waits[2] = {{.fd = processor->end, .events = POLLIN},
				  {.fd = signalfd(-1, signals, SFD_CLOEXEC), .events = POLLIN}};
	struct signalfd_siginfo info = {0};
	int status = 0, result = EXIT_HOLDS;

	while (poll(waits, 2, -1) < 0 && errno == EINTR)
		;
	if (waits[1].revents && read(waits[1].fd, &info, sizeof(info)) == sizeof(info)) {
		(void)kill(processor->pid, SIGTERM);
		result = 128 + (int)info.ssi_signo;
	}
	(void)waitpid(processor->pid, &status, 0);
	if (result == EXIT_HOLDS && !(WIFEXITED(status) && WEXITSTATUS(status) == 0)) {
		say("trace_processor's server ended by itself; its own words are above");
		result = EXIT_EXCEEDED;
	}
	(void)close(processor->end);
	if (waits[1].fd >= 0)
		(void)close(waits[1].fd);
	return result;
}
