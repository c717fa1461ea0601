/* SPDX-License-Identifier: Apache-2.0
 *
 * Spool: SIGKILL at any moment. Four threads say in shared memory what they have recorded; after the
 * kill, every such record is in the file, whole and in order, and so is the call each thread was in.
 * Half of the moments are random, the other half aimed: just after a chunk was handed out, the file grew, a
 * chunk was written over, a child was made. What the files show of that is counted.
 *
 * WAYLAY_TEST_KILLS: how many kills (100); WAYLAY_TEST_SEED: where the random moments begin.
 */
#include "tests/unit/test_spool.h"
#include "tracer/spool/writer.h"

#include <pthread.h>
#include <sched.h>

#define THREADS    4
#define TEXTS      5003
#define EVENTS_MAX 300007 /* of all threads together, before a kill */

enum mode { MODE_PLAIN, MODE_FLIGHT, MODE_CAP, MODE_NAMES, MODE_FORKS, MODE_MAX };
enum aim { AIM_NONE, AIM_CHUNK, AIM_GROWTH, AIM_WRAP, AIM_FORK };

static struct shared {
	struct {
		_Alignas(64) _Atomic uint64_t recorded; /* events acknowledged */
		_Atomic uint64_t newest;                /* the last one's number + 1 */
		_Atomic uint64_t lost;                  /* events refused */
		_Atomic uint64_t entered, leaving;      /* calls entered, and about to be left */
	} thread[THREADS];
	_Atomic uint32_t forks; /* begun */
	_Atomic bool forking;   /* a child is being made, or at work */
	_Atomic bool opened;
	char path[TEST_PATH];
} * shared;

/* What kills were found in the middle of. */
static struct found {
	unsigned edges;        /* a chunk being handed out: without a header, or without a record */
	unsigned growing;      /* the file longer than what the recording knows to be reserved */
	unsigned taken_over;   /* a chunk being written over */
	unsigned wrapped;      /* chunks had been written over */
	unsigned forking;      /* a child at work */
	unsigned named, calls; /* threads in a call, which the recording names; and all such */
} found;

static enum mode mode;
/* Threads of flight recorders whose newest record was there, and was not. */
static unsigned newest_there, newest_missing;

static uint32_t text_of(uint64_t n)
{
	char text[40];
	int length = snprintf(text, sizeof(text), "text %u", (unsigned)(n % TEXTS));

	return spool_intern_string(text, (size_t)length);
}

static void *writer(void *arg)
{
	uintptr_t who = (uintptr_t)arg;
	uint32_t api = spool_intern_string("cuWait", 6);

	for (uint64_t n = 0;; n++) {
		uint64_t begin = spool_now();
		bool done;

		spool_enter(WL_EV_cuda_wait, api, begin, (uint32_t)n, who);
		atomic_store(&shared->thread[who].entered, n + 1);
		if (mode == MODE_NAMES)
			done = SPOOL_EMIT(nvtx_start, begin, begin, (uint32_t)who, .id = n,
					  .payload = test_mark(who, n), .text = text_of(n));
		else
			done = test_emit(who, n);
		if (done) {
			atomic_store(&shared->thread[who].newest, n + 1);
			atomic_fetch_add(&shared->thread[who].recorded, 1);
		} else {
			atomic_fetch_add(&shared->thread[who].lost, 1);
		}
		atomic_store(&shared->thread[who].leaving, n + 1);
		spool_leave();
	}
	return NULL;
}

/* Children that record a little, in spools of their own. */
static void forks(void)
{
	for (;;) {
		pid_t pid;

		atomic_store(&shared->forking, true);
		atomic_fetch_add(&shared->forks, 1);
		pid = fork();
		if (pid == 0) {
			for (uint64_t n = 0; n < 11; n++)
				test_emit(99, n);
			_exit(0);
		}
		waitpid(pid, NULL, 0);
		atomic_store(&shared->forking, false);
	}
}

static void victim(void)
{
	struct spool_settings s = test_settings();
	pthread_t threads[THREADS];

	s.max_bytes = mode == MODE_FLIGHT || mode == MODE_CAP ? 2u << 20 : 256u << 20;
	s.flight_recorder = mode == MODE_FLIGHT;
	child_open(&s);
	snprintf(shared->path, sizeof(shared->path), "%s", spool_writer_path());
	atomic_store(&shared->opened, true);
	for (uintptr_t i = 0; i < THREADS; i++)
		child_check(pthread_create(&threads[i], NULL, writer, (void *)i) == 0);
	if (mode == MODE_FORKS)
		forks();
	for (;;) {
		spool_housekeep();
		sched_yield();
	}
}

