/* SPDX-License-Identifier: Apache-2.0
 *
 * Spool: file systems that are full, of every size that ends the recording at another step of its growth:
 * before its first chunk, at each of the next ones, within names, within slots. The job gets no signal, and
 * every event is there or counted.
 *
 * WAYLAY_TEST_LONG: as many sizes of those that take long to make as of tmpfs; WAYLAY_TEST_SIZES: how many;
 * WAYLAY_TEST_SEED: where the random choices begin.
 */
#include "tests/unit/test_spool.h"
#include "tracer/spool/writer.h"

#include <pthread.h>
#include <sched.h>
#include <sys/mount.h>

#define SIZES_MOST 1000
#define EVENTS     90001 /* of a job, more than the largest file system holds */
#define THREADS    211

enum mode { MODE_EVENTS, MODE_NAMES, MODE_THREADS, MODE_FLIGHT, MODE_MAX };

static struct shared {
	uint64_t recorded, lost, names_lost;
	uint64_t chunks; /* that were reserved at the end */
	bool refused;    /* no room for the beginning */
} * shared;

static enum mode mode;
static unsigned long bytes;
static const char *file_system; /* "tmpfs", or what mkfs.NAME makes in a file on a loop device */

static uint64_t random_state;

static uint64_t random_next(void)
{
	random_state = random_state * 6364136223846793005ull + 1442695040888963407ull;
	return random_state >> 33;
}

/* --- the job ---------------------------------------------------------------------------------- */

static void count(bool recorded)
{
	__atomic_fetch_add(recorded ? &shared->recorded : &shared->lost, 1, __ATOMIC_RELAXED);
}

static void events(uint64_t who, uint64_t many)
{
	for (uint64_t n = 0; n < many; n++) {
		count(test_emit(who, n));
		if (random_next() % 5003 == 0)
			spool_housekeep();
	}
}

static void names(void)
{
	char text[1200];

	memset(text, 'n', sizeof(text));
	for (uint64_t n = 0; n < 5003; n++) {
		int length = snprintf(text, sizeof(text), "%u", (unsigned)n);

		text[length] = 'n';
		shared->names_lost += spool_intern_string(text, 100 + random_next() % 1000) == 0;
		count(test_emit(0, n));
	}
}

static void *few(void *arg)
{
	for (uint64_t n = 0; n < 7; n++)
		count(test_emit((uintptr_t)arg, n));
	return NULL;
}

/* Each has a slot and a chunk. */
static void threads(void)
{
	for (uintptr_t i = 0; i < THREADS; i++) {
		pthread_t thread;

		child_check(pthread_create(&thread, NULL, few, (void *)i) == 0);
		if (i % 3 == 0)
			pthread_join(thread, NULL);
		else
			pthread_detach(thread);
	}
	while (__atomic_load_n(&shared->recorded, __ATOMIC_RELAXED) +
		       __atomic_load_n(&shared->lost, __ATOMIC_RELAXED) <
	       THREADS * 7)
		sched_yield();
}

static void place_make(void)
{
	char command[900];

	/* in a mount name space of its own, where the file system goes away with the process */
	if (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0)
		_exit(77);
	if (strcmp(file_system, "tmpfs") == 0) {
		snprintf(command, sizeof(command), "size=%lu", bytes);
		if (mount("none", test_dir, "tmpfs", 0, command) != 0)
			_exit(77);
		return;
	}
	snprintf(
		command, sizeof(command),
		"f=$(mktemp) && truncate -s %lu $f && mkfs.%s -q -F -m 0 -b 1024 -O ^has_journal $f "
		">/dev/null 2>&1 && mount -o loop $f '%s' 2>/dev/null; s=$?; rm -f $f; exit $s",
		bytes, file_system, test_dir);
	if (system(command) != 0)
		_exit(77);
}

