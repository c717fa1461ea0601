/* SPDX-License-Identifier: Apache-2.0
 *
 * The writer's life: opening the process's spool, again in a forked child, and ending it.
 */
#include "tracer/spool/writer.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18
#endif

#define MAX_BYTES_DEFAULT (1ull << 30)
#define MAX_BYTES_LEAST   (1ull << 20)
#define MAX_BYTES_MOST    (32ull << 30) /* ids are offsets / 8 in 32 bits */
#define SINK_NAMES_BYTES  (64ull << 20)
#define MEMORY_SHARE      16 /* of what a limit on address space leaves, one in so many */

struct spool_writer *spool_writer;
_Atomic bool spool_recording = true;

/* What a child opens its own spool with; ordinary memory, so that it inherits them. */
static struct spool_settings configured;
static char configured_directory[PATH_MAX], configured_run[64];
static _Atomic bool configured_set;
static uint32_t generation_last;
/* Where the file is mapped: in a child, still the parent's. */
static void *mapping;
static uint64_t mapping_bytes;
/* The memory of the interning table, wiped by a fork and then used by the child. */
static void *table_memory;
#define TABLE_BYTES (SPOOL_TABLE_ENTRIES * sizeof(_Atomic uint64_t))

static char error_line[512], note_line[300];

const char *spool_error(void)
{
	return error_line;
}

const char *spool_note(void)
{
	return note_line;
}

bool spool_writer_active(void)
{
	return spool_writer_open_now() != NULL;
}

const char *spool_writer_path(void)
{
	return spool_writer_open_now() ? spool_path : "";
}

uint32_t spool_generation_slow(void)
{
	struct spool_writer *w = spool_writer_open_now();

	return w ? w->generation : 0;
}

void spool_writer_record(bool on)
{
	struct spool_writer *w = spool_writer_open_now();

	atomic_store(&spool_recording, on);
	if (w)
		spool_threads_poke(w);
}

/* Where MADV_WIPEONFORK is not to be had (before Linux 4.14). */
static void wipe_in_child(void)
{
	spool_self = NULL;
	memset(spool_writer, 0, sizeof(*spool_writer));
	if (table_memory)
		madvise(table_memory, TABLE_BYTES, MADV_DONTNEED);
}

