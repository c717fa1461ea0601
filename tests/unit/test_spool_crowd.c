/* SPDX-License-Identifier: Apache-2.0
 *
 * Spool: ten thousand threads at once, each in a call; and whose memory pages are touched ahead in.
 */
#include "tests/unit/test_spool.h"
#include "tracer/spool/writer.h"

#include <pthread.h>
#include <sys/statvfs.h>

#define CROWD  10007
#define EVENTS 3

static pthread_barrier_t all_in;
static int gate[2];
static _Atomic unsigned failed;

static void *one_of_many(void *arg)
{
	uintptr_t who = (uintptr_t)arg;
	char end;

	for (uint64_t n = 0; n < EVENTS; n++)
		if (!test_emit(who, n))
			atomic_fetch_add(&failed, 1);
	spool_enter(WL_EV_cuda_wait, spool_intern_string("cuWait", 6), spool_now(), (uint32_t)who,
		    who);
	pthread_barrier_wait(&all_in);
	if (read(gate[0], &end, 1) != 0)
		atomic_fetch_add(&failed, 1);
	return NULL;
}

static void crowd_check(struct trace_reader *reader)
{
	static struct trace_inflight in[CROWD + 1];
	static bool seen[CROWD];
	unsigned count = reader->ops->inflight(reader, in, CROWD + 1);

	child_check(count == CROWD);
	for (unsigned i = 0; i < count; i++) {
		child_check(in[i].stack < CROWD && !seen[in[i].stack]);
		child_check(strcmp(in[i].api, "cuWait") == 0);
		seen[in[i].stack] = true;
	}
	child_check(reader->thread_count == CROWD);
	child_check(test_count(reader, -1, -1, 0) == (uint64_t)CROWD * EVENTS);
	child_check(test_drops(reader->info.drops) == 0 && !reader->info.damaged);
	reader->ops->close(reader);
}

static void write_crowd(void)
{
	struct spool_settings s = test_settings();
	pthread_attr_t small;
	struct statvfs fs;

	/* A chunk each. */
	if (statvfs(test_dir, &fs) != 0 || (uint64_t)fs.f_bavail * fs.f_frsize < 2ull << 30)
		_exit(77);
	s.max_bytes = 1u << 30;
	child_open(&s);
	child_check(pipe(gate) == 0);
	pthread_barrier_init(&all_in, NULL, CROWD + 1);
	pthread_attr_init(&small);
	pthread_attr_setstacksize(&small, 64 * 1024);
	for (uintptr_t i = 0; i < CROWD; i++) {
		pthread_t thread;

		if (pthread_create(&thread, &small, one_of_many, (void *)i) != 0)
			_exit(77); /* a limit on threads */
		pthread_detach(thread);
	}
	pthread_barrier_wait(&all_in);
	child_check(atomic_load(&failed) == 0);
	crowd_check(test_open_only());
}

static void test_crowd(void **state)
{
	int status;

	(void)state;
	if (TEST_SANITIZED)
		skip(); /* a sanitizer's threads are too large */
	status = test_child(write_crowd);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
		skip();
	assert_int_equal(status, 0);
}

/* --- memory nodes: this machine may have one alone, so what is seen is said here --------------- */

static void write_nodes(void)
{
	struct spool_settings s = test_settings();
	uint64_t touched;
	uint64_t n = 0;

	child_open(&s);
	while (atomic_load(&spool_writer->header->chunk_next) < 7)
		child_check(test_emit(0, n++));
	child_check(atomic_load(&spool_writer->nodes_seen) != 0);
	spool_housekeep();
	child_check(atomic_load(&spool_writer->nodes_seen) == 0);
	touched = atomic_load(&spool_writer->touched);
	child_check(touched > atomic_load(&spool_writer->header->chunk_next));
	while (atomic_load(&spool_writer->header->chunk_next) < touched + 3)
		child_check(test_emit(0, n++));
	/* Threads of two nodes touch their own. */
	atomic_store(&spool_writer->nodes_seen, SPOOL_NODE_BIT(0) | SPOOL_NODE_BIT(1));
	spool_housekeep();
	child_check(atomic_load(&spool_writer->touched) == touched);
	/* A node that this machine does not have: touched all the same. */
	atomic_store(&spool_writer->nodes_seen, SPOOL_NODE_BIT(61));
	spool_housekeep();
	child_check(atomic_load(&spool_writer->touched) > touched);
	child_check(SPOOL_NODE_BIT(63) == SPOOL_NODE_BIT(1000));
}

static void test_nodes(void **state)
{
	(void)state;
	run_child(write_nodes);
}

int main(void)
{
	const struct CMUnitTest tests[] = {spool_test(test_crowd), spool_test(test_nodes)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