static void check(void)
{
	struct trace_reader *reader = test_open_only();
	uint64_t lost = test_drops(reader->info.drops);

	assert_false(reader->info.damaged);
	if (mode == MODE_FLIGHT) {
		uint64_t there = test_count(reader, -1, -1, 0);

		assert_int_equal(there + lost, shared->recorded + shared->lost);
	} else {
		assert_int_equal(test_count(reader, -1, -1, 0), shared->recorded);
		assert_int_equal(lost, shared->lost + shared->names_lost);
		assert_int_equal(reader->info.drops[TRACE_DROP_INTERN], shared->names_lost);
	}
	reader->ops->close(reader);
}

static void job(void)
{
	struct spool_settings s = test_settings();

	place_make();
	s.max_bytes = 8u << 20;
	s.flight_recorder = mode == MODE_FLIGHT;
	if (spool_writer_open(&s) != 0) {
		child_check(strstr(spool_error(), "No space left") != NULL);
		shared->refused = true;
		/* As if nobody traced it. */
		child_check(!test_emit(0, 0) && !spool_intern_string("a", 1));
		child_check(test_spools(test_dir, NULL, 0) == 0);
		return;
	}
	if (mode == MODE_NAMES)
		names();
	else if (mode == MODE_THREADS)
		threads();
	else
		events(0, EVENTS);
	shared->chunks = (atomic_load(&spool_writer->header->reserved_bytes) -
			  spool_writer->header->data_offset) /
			 spool_writer->chunk_bytes;
	spool_writer_end();
	check();
}

/* --- sizes ------------------------------------------------------------------------------------ */

/* False: such a file system cannot be had. */
static bool size_try(void)
{
	int status;

	memset(shared, 0, sizeof(*shared));
	status = test_child(job);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
		return false;
	if (status != 0)
		fail_msg("%s of %lu bytes, mode %d: status %#x", file_system, bytes, mode, status);
	return true;
}

/* One after the other, each a chunk larger than the last and a few pages that are of no use. */
static void sweep(unsigned sizes, unsigned long own)
{
	const char *wanted = getenv("WAYLAY_TEST_SIZES"), *seed = getenv("WAYLAY_TEST_SEED");
	unsigned all = wanted ? (unsigned)atoi(wanted) : sizes, ends[SIZES_MOST] = {0};
	unsigned refused = 0, most = 0, missing = 0;

	random_state = seed ? strtoull(seed, NULL, 0) : 60013;
	shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	for (unsigned i = 0; i < all * MODE_MAX; i++) {
		mode = (enum mode)(i % MODE_MAX);
		bytes = own + (3ul + i / MODE_MAX) * SPOOL_CHUNK_BYTES + random_next() % 16 * 4096;
		if (!size_try()) {
			print_message("no %s can be made and mounted here\n", file_system);
			skip();
		}
		refused += shared->refused;
		if (shared->refused || shared->chunks >= SIZES_MOST)
			continue;
		ends[shared->chunks]++;
		most = shared->chunks > most ? (unsigned)shared->chunks : most;
	}
	munmap(shared, 4096);
	for (unsigned i = 4; i < most; i++)
		missing += !ends[i];
	print_message(
		"%s: %u recordings, %u without room for the beginning, the others ended at every "
		"step from 4 to %u chunks but %u\n",
		file_system, all * MODE_MAX, refused, most, missing);
	assert_true(refused > 0 && ends[4] > 0 && most >= 4 + all / 2);
	assert_int_equal(missing, 0);
}

static void test_tmpfs(void **state)
{
	(void)state;
	file_system = "tmpfs";
	sweep(31, 0);
}

static void test_ext4(void **state)
{
	(void)state;
	file_system = "ext4";
	sweep(getenv("WAYLAY_TEST_LONG") ? 31 : 4, 64 * 1024);
}

/* Blocks cannot be reserved there: zeros are written instead. */
static void test_ext2(void **state)
{
	(void)state;
	file_system = "ext2";
	sweep(getenv("WAYLAY_TEST_LONG") ? 31 : 4, 64 * 1024);
}

int main(void)
{
	const struct CMUnitTest tests[] = {spool_test(test_tmpfs), spool_test(test_ext4),
					   spool_test(test_ext2)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
