/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs storms of storm_job under the preload and judges each: it ended as it was to end, its children too, said
 * nothing, and its recording holds every wait that had returned, and no more than what was on its way when it ended.
 *
 *   storms PRELOAD JOB FIRST COUNT      works in the current directory
 */
#include "tests/traced/storm/storm.h"
#include "tracer/spool/spool.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define LIMIT_S 60 /* a storm that takes longer hangs */

static struct storm_counts *counts;
static uint64_t seed, waits_all, recordings_all;

static bool complain(const char *what, int64_t number)
{
	printf("storm %llu: %s (%lld)\n", (unsigned long long)seed, what, (long long)number);
	return false;
}

/* Every third with device activity, every fifth without a thread of ours, every seventh with all stacks. */
static void settings(void)
{
	setenv("WAYLAY_GPU", seed % 3 ? "none" : "cupti", 1);
	setenv("WAYLAY_THREAD", seed % 5 ? "1" : "0", 1);
	setenv("WAYLAY_STACK", seed % 7 ? "sync" : "all", 1);
}

static pid_t start(const char *preload, const char *job)
{
	pid_t pid = fork();

	if (!pid) {
		char number[32];
		int fd = open("said", O_WRONLY | O_CREAT | O_TRUNC, 0600);

		dup2(fd, 1);
		dup2(fd, 2);
		snprintf(number, sizeof(number), "%llu", (unsigned long long)seed);
		settings();
		setenv("LD_PRELOAD", preload, 1);
		setenv("WAYLAY_DIR", "out", 1);
		execl(job, job, number, "counts", (char *)NULL);
		_exit(127);
	}
	return pid;
}

static bool ended_as_meant(pid_t pid)
{
	static const int meant[STORM_END_MAX] = {
		[STORM_RETURN] = 0, [STORM_EXIT_OF_THREAD] = 9 << 8, [STORM_EXIT_AT_ONCE] = 3 << 8,
		[STORM_KILLED] = 9, [STORM_LAST_THREAD] = 0,
	};
	time_t begin = time(NULL);
	int status = 0;

	while (waitpid(pid, &status, WNOHANG) == 0) {
		if (time(NULL) - begin > LIMIT_S) {
			kill(pid, SIGKILL);
			waitpid(pid, &status, 0);
			return complain("hangs; killed after seconds", LIMIT_S);
		}
		usleep(2000);
	}
	return status == meant[seed % STORM_END_MAX] || complain("status", status);
}

/* Children that outlived it are this process's now. */
static bool nobody_left(void)
{
	time_t begin = time(NULL);
	int status;
	pid_t pid;

	while ((pid = waitpid(-1, &status, WNOHANG)) >= 0) {
		if (pid > 0 && status)
			return complain("a child's status", status);
		if (time(NULL) - begin > LIMIT_S)
			return complain("a child hangs; seconds", LIMIT_S);
		if (!pid)
			usleep(1000);
	}
	return true;
}

static bool said_nothing(void)
{
	struct stat st;
	char text[2000];
	FILE *file;
	size_t bytes;

	if (stat("said", &st) == 0 && st.st_size == 0)
		return true;
	complain("bytes said", (int64_t)st.st_size);
	file = fopen("said", "r");
	bytes = file ? fread(text, 1, sizeof(text), file) : 0;
	fwrite(text, 1, bytes, stdout);
	if (file)
		fclose(file);
	return false;
}

static bool count_waits(struct trace_reader *reader, uint64_t *waits)
{
	struct trace_cursor *cursor;
	struct trace_event event;
	int got, error = 0;

	for (unsigned i = 0; i < TRACE_DROP_MAX; i++)
		if (reader->info.drops[i])
			return complain("drops", (int64_t)reader->info.drops[i]);
	if (reader->info.damaged)
		return complain(reader->info.damage, 0);
	cursor = reader->ops->cursor_open(reader, -1, &error);
	if (!cursor)
		return complain("no cursor", error);
	while ((got = reader->ops->cursor_next(cursor, &event)) == 1)
		if (event.type->number == WL_EV_cuda_wait &&
		    !strcmp(reader->ops->string(reader,
						(uint32_t)event.args[WL_ARG(cuda_wait, api)]),
			    "cuStreamSynchronize"))
			++*waits;
	reader->ops->cursor_close(cursor);
	return got == 0 || complain("cannot be read further", got);
}

/* The recording of the job itself; its children's are read too, but not counted. */
static bool recorded_all(void)
{
	uint64_t recorded = 0, made = 0, on_their_way = 0;
	DIR *dir = opendir("out");
	struct dirent *entry;
	unsigned own = 0;
	bool so = true;

	while (dir && so && (entry = readdir(dir))) {
		struct trace_reader *reader;
		char path[512], err[512];
		uint64_t waits = 0;

		snprintf(path, sizeof(path), "out/%s", entry->d_name);
		if (!strstr(entry->d_name, ".wspool"))
			continue;
		if (spool_reader_open(path, &reader, err, sizeof(err))) {
			so = complain(err, 0);
			break;
		}
		so = count_waits(reader, &waits);
		if (reader->info.pid == counts->pid) {
			recorded = waits;
			own++;
		}
		recordings_all++;
		reader->ops->close(reader);
	}
	if (dir)
		closedir(dir);
	for (unsigned i = 0; i < STORM_THREADS; i++) {
		made += counts->waits[i];
		on_their_way += counts->waits[i] != 0;
	}
	waits_all += made;
	if (!so)
		return false;
	if (own != 1)
		return complain("recordings of the job", own);
	if (recorded < made)
		return complain("waits lost", (int64_t)(made - recorded));
	if (recorded > made + on_their_way + 1)
		return complain("waits too many", (int64_t)(recorded - made));
	return true;
}

int main(int argc, char **argv)
{
	unsigned count, wrong = 0;
	int fd;

	if (argc != 5) {
		fprintf(stderr, "usage: storms PRELOAD JOB FIRST COUNT\n");
		return 64;
	}
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	setvbuf(stdout, NULL, _IOLBF, 0);
	fd = open("counts", O_RDWR | O_CREAT | O_TRUNC, 0600);
	if (fd < 0 || ftruncate(fd, sizeof(*counts)))
		return 1;
	counts = mmap(NULL, sizeof(*counts), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (counts == MAP_FAILED)
		return 1;
	count = (unsigned)strtoul(argv[4], NULL, 10);
	for (unsigned i = 0; i < count; i++) {
		seed = strtoull(argv[3], NULL, 10) + i;
		memset((void *)counts, 0, sizeof(*counts));
		if (system("rm -rf out"))
			return 1;
		bool ended = ended_as_meant(start(argv[1], argv[2])) && nobody_left();
		bool quiet = said_nothing();

		wrong += !(ended && quiet && recorded_all());
		if (wrong > 9)
			break;
	}
	printf("%u storms, %u wrong; %llu waits in %llu recordings\n", count, wrong,
	       (unsigned long long)waits_all, (unsigned long long)recordings_all);
	return wrong != 0;
}
