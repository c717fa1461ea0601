/* SPDX-License-Identifier: Apache-2.0 */
/* Starting the ranks of --np N and standing by until the last has ended; see launch.h. */
#include "collectives/launch.h"

#include <arpa/inet.h>
#include <errno.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define STATUS_FAILED 125

struct rank_process {
	pid_t pid; /* 0 once it has ended */
};

struct family {
	struct rank_process *ranks;
	int np, running;
	int status;          /* of the first that failed */
	int64_t deadline_ns; /* when to end the rest; 0: nobody failed */
	int escalation;      /* 0: not asked yet, 1: SIGTERM sent, 2: SIGKILL sent */
};

static int64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

/* A port that nobody else can have taken by the time rank 0 needs it: it inherits the socket. */
static int listen_loopback(int *port)
{
	struct sockaddr_in addr = {.sin_family = AF_INET,
				   .sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)}};
	socklen_t len = sizeof(addr);
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	if (fd < 0)
		return -1;
	if (bind(fd, (struct sockaddr *)&addr, len) || listen(fd, SOMAXCONN) ||
	    getsockname(fd, (struct sockaddr *)&addr, &len)) {
		close(fd);
		return -1;
	}
	*port = ntohs(addr.sin_port);
	return fd;
}

static void set_number(const char *name, int value)
{
	char text[16];

	snprintf(text, sizeof(text), "%d", value);
	setenv(name, text, 1);
}

static void child_environment(int rank, int np, int port, int listen_fd)
{
	setenv("COLL_NP_CHILD", "1", 1);
	set_number("RANK", rank);
	set_number("WORLD_SIZE", np);
	set_number("LOCAL_RANK", rank);
	set_number("LOCAL_WORLD_SIZE", np);
	setenv("MASTER_ADDR", "127.0.0.1", 1);
	set_number("MASTER_PORT", port);
	unsetenv("TORCHELASTIC_USE_AGENT_STORE");
	if (rank == 0)
		set_number("COLL_NP_LISTEN_FD", listen_fd);
	else
		close(listen_fd);
}

/* The rank-th CPU of those this process may use; with fewer CPUs than ranks, none in particular. */
static void bind_cpu(int rank, int np)
{
	cpu_set_t all, one;
	int seen = 0;

	if (sched_getaffinity(0, sizeof(all), &all) || CPU_COUNT(&all) < np)
		return;
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
		if (!CPU_ISSET(cpu, &all) || seen++ != rank)
			continue;
		CPU_ZERO(&one);
		CPU_SET(cpu, &one);
		sched_setaffinity(0, sizeof(one), &one);
		return;
	}
}

static void child(const char *path, char *const argv[], const sigset_t *mask, pid_t parent)
{
	sigprocmask(SIG_SETMASK, mask, NULL);
	/* Ranks must not outlive whoever stands by for them; the parent may be gone already. */
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	if (getppid() != parent)
		_exit(STATUS_FAILED);
	execv(path, argv);
	fprintf(stderr, "%s: cannot start a rank: %s\n", argv[0], strerror(errno));
	_exit(STATUS_FAILED);
}

static void signal_all(struct family *f, int sig)
{
	for (int i = 0; i < f->np; i++) {
		if (f->ranks[i].pid)
			kill(f->ranks[i].pid, sig);
	}
}

static void reap(struct family *f, int64_t grace_ns)
{
	int status;
	pid_t pid;

	while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
		for (int i = 0; i < f->np; i++) {
			int code =
				WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);

			if (f->ranks[i].pid != pid)
				continue;
			f->ranks[i].pid = 0;
			f->running--;
			if (!code || f->status)
				continue;
			f->status = code;
			f->deadline_ns = now_ns() + grace_ns;
			if (WIFSIGNALED(status))
				fprintf(stderr, "rank %d (pid %d) was ended by signal %d (%s)\n", i,
					(int)pid, WTERMSIG(status), strsignal(WTERMSIG(status)));
		}
	}
}

/* The others had their time to notice and to say so. */
static void escalate(struct family *f)
{
	if (!f->deadline_ns || now_ns() < f->deadline_ns || f->escalation == 2)
		return;
	signal_all(f, f->escalation ? SIGKILL : SIGTERM);
	f->escalation++;
	f->deadline_ns = now_ns() + (int64_t)2 * 1000000000;
}

static void stand_by(struct family *f, const sigset_t *watched, int64_t grace_ns)
{
	const struct timespec tick = {.tv_nsec = 100 * 1000 * 1000};

	while (f->running) {
		int sig = sigtimedwait(watched, NULL, &tick);

		if (sig > 0 && sig != SIGCHLD) {
			signal_all(f, sig);
			if (!f->deadline_ns)
				f->deadline_ns = now_ns() + grace_ns;
			if (!f->status)
				f->status = 128 + sig;
		}
		reap(f, grace_ns);
		escalate(f);
	}
}

/* By its name, as the kernel names the process after what is executed; through the kernel's link
 * where the file is no longer there. */
static void own_path(char *path, size_t bytes)
{
	ssize_t n = readlink("/proc/self/exe", path, bytes - 1);

	path[n > 0 ? n : 0] = 0;
	if (access(path, X_OK))
		snprintf(path, bytes, "/proc/self/exe");
}

static int start_all(struct family *f, char *const argv[], bool bind, const sigset_t *mask,
		     char *error)
{
	pid_t parent = getpid();
	char path[PATH_MAX];
	int port, fd = listen_loopback(&port);

	if (fd < 0) {
		snprintf(error, LAUNCH_ERROR_BYTES, "cannot listen on 127.0.0.1 for the ranks: %s",
			 strerror(errno));
		return -1;
	}
	own_path(path, sizeof(path));
	fflush(NULL);
	for (int i = 0; i < f->np; i++) {
		pid_t pid = fork();

		if (pid == 0) {
			child_environment(i, f->np, port, fd);
			if (bind)
				bind_cpu(i, f->np);
			child(path, argv, mask, parent);
		}
		if (pid < 0) {
			snprintf(error, LAUNCH_ERROR_BYTES, "cannot start rank %d of %d: %s", i,
				 f->np, strerror(errno));
			close(fd);
			return -1;
		}
		f->ranks[i].pid = pid;
		f->running++;
	}
	close(fd);
	return 0;
}

int launch_spawn(int np, char *const argv[], bool bind, int64_t grace_ns, char *error)
{
	struct family f = {.np = np};
	sigset_t watched, before;
	int rc;

	f.ranks = calloc((size_t)np, sizeof(*f.ranks));
	if (!f.ranks) {
		snprintf(error, LAUNCH_ERROR_BYTES, "no memory for %d ranks", np);
		return STATUS_FAILED;
	}
	sigemptyset(&watched);
	sigaddset(&watched, SIGCHLD);
	sigaddset(&watched, SIGINT);
	sigaddset(&watched, SIGTERM);
	sigaddset(&watched, SIGHUP);
	sigprocmask(SIG_BLOCK, &watched, &before);
	rc = start_all(&f, argv, bind, &before, error);
	if (rc) { /* those that did start would wait for the rest in vain */
		f.status = STATUS_FAILED;
		f.deadline_ns = now_ns();
	}
	stand_by(&f, &watched, grace_ns);
	sigprocmask(SIG_SETMASK, &before, NULL);
	free(f.ranks);
	return f.status;
}
