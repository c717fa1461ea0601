/* SPDX-License-Identifier: Apache-2.0
 *
 * Finding processes that record, and asking them through their recordings' headers.
 */
#include "viewers/control.h"
#include "viewers/viewers.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define POLL_NS 2000000

/* --- is it alive ------------------------------------------------------------------------------ */

/* When it started, from /proc/PID/stat; 0 when there is no such process, or only what its parent has not asked
 * for yet: a zombie without other threads. */
static uint64_t start_ticks(pid_t pid)
{
	enum { STATE = 3, THREADS = 20, START = 22 };
	char path[64], text[1024], state = 0;
	const char *at;
	bool last = false;
	FILE *file;
	size_t n;

	(void)snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	file = fopen(path, "re");
	if (!file)
		return 0;
	n = fread(text, 1, sizeof(text) - 1, file);
	(void)fclose(file);
	text[n] = '\0';
	at = strrchr(text, ')');
	for (int field = STATE; at && (at = strchr(at + 1, ' ')) && field < START; field++) {
		if (field == STATE)
			state = at[1];
		else if (field == THREADS)
			last = strtol(at, NULL, 10) <= 1;
	}
	return at && !(last && (state == 'Z' || state == 'X')) ? strtoull(at, NULL, 10) : 0;
}

static enum control_life life_of(const struct spool_header *h)
{
	char host[65] = "";
	struct stat ns;

	(void)gethostname(host, sizeof(host) - 1);
	if (strncmp(host, h->host, sizeof(h->host)) != 0 || stat("/proc/self/ns/pid", &ns) != 0 ||
	    ns.st_ino != h->pid_namespace)
		return CONTROL_ELSEWHERE;
	return start_ticks((pid_t)h->pid) == h->start_ticks && h->start_ticks ? CONTROL_RUNNING
									      : CONTROL_ENDED;
}

/* --- finding ---------------------------------------------------------------------------------- */

static int open_target(struct control_target *t, const char *path, bool write)
{
	struct stat st;
	int rc;

	t->fd = open(path, (write ? O_RDWR : O_RDONLY) | O_CLOEXEC | O_NOFOLLOW);
	if (t->fd < 0)
		return -errno;
	rc = fstat(t->fd, &st) == 0 ? 0 : -errno;
	if (!rc && (!S_ISREG(st.st_mode) || st.st_size < SPOOL_HEADER_BYTES))
		rc = -EINVAL;
	if (!rc) {
		t->bytes = (size_t)st.st_size;
		t->mapping = mmap(NULL, t->bytes, PROT_READ | (write ? PROT_WRITE : 0), MAP_SHARED,
				  t->fd, 0);
		if (t->mapping == MAP_FAILED)
			rc = -errno;
	}
	if (!rc) {
		t->header = t->mapping;
		if (memcmp(t->header->magic, SPOOL_MAGIC, sizeof(t->header->magic)) != 0 ||
		    t->header->version_major > SPOOL_VERSION_MAJOR) {
			(void)munmap(t->mapping, t->bytes);
			rc = -EINVAL;
		}
	}
	if (rc) {
		(void)close(t->fd);
		return rc;
	}
	(void)snprintf(t->path, sizeof(t->path), "%s", path);
	t->life = life_of(t->header);
	return 0;
}

static int add(struct control_targets *targets, const char *path, bool write)
{
	struct control_target *items =
		realloc(targets->items, (targets->count + 1) * sizeof(*items));
	int rc;

	if (!items)
		return -ENOMEM;
	targets->items = items;
	rc = open_target(&items[targets->count], path, write);
	if (!rc)
		targets->count++;
	return rc;
}

static int add_directory(struct control_targets *targets, const char *path, bool write)
{
	struct dirent **entries;
	int count = scandir(path, &entries, NULL, alphasort), rc = 0;

	if (count < 0)
		return -errno;
	for (int i = 0; i < count; i++) {
		size_t length = strlen(entries[i]->d_name);
		char full[PATH_MAX];

		/* One that cannot be opened is none of ours, or is being made. */
		if (length > 7 && strcmp(entries[i]->d_name + length - 7, ".wspool") == 0 &&
		    (size_t)snprintf(full, sizeof(full), "%s/%s", path, entries[i]->d_name) <
			    sizeof(full) &&
		    rc != -ENOMEM)
			rc = add(targets, full, write);
		free(entries[i]);
	}
	free((void *)entries);
	return rc == -ENOMEM ? rc : 0;
}

/* The number that the process has in its own namespace. */
static long own_pid(pid_t pid)
{
	char path[64], line[256];
	long number = pid;
	FILE *file;

	(void)snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	file = fopen(path, "re");
	while (file && fgets(line, sizeof(line), file))
		if (strncmp(line, "NSpid:", 6) == 0) {
			const char *last = strrchr(line, '\t');

			number = last ? strtol(last, NULL, 10) : number;
		}
	if (file)
		(void)fclose(file);
	return number;
}