/* --- the check --- */

static void thread_check(struct trace_reader *reader, unsigned who, uint64_t seen)
{
	uint64_t recorded = atomic_load(&shared->thread[who].recorded);

	/* One more may be there that was not acknowledged any more. What a flight recorder writes over is
	 * counted, and checked for all threads together. */
	if (mode != MODE_FLIGHT && (seen < recorded || seen > recorded + 1))
		fail_msg("thread %u: %llu acknowledged, %llu there (%s)", who,
			 (unsigned long long)recorded, (unsigned long long)seen,
			 reader->info.damage);
}

static void event_check(struct trace_reader *reader, const struct trace_event *e, uint64_t *who,
			uint64_t *n)
{
	char text[40];

	if (mode != MODE_NAMES) {
		assert_true(test_event(e, who, n));
		return;
	}
	*who = e->flags;
	*n = e->args[WL_ARG(nvtx_start, id)];
	assert_int_equal(e->args[WL_ARG(nvtx_start, payload)], test_mark(*who, *n));
	snprintf(text, sizeof(text), "text %u", (unsigned)(*n % TEXTS));
	assert_string_equal(
		reader->ops->string(reader, (uint32_t)e->args[WL_ARG(nvtx_start, text)]), text);
}

static void inflight_check(struct trace_reader *reader, const int thread_of[THREADS])
{
	struct trace_inflight in[THREADS + 1];
	unsigned count = reader->ops->inflight(reader, in, THREADS + 1);

	assert_true(count <= THREADS);
	for (unsigned who = 0; who < THREADS; who++) {
		uint64_t entered = atomic_load(&shared->thread[who].entered);
		bool inside = entered > atomic_load(&shared->thread[who].leaving), there = false;

		for (unsigned i = 0; i < count; i++)
			there |= (int)in[i].thread == thread_of[who] &&
				 in[i].stack == (uint32_t)(entered - 1) &&
				 strcmp(in[i].api, "cuWait") == 0;
		/* A thread is known by its first record. */
		if (inside && thread_of[who] >= 0) {
			found.calls++;
			found.named += there;
		}
		if (inside && thread_of[who] >= 0 && !there)
			fail_msg("thread %u was in call %llu, and that is not said", who,
				 (unsigned long long)entered);
	}
}

static void recording_check(const char *path)
{
	struct trace_reader *reader = test_open(path);
	uint64_t next[THREADS] = {0}, seen[THREADS] = {0}, lost = 0, recorded = 0, there = 0;
	uint64_t who = 0, n = 0;
	int thread_of[THREADS] = {-1, -1, -1, -1}, error;
	struct trace_cursor *c;
	struct trace_event e;

	assert_string_equal(reader->info.damage, "");
	assert_false(reader->info.ended);
	c = reader->ops->cursor_open(reader, -1, &error);
	while (reader->ops->cursor_next(c, &e) == 1) {
		event_check(reader, &e, &who, &n);
		assert_true(who < THREADS);
		if (mode == MODE_FLIGHT)
			assert_true(!seen[who] || n > next[who] - 1);
		else if (mode != MODE_CAP)
			assert_int_equal(n, next[who]);
		next[who] = n + 1;
		seen[who]++;
		thread_of[who] = (int)e.thread;
	}
	reader->ops->cursor_close(c);
	for (unsigned i = 0; i < THREADS; i++) {
		thread_check(reader, i, seen[i]);
		lost += atomic_load(&shared->thread[i].lost);
		recorded += atomic_load(&shared->thread[i].recorded);
		there += seen[i];
	}
	for (unsigned i = 0; mode == MODE_FLIGHT && i < THREADS; i++) {
		uint64_t newest = atomic_load(&shared->thread[i].newest);

		if (newest && next[i] < newest)
			newest_missing++;
		else
			newest_there += newest != 0;
	}
	if (mode == MODE_FLIGHT) {
		/* A thread killed while it took a chunk over may not have counted what was in it. */
		uint64_t accounted = there + reader->info.drops[TRACE_DROP_OVERWRITTEN];

		assert_true(accounted <= recorded + THREADS);
		assert_true(accounted + THREADS * (16384 / 40) >= recorded);
	} else {
		assert_true(test_drops(reader->info.drops) >= lost);
		assert_true(test_drops(reader->info.drops) <= lost + THREADS);
	}
	inflight_check(reader, thread_of);
	reader->ops->close(reader);
}