static struct spool_writer *state_make(void)
{
	struct spool_writer *w =
		mmap(NULL, sizeof(*w), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct spool_writer *none = NULL;

	if (w == MAP_FAILED)
		return NULL;
	if (madvise(w, sizeof(*w), MADV_WIPEONFORK) != 0)
		pthread_atfork(NULL, NULL, wipe_in_child);
	if (!__atomic_compare_exchange_n(&spool_writer, &none, w, false, __ATOMIC_ACQ_REL,
					 __ATOMIC_ACQUIRE)) {
		munmap(w, sizeof(*w));
		return none;
	}
	spool_threads_prepare();
	return w;
}

/* A whole small file; the bytes read. */
static size_t file_read(const char *path, char *buf, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	size_t have = 0;
	ssize_t n;

	while (fd >= 0 && have < size && (n = read(fd, buf + have, size - have)) > 0)
		have += (size_t)n;
	if (fd >= 0)
		close(fd);
	return have;
}

static uint64_t start_ticks(void)
{
	char stat[1024];
	size_t n = file_read("/proc/self/stat", stat, sizeof(stat) - 1);
	const char *at;
	uint64_t value = 0;

	stat[n] = '\0';
	at = strrchr(stat, ')'); /* the name before it may hold anything */
	for (int field = 2; at && field < 22; field++)
		at = strchr(at + 1, ' ');
	for (at = at ? at + 1 : ""; *at >= '0' && *at <= '9'; at++)
		value = value * 10 + (uint64_t)(*at - '0');
	return value;
}

static void host_name(char *host, size_t size)
{
	if (gethostname(host, size) != 0)
		host[0] = '\0';
	host[size - 1] = '\0';
	if (!host[0])
		snprintf(host, size, "localhost");
}

static void header_fill(struct spool_writer *w, const char *host)
{
	struct spool_header *h = w->header;
	struct stat ns;
	size_t n;

	h->version_major = SPOOL_VERSION_MAJOR;
	h->version_minor = SPOOL_VERSION_MINOR;
	h->endian = SPOOL_ENDIAN;
	h->header_bytes = SPOOL_HEADER_BYTES;
	h->chunk_bytes = w->chunk_bytes;
	h->chunk_max = w->chunk_max;
	h->pid = (int64_t)syscall(SYS_getpid);
	h->ppid = (int64_t)syscall(SYS_getppid);
	h->pid_namespace = stat("/proc/self/ns/pid", &ns) == 0 ? (uint64_t)ns.st_ino : 0;
	h->start_ticks = start_ticks();
	h->rank = configured.rank;
	h->world_size = configured.world_size;
	h->local_rank = configured.local_rank;
	h->clock = spool_clock_used;
	h->flight_recorder = configured.flight_recorder;
	memcpy(h->host, host, strnlen(host, sizeof(h->host) - 1));
	memcpy(h->run, configured_run, strnlen(configured_run, sizeof(h->run) - 1));
	n = file_read("/proc/self/comm", h->process_name, sizeof(h->process_name) - 1);
	if (n && h->process_name[n - 1] == '\n')
		h->process_name[n - 1] = '\0';
}

static void attributes_write(const struct spool_file *file)
{
	char text[PATH_MAX];
	struct utsname uts;

	if (syscall(SYS_getcwd, text, sizeof(text)) > 0)
		spool_attribute("directory", text);
	if (uname(&uts) == 0) {
		snprintf(text, sizeof(text), "%s %s %s", uts.sysname, uts.release, uts.machine);
		spool_attribute("system", text);
	}
	if (file->note[0])
		spool_attribute("spool.fallback", file->note);
}

/* How the file is laid out for a cap of max_bytes. */
static void layout(struct spool_writer *w, uint64_t max_bytes, uint32_t table_bytes,
		   uint64_t *table_offset, uint64_t *directory_offset, uint64_t *data_offset)
{
	uint64_t entry = sizeof(struct spool_dir_entry);

	w->chunk_bytes = max_bytes < (4u << 20) ? 16 * 1024 : SPOOL_CHUNK_BYTES;
	*table_offset = SPOOL_HEADER_BYTES;
	*directory_offset = (*table_offset + table_bytes + 63) & ~63ull;
	w->chunk_max = (uint32_t)((max_bytes - *directory_offset - SPOOL_CHUNK_BYTES) /
				  (w->chunk_bytes + entry));
	/* aligned for the largest pages there are */
	*data_offset = (*directory_offset + w->chunk_max * entry + SPOOL_CHUNK_BYTES - 1) &
		       ~(uint64_t)(SPOOL_CHUNK_BYTES - 1);
	w->mapped_bytes = *data_offset + (uint64_t)w->chunk_max * w->chunk_bytes;
	w->meta_max = w->chunk_max / 4 + 2;
	w->slots_per_chunk = (uint32_t)((w->chunk_bytes - sizeof(struct spool_chunk)) /
					sizeof(struct spool_slot));
}

/* What the job's limit on address space leaves to us: a small share of what it does not use yet. */
static uint64_t memory_share(void)
{
	char text[64];
	size_t n = file_read("/proc/self/statm", text, sizeof(text) - 1);
	uint64_t used = 0, page = (uint64_t)sysconf(_SC_PAGESIZE);
	struct rlimit limit;

	if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
		return UINT64_MAX;
	text[n] = '\0';
	for (const char *at = text; *at >= '0' && *at <= '9'; at++)
		used = used * 10 + (uint64_t)(*at - '0');
	return limit.rlim_cur > used * page ? (limit.rlim_cur - used * page) / MEMORY_SHARE : 0;
}

/* Maps the whole cap, less where the job's limits are nearer. */
static int map(struct spool_writer *w, int fd, uint64_t max_bytes, char *err, size_t err_size)
{
	uint32_t table_bytes = (uint32_t)wl_event_table_text(NULL, 0);
	uint64_t table_offset, directory_offset, data_offset;
	struct rlimit limit;
	void *at;
	int rc;

	/* Nothing beyond the limit on file size would ever be written. */
	if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur < max_bytes)
		max_bytes = limit.rlim_cur & ~0xffffull;
	if (memory_share() < max_bytes)
		max_bytes = memory_share() & ~0xffffull;
	for (;; max_bytes /= 2) {
		if (max_bytes < MAX_BYTES_LEAST) {
			snprintf(
				err, err_size,
				"cannot map a recording of 1 MiB: the job's limits on memory or file "
				"size (ulimit -v, ulimit -l, ulimit -f) leave no room; raise them to trace it");
			return -ENOMEM;
		}
		layout(w, max_bytes, table_bytes, &table_offset, &directory_offset, &data_offset);
		at = mmap(NULL, w->mapped_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		if (at != MAP_FAILED)
			break;
		/* EAGAIN: the job locks all its memory (mlockall), and may lock no more */
		if (errno != ENOMEM && errno != EAGAIN) {
			rc = -errno;
			snprintf(err, err_size,
				 "cannot map %.200s: %s: set WAYLAY_DIR to a directory on a local "
				 "file system",
				 spool_path, strerror(-rc));
			return rc;
		}
	}
	/* Not of what a job locks that locks all its memory. */
	munlock(at, w->mapped_bytes);
	rc = spool_file_room(fd, data_offset + w->chunk_bytes * 4ull, spool_keep_free_percent)
		     ? spool_file_allocate(fd, 0, data_offset + w->chunk_bytes * 4ull)
		     : -ENOSPC;
	if (rc) {
		snprintf(err, err_size,
			 "cannot reserve space for a recording in %.200s: %s: make room, or set "
			 "WAYLAY_DIR to a directory with room",
			 spool_path, strerror(-rc));
		munmap(at, w->mapped_bytes);
		return rc;
	}
	w->header = at;
	w->directory = (struct spool_dir_entry *)((uint8_t *)at + directory_offset);
	w->data = (uint8_t *)at + data_offset;
	w->header->table_bytes = table_bytes;
	w->header->table_offset = table_offset;
	w->header->directory_offset = directory_offset;
	w->header->data_offset = data_offset;
	/* The text's closing NUL may fall on the first byte of padding: that is zero anyway. */
	wl_event_table_text((char *)at + table_offset, table_bytes + 1);
	atomic_store_explicit(&w->header->reserved_bytes, data_offset + w->chunk_bytes * 4ull,
			      memory_order_relaxed);
	return 0;
}

/* In a child: the parent's file is no longer mapped, so that nothing can reach it. Memory stays in its
 * place for an append that a fork in a signal handler has interrupted. */
static void mapping_replace(void)
{
	static void *replaced;
	static uint64_t replaced_bytes;

	if (!mapping)
		return;
	/* of its parent's parent; an interrupted append is not that old */
	if (replaced)
		munmap(replaced, replaced_bytes);
	replaced = mmap(mapping, mapping_bytes, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
	replaced_bytes = mapping_bytes;
	if (replaced == MAP_FAILED)
		replaced = NULL;
	mapping = NULL;
}

static int table_make(struct spool_writer *w)
{
	if (!table_memory) {
		void *at = mmap(NULL, TABLE_BYTES, PROT_READ | PROT_WRITE,
				MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

		if (at == MAP_FAILED)
			return -ENOMEM;
		madvise(at, TABLE_BYTES, MADV_WIPEONFORK);
		table_memory = at;
	}
	w->table = table_memory;
	return 0;
}

/* The mapping is there and laid out: the recording begins. */
static void begin(struct spool_writer *w, const char *host)
{
	mapping_replace();
	mapping = w->header;
	mapping_bytes = w->mapped_bytes;
	header_fill(w, host);
	w->generation = ++generation_last;
	atomic_store(&w->serial_next, 1);
	spool_clock_begin(w);
	/* A reader takes a file without the magic for one being made. */
	atomic_thread_fence(memory_order_release);
	memcpy(w->header->magic, SPOOL_MAGIC, sizeof(w->header->magic));
	/* Pairs with the acquire in spool_writer_open_now(). */
	atomic_store_explicit(&w->state, SPOOL_OPEN, memory_order_release);
	spool_attributes_again();
}

/* No file: names and facts lie in memory, which is empty in a child. */
static int sink_set_up(struct spool_writer *w, const char *host, char *err, size_t err_size)
{
	const struct spool_file none = {.fd = -1};
	uint64_t table_offset, directory_offset, data_offset;
	void *at;

	layout(w, SINK_NAMES_BYTES, 0, &table_offset, &directory_offset, &data_offset);
	at = mmap(NULL, w->mapped_bytes, PROT_READ | PROT_WRITE,
		  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (at == MAP_FAILED) {
		snprintf(err, err_size, "no memory for the names of a recording");
		return -ENOMEM;
	}
	munlock(at, w->mapped_bytes);
	w->header = at;
	w->directory = (struct spool_dir_entry *)((uint8_t *)at + directory_offset);
	w->data = (uint8_t *)at + data_offset;
	/* All of it may be names. */
	w->meta_max = w->chunk_max;
	w->header->data_offset = data_offset;
	w->header->directory_offset = directory_offset;
	atomic_store(&w->header->reserved_bytes, w->mapped_bytes);
	atomic_store(&w->fd, -1);
	spool_path[0] = '\0';
	spool_sink = configured.sink;
	w->sink_active = true;
	begin(w, host);
	spool_sink_all(w);
	attributes_write(&none);
	return 0;
}

static int writer_set_up(struct spool_writer *w, char *err, size_t err_size)
{
	struct spool_file file = {.fd = -1};
	struct stat st;
	char host[65];
	int rc;

	rc = table_make(w);
	if (rc) {
		snprintf(err, err_size, "no memory for the tables of a recording");
		return rc;
	}
	host_name(host, sizeof(host));
	if (configured.sink)
		return sink_set_up(w, host, err, err_size);
	rc = spool_file_create(&configured, host, &file, err, err_size);
	if (rc)
		return rc;
	memcpy(spool_path, file.path, sizeof(spool_path));
	spool_keep_free_percent = configured.keep_free_percent;
	rc = map(w, file.fd, configured.max_bytes, err, err_size);
	if (rc)
		goto no_map;
	if (fstat(file.fd, &st) == 0) {
		w->device = st.st_dev;
		w->inode = st.st_ino;
	}
	atomic_store(&w->fd, spool_file_keep(file.fd));
	begin(w, host);
	attributes_write(&file);
	memcpy(note_line, file.note, sizeof(note_line));
	return 0;

no_map:
	unlink(file.path);
	close(file.fd);
	return rc;
}

/* Absolute, since the job may change its directory before a child of its opens a spool. */
static int directory_set(const char *directory)
{
	size_t used = 0;
	int n;

	if (directory[0] != '/') {
		if (syscall(SYS_getcwd, configured_directory, sizeof(configured_directory)) <= 0)
			return -errno;
		used = strlen(configured_directory);
	}
	n = snprintf(configured_directory + used, sizeof(configured_directory) - used, "%s%s",
		     used ? "/" : "", directory);
	return n < 0 || (size_t)n >= sizeof(configured_directory) - used ? -ENAMETOOLONG : 0;
}

static int configure(const struct spool_settings *settings)
{
	int rc = directory_set(settings->directory);

	if (rc) {
		snprintf(
			error_line, sizeof(error_line),
			"cannot use %.200s for a recording: %s: set WAYLAY_DIR to another directory",
			settings->directory, strerror(-rc));
		return rc;
	}
	configured = *settings;
	snprintf(configured_run, sizeof(configured_run), "%s", settings->run ? settings->run : "");
	configured.directory = configured_directory;
	configured.run = configured_run;
	if (!configured.max_bytes)
		configured.max_bytes = MAX_BYTES_DEFAULT;
	if (configured.max_bytes < MAX_BYTES_LEAST)
		configured.max_bytes = MAX_BYTES_LEAST;
	if (configured.max_bytes > MAX_BYTES_MOST)
		configured.max_bytes = MAX_BYTES_MOST;
	__atomic_store_n(&spool_clock_used, settings->clock, __ATOMIC_RELAXED);
	return 0;
}

/* settings: NULL in a forked child, which keeps those it was forked with. */
static int writer_open(struct spool_writer *w, const struct spool_settings *settings)
{
	uint32_t unopened = SPOOL_UNOPENED;
	int saved = errno, rc = 0, cancel;
	uint64_t early;

	if (!atomic_compare_exchange_strong(&w->state, &unopened, SPOOL_OPENING))
		return -EALREADY;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	if (settings && !atomic_load_explicit(&configured_set, memory_order_acquire))
		rc = configure(settings);
	if (!rc)
		rc = writer_set_up(w, error_line, sizeof(error_line));
	if (rc)
		atomic_store(&w->state, SPOOL_FAILED);
	else
		/* Pairs with the acquire in spool_writer_get() of a child. */
		atomic_store_explicit(&configured_set, true, memory_order_release);
	early = atomic_exchange(&w->early_drops, 0);
	if (!rc && early)
		spool_drop(w, NULL, TRACE_DROP_THREAD, early);
	pthread_setcancelstate(cancel, &cancel);
	errno = saved;
	return rc;
}

int spool_writer_open(const struct spool_settings *settings)
{
	struct spool_writer *w = spool_writer ? spool_writer : state_make();

	if (!w) {
		snprintf(error_line, sizeof(error_line), "no memory for a recording");
		return -ENOMEM;
	}
	return writer_open(w, settings);
}

struct spool_writer *spool_writer_get(void)
{
	struct spool_writer *w = spool_writer;
	uint32_t state;

	if (!w)
		return NULL;
	state = atomic_load_explicit(&w->state, memory_order_acquire);
	if (__builtin_expect(state == SPOOL_OPEN, 1))
		return w;
	if (!atomic_load_explicit(&configured_set, memory_order_acquire))
		return NULL;
	if (state == SPOOL_UNOPENED && writer_open(w, NULL) == 0)
		return w;
	state = atomic_load_explicit(&w->state, memory_order_acquire);
	if (state == SPOOL_OPENING)
		atomic_fetch_add_explicit(&w->early_drops, 1, memory_order_relaxed);
	return state == SPOOL_OPEN ? w : NULL;
}

void spool_writer_end(void)
{
	struct spool_writer *w = spool_writer_open_now();
	int saved = errno;

	if (!w)
		return;
	spool_clock_snapshot(w, true);
	if (spool_sink)
		spool_sink_end(w);
	w->header->end_monotonic_ns = (int64_t)spool_monotonic_ns();
	/* Pairs with the reader's acquire: the time of the end is there. */
	atomic_store_explicit(&w->header->ended, 1, memory_order_release);
	errno = saved;
}