/* By the recording that is mapped into it, wherever that lies. */
static int add_process(struct control_targets *targets, pid_t pid, bool write)
{
	char path[64], line[PATH_MAX + 128], full[PATH_MAX + 64];
	long own = own_pid(pid);
	int rc = -ENOENT;
	FILE *file;

	(void)snprintf(path, sizeof(path), "/proc/%d/maps", (int)pid);
	file = fopen(path, "re");
	if (!file)
		return -errno;
	while (rc != 0 && fgets(line, sizeof(line), file)) {
		char *at = strchr(line, '/');
		size_t length = at ? strcspn(at, "\n") : 0;

		if (length < 7 || strncmp(at + length - 7, ".wspool", 7) != 0)
			continue;
		at[length] = '\0';
		rc = add(targets, at, write);
		/* In a container the path is the container's. */
		if (rc == -ENOENT && (size_t)snprintf(full, sizeof(full), "/proc/%d/root%s",
						      (int)pid, at) < sizeof(full))
			rc = add(targets, full, write);
		if (rc)
			continue;
		if (targets->items[targets->count - 1].header->pid == own) {
			targets->items[targets->count - 1].life = CONTROL_RUNNING;
			break;
		}
		/* a child that records nothing yet still has its parent's mapped */
		targets->count--;
		(void)munmap(targets->items[targets->count].mapping,
			     targets->items[targets->count].bytes);
		(void)close(targets->items[targets->count].fd);
		rc = -ENOENT;
	}
	(void)fclose(file);
	return rc;
}

int control_find(struct control_targets *targets, const char *what, bool write)
{
	uint64_t pid;
	struct stat st;
	int rc;

	if (parse_count(what, INT_MAX, &pid) && pid > 0) {
		rc = add_process(targets, (pid_t)pid, write);
		if (rc == -ENOENT && start_ticks((pid_t)pid))
			say("process %s records nothing: it has used neither CUDA nor libfabric yet, "
			    "or is not traced",
			    what);
		else if (rc)
			say("looking at process %s: %s", what,
			    rc == -ENOENT ? "there is no such process" : strerror(-rc));
		return rc;
	}
	rc = stat(what, &st) == 0 ? 0 : -errno;
	if (!rc)
		rc = S_ISDIR(st.st_mode) ? add_directory(targets, what, write)
					 : add(targets, what, write);
	if (rc == -EINVAL)
		say("%s is no recording of Waylay's; give a process id, a .wspool file or a "
		    "directory of them",
		    what);
	else if (rc)
		say("opening %s: %s; give a process id, a .wspool file or a directory of them",
		    what, strerror(-rc));
	return rc;
}

void control_free(struct control_targets *targets)
{
	for (unsigned i = 0; i < targets->count; i++) {
		(void)munmap(targets->items[i].mapping, targets->items[i].bytes);
		(void)close(targets->items[i].fd);
	}
	free(targets->items);
}

/* --- asking ----------------------------------------------------------------------------------- */

static int64_t now_ms(void)
{
	struct timespec ts;

	(void)clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

static void pause_shortly(void)
{
	const struct timespec pause = {.tv_nsec = POLL_NS};

	(void)nanosleep(&pause, NULL);
}

/* One at a time: whoever asks holds a lock on the file, of which the process knows nothing. */
static int lock(int fd, int64_t until)
{
	while (flock(fd, LOCK_EX | LOCK_NB) != 0) {
		if (errno != EWOULDBLOCK && errno != EINTR)
			return -errno;
		if (now_ms() > until)
			return -EBUSY;
		pause_shortly();
	}
	return 0;
}

int control_ask(struct control_target *target, enum spool_command command, const char *text,
		int timeout_ms, char *answer, size_t answer_size)
{
	struct spool_header *h = target->header;
	int64_t until = now_ms() + timeout_ms;
	uint32_t asked;
	int rc;

	*answer = '\0';
	if (h->version_minor < 1)
		return -EPROTONOSUPPORT;
	rc = lock(target->fd, until);
	if (rc)
		return rc;
	asked = atomic_load(&h->answered) + 1;
	h->command = command;
	(void)snprintf(h->command_text, sizeof(h->command_text), "%s", text ? text : "");
	/* Pairs with the process's acquire: command and text are there. */
	atomic_store_explicit(&h->asked, asked, memory_order_release);
	while (atomic_load_explicit(&h->answered, memory_order_acquire) != asked) {
		uint32_t mine = asked;

		if (now_ms() <= until) {
			pause_shortly();
			continue;
		}
		/* Withdrawn, not to be acted on when nobody expects it. */
		(void)atomic_compare_exchange_strong(&h->asked, &mine, asked - 1);
		(void)flock(target->fd, LOCK_UN);
		return -ETIMEDOUT;
	}
	rc = h->answer_status;
	(void)snprintf(answer, answer_size, "%.*s", (int)sizeof(h->answer_text), h->answer_text);
	(void)flock(target->fd, LOCK_UN);
	return rc;
}