/* Children's spools: whole as far as they got. */
static void children_check(char paths[][TEST_PATH], unsigned count, const char *own)
{
	for (unsigned i = 0; i < count; i++) {
		struct trace_reader *reader;
		char err[400];
		int rc;

		if (strcmp(paths[i], own) == 0)
			continue;
		rc = spool_reader_open(paths[i], &reader, err, sizeof(err));
		if (rc == -ENODATA)
			continue; /* killed while it was being made */
		assert_int_equal(rc, 0);
		assert_true(test_count(reader, -1, -1, 0) <= 11);
		reader->ops->close(reader);
	}
}

/* --- the kill --- */

static uint64_t random_state;

static uint64_t random_next(void)
{
	random_state = random_state * 6364136223846793005ull + 1442695040888963407ull;
	return random_state >> 33;
}

static uint64_t progress(void)
{
	uint64_t sum = 0;

	for (int i = 0; i < THREADS; i++)
		sum += atomic_load(&shared->thread[i].entered);
	return sum;
}

/* The victim's header; NULL when it is not there in time. */
static struct spool_header *header_map(pid_t pid)
{
	int status, fd;
	void *at;

	while (!atomic_load(&shared->opened))
		if (waitpid(pid, &status, WNOHANG) != 0)
			fail_msg("the victim ended by itself: %x", status);
	fd = open(shared->path, O_RDONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	at = mmap(NULL, sizeof(struct spool_header), PROT_READ, MAP_SHARED, fd, 0);
	close(fd);
	assert_true(at != MAP_FAILED);
	return at;
}

static uint64_t watched(enum aim aim, const struct spool_header *header)
{
	struct stat st;

	switch (aim) {
	case AIM_CHUNK:
		return atomic_load(&header->chunk_next);
	case AIM_GROWTH:
		return stat(shared->path, &st) == 0 ? (uint64_t)st.st_size : 0;
	case AIM_WRAP:
		return atomic_load(&header->drops[TRACE_DROP_OVERWRITTEN]) + progress() / 331;
	case AIM_FORK:
		return atomic_load(&shared->forks);
	case AIM_NONE:
		break;
	}
	return 0;
}

/* Aimed: when what is watched has changed so many times, and a very little later. */
static void aim_wait(enum aim aim, pid_t pid)
{
	struct spool_header *header = header_map(pid);
	uint64_t changes = 1 + random_next() % 40, spins = random_next() % 3000;
	uint64_t last = watched(aim, header), events = progress(), idle = 0;

	/* Whatever does not change any more, as in a recording that is full, is not waited for. */
	while (changes && idle < 20000) {
		uint64_t now = watched(aim, header);

		changes -= now != last;
		last = now;
		idle = progress() == events ? 0 : idle + 1;
	}
	munmap(header, sizeof(*header));
	for (volatile uint64_t i = 0; i < spins; i++)
		;
}

/* The moment: after so many events, early ones as likely as late ones, and a little more. */
static void moment_wait(pid_t pid)
{
	uint64_t events = random_next() % EVENTS_MAX >> random_next() % 18;
	uint64_t spins = random_next() % 5000;
	int status;

	while (progress() < events)
		if (waitpid(pid, &status, WNOHANG) != 0)
			fail_msg("the victim ended by itself: %x", status);
	for (volatile uint64_t i = 0; i < spins; i++)
		;
}

/* What the victim's file says it was in the middle of. */
static void file_look(const char *path)
{
	struct spool_header h;
	uint64_t chunks;
	struct stat st = {0};
	bool edge = false, taken_over = false, wrapped = false;
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	assert_true(fd >= 0 && fstat(fd, &st) == 0);
	assert_int_equal(pread(fd, &h, sizeof(h), 0), sizeof(h));
	chunks = atomic_load(&h.chunk_next);
	for (uint64_t n = 0; n < chunks; n++) {
		struct spool_chunk c;

		assert_int_equal(
			pread(fd, &c, sizeof(c), (off_t)(h.data_offset + n * h.chunk_bytes)),
			sizeof(c));
		edge |= c.magic == 0 ||
			(c.type == SPOOL_CHUNK_RECORDS && atomic_load(&c.committed) == 0);
		taken_over |= atomic_load(&c.generation) & 1;
		wrapped |= atomic_load(&c.generation) > 1;
	}
	close(fd);
	found.edges += edge;
	found.taken_over += taken_over;
	found.wrapped += wrapped;
	found.growing += (uint64_t)st.st_size > atomic_load(&h.reserved_bytes);
	found.forking += atomic_load(&shared->forking);
}

static unsigned kill_once(enum aim aim)
{
	static char paths[20011][TEST_PATH];
	unsigned count, checked = 0;
	char tag[40];
	int status;
	pid_t pid;

	memset(shared, 0, sizeof(*shared));
	fflush(NULL);
	pid = fork();
	if (pid == 0) {
		child_begin();
		victim();
		_exit(0);
	}
	if (aim == AIM_NONE)
		moment_wait(pid);
	else
		aim_wait(aim, pid);
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	count = test_spools(test_dir, paths, 20011);
	snprintf(tag, sizeof(tag), ".%d.", (int)pid);
	for (unsigned i = 0; i < count; i++) {
		struct trace_reader *reader;
		char err[400];

		if (!strstr(paths[i], tag))
			continue;
		/* Killed while it was being made: then nothing was acknowledged. */
		if (spool_reader_open(paths[i], &reader, err, sizeof(err)) == -ENODATA) {
			assert_int_equal(progress(), 0);
			continue;
		}
		reader->ops->close(reader);
		file_look(paths[i]);
		recording_check(paths[i]);
		children_check(paths, count, paths[i]);
		checked++;
	}
	for (unsigned i = 0; i < count; i++)
		unlink(paths[i]);
	return checked;
}

static void test_kills(void **state)
{
	const char *kills = getenv("WAYLAY_TEST_KILLS"), *seed = getenv("WAYLAY_TEST_SEED");
	int rounds = kills ? atoi(kills) : TEST_SANITIZED ? 29 : 101;
	unsigned checked = 0;

	(void)state;
	random_state = seed ? strtoull(seed, NULL, 0) : 20231;
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	for (int round = 0; round < rounds; round++) {
		static const enum aim aims[MODE_MAX][2] = {
			[MODE_PLAIN] = {AIM_CHUNK, AIM_GROWTH},
			[MODE_FLIGHT] = {AIM_WRAP, AIM_WRAP},
			[MODE_CAP] = {AIM_CHUNK, AIM_GROWTH},
			[MODE_NAMES] = {AIM_CHUNK, AIM_GROWTH},
			[MODE_FORKS] = {AIM_FORK, AIM_CHUNK},
		};

		mode = (enum mode)(round % MODE_MAX);
		checked += kill_once(round / MODE_MAX % 2 ? aims[mode][round / MODE_MAX / 2 % 2]
							  : AIM_NONE);
	}
	print_message(
		"%d kills, %u recordings checked: no committed event lost; killed in the middle of\n"
		"  handing out a chunk %u, growing %u, writing over a chunk %u (%u had wrapped around), "
		"a child's work %u\n  threads in a call: %u, of which named %u\n",
		rounds, checked, found.edges, found.growing, found.taken_over, found.wrapped,
		found.forking, found.calls, found.named);
	assert_true(checked > (unsigned)rounds / 3);
	assert_int_equal(found.calls, found.named);
	if (rounds >= 100)
		assert_true(found.edges > 0 && found.wrapped > 0 && found.forking > 0 &&
			    found.named > 0);
	if (rounds >= 3000)
		assert_true(found.growing > 0 && found.taken_over > 0);
	/* A flight recorder keeps what each thread did last, however long ago. */
	print_message("flight recorders: %u threads' newest record there, %u not\n", newest_there,
		      newest_missing);
	assert_true(newest_there > 0);
	assert_int_equal(newest_missing, 0);
	munmap(shared, sizeof(*shared));
}

int main(void)
{
	const struct CMUnitTest tests[] = {spool_test(test_kills)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
