/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The collectives over the in-process transport: every rank is a thread. Results are compared with
 * a plain computation from what all ranks gave, bit for bit: the values are chosen so that every
 * operation is exact in every type. The transport refuses buffers that are not registered and reads
 * a sender's buffer only when its message is received, so using memory too early shows.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "collectives/coll.h"
#include "collectives/transport_staged.h"
#include "tests/unit/coll_device.h"

#define RANKS_MAX 9
#define CHUNK     4096 /* the smallest: pipelines have many chunks with little data */

enum what { ALL_REDUCE, REDUCE_SCATTER, ALL_GATHER, BROADCAST, ALL_TO_ALL, WHAT_MAX };

/* Where the buffers are and how they get to the network. */
enum way { WAY_HOST, WAY_NAIVE, WAY_STAGED, WAY_DIRECT, WAY_MAX };

struct job {
	enum way way;
	enum what what;
	size_t count;
	enum coll_type type;
	enum coll_op op;
	bool in_place;
	int root;
	enum coll_algorithm algorithm;
	size_t inject;
	size_t cache_entries;
	int window;
	int repeats;
	/* A script of its own instead of one collective. */
	int (*script)(struct coll_comm *comm, struct transport *tp);
};

struct world {
	const struct job *job;
	int ranks;
	struct loop_hub *hub;
	pthread_barrier_t barrier;
};

struct rank {
	struct world *world;
	int rank;
	char failure[512];
};

static double value(const struct job *job, int rank, size_t i)
{
	uint64_t h = (i + 1) * 2654435761u ^ ((uint64_t)rank + 1) * 40503u;
	int v;

	h = (h ^ h >> 15) * 2246822519u;
	h ^= h >> 13;
	if (job->op == COLL_PROD) /* powers of two: exact for 9 ranks even in a half */
		v = h % 3 == 0 ? 2 : 1;
	else
		v = (int)(h % 9);
	if (job->type != COLL_UINT8 && h >> 20 & 1)
		v = -v;
	return v;
}

static double reduced(const struct job *job, int ranks, size_t i)
{
	double acc = value(job, 0, i);

	for (int r = 1; r < ranks; r++) {
		double v = value(job, r, i);

		switch (job->op) {
		case COLL_PROD:
			acc *= v;
			break;
		case COLL_MIN:
			acc = v < acc ? v : acc;
			break;
		case COLL_MAX:
			acc = v > acc ? v : acc;
			break;
		default:
			acc += v;
		}
	}
	if (job->op != COLL_AVG)
		return acc;
	if (job->type < COLL_FLOAT16)
		return trunc(acc / ranks);
	return acc / ranks;
}

static size_t send_count(const struct job *job, int ranks)
{
	return job->what == REDUCE_SCATTER || job->what == ALL_TO_ALL ? job->count * (size_t)ranks
								      : job->count;
}

static size_t recv_count(const struct job *job, int ranks)
{
	return job->what == ALL_GATHER || job->what == ALL_TO_ALL ? job->count * (size_t)ranks
								  : job->count;
}

/* What element i of a rank's receive buffer must be. */
static double expected(const struct job *job, int ranks, int rank, size_t i)
{
	size_t n = job->count;

	switch (job->what) {
	case ALL_REDUCE:
		return reduced(job, ranks, i);
	case REDUCE_SCATTER:
		return reduced(job, ranks, (size_t)rank * n + i);
	case ALL_GATHER:
		return value(job, (int)(i / n), i % n);
	case BROADCAST:
		return value(job, job->root, i);
	default: /* block b comes from rank b, which had it at place `rank` */
		return value(job, (int)(i / n), (size_t)rank * n + i % n);
	}
}

static int call(struct coll_comm *comm, const struct job *job, const void *send, void *recv)
{
	switch (job->what) {
	case ALL_REDUCE:
		return coll_all_reduce(comm, send, recv, job->count, job->type, job->op);
	case REDUCE_SCATTER:
		return coll_reduce_scatter(comm, send, recv, job->count, job->type, job->op);
	case ALL_GATHER:
		return coll_all_gather(comm, send, recv, job->count, job->type);
	case BROADCAST:
		return coll_broadcast(comm, send, recv, job->count, job->type, job->root);
	default:
		return coll_all_to_all(comm, send, recv, job->count, job->type);
	}
}

/* Memory of the exact size, so that ASan sees a byte too many; with guards for the other builds. */
struct buffers {
	char *send_base, *recv_base, *send, *recv;
	size_t send_bytes, recv_bytes;
};

#define GUARD 64

static char *guarded(size_t bytes)
{
	char *p = malloc(bytes + 2 * GUARD);

	if (p)
		memset(p, 0xa5, bytes + 2 * GUARD);
	return p;
}

static int guard_broken(const char *base, size_t bytes)
{
	for (size_t i = 0; i < GUARD; i++) {
		if ((uint8_t)base[i] != 0xa5 || (uint8_t)base[GUARD + bytes + i] != 0xa5)
			return 1;
	}
	return 0;
}

static void make_buffers(struct buffers *b, const struct job *job, int ranks, int rank)
{
	size_t esize = coll_type_bytes(job->type);
	size_t block = job->count * esize;

	b->send_bytes = send_count(job, ranks) * esize;
	b->recv_bytes = recv_count(job, ranks) * esize;
	b->send_base = guarded(b->send_bytes);
	b->recv_base = guarded(b->recv_bytes);
	b->send = b->send_base + GUARD;
	b->recv = b->recv_base + GUARD;
	if (!job->in_place)
		return;
	if (job->what == REDUCE_SCATTER) {
		b->recv = b->send + (size_t)rank * block;
	} else if (job->what == ALL_GATHER) {
		b->send = b->recv + (size_t)rank * block;
	} else {
		b->send = b->recv;
	}
}

static void fill_send(const struct buffers *b, const struct job *job, int ranks, int rank)
{
	for (size_t i = 0; i < send_count(job, ranks); i++)
		coll_store(b->send, i, job->type, value(job, rank, i));
}

static int check(struct rank *r, const struct buffers *b, const struct job *job)
{
	size_t esize = coll_type_bytes(job->type);
	int ranks = r->world->ranks;
	char want[8];

	for (size_t i = 0; i < recv_count(job, ranks); i++) {
		coll_store(want, 0, job->type, expected(job, ranks, r->rank, i));
		if (memcmp(want, b->recv + i * esize, esize) != 0) {
			snprintf(r->failure, sizeof(r->failure), "element %zu is %g, not %g", i,
				 coll_load(b->recv, i, job->type), coll_load(want, 0, job->type));
			return 1;
		}
	}
	for (size_t i = 0; !job->in_place && i < send_count(job, ranks); i++) {
		coll_store(want, 0, job->type, value(job, r->rank, i));
		if (memcmp(want, b->send + i * esize, esize) != 0) {
			snprintf(r->failure, sizeof(r->failure), "send element %zu changed", i);
			return 1;
		}
	}
	if (guard_broken(b->send_base, b->send_bytes) ||
	    guard_broken(b->recv_base, b->recv_bytes)) {
		snprintf(r->failure, sizeof(r->failure), "wrote beside a buffer");
		return 1;
	}
	return 0;
}

static void run_job(struct rank *r, struct coll_comm *comm)
{
	const struct job *job = r->world->job;
	struct buffers b;

	make_buffers(&b, job, r->world->ranks, r->rank);
	for (int i = 0; i < job->repeats && !r->failure[0]; i++) {
		fill_send(&b, job, r->world->ranks, r->rank);
		if (call(comm, job, b.send, b.recv))
			snprintf(r->failure, sizeof(r->failure), "%s", coll_error(comm));
		else
			check(r, &b, job);
	}
	coll_forget(comm, b.send, b.send_bytes);
	coll_forget(comm, b.recv, b.recv_bytes);
	free(b.send_base);
	free(b.recv_base);
}

/* The transport of a job's way; a device where there is one. */
static struct transport *open_way(struct rank *r, struct coll_device **device)
{
	const struct job *job = r->world->job;
	struct staged_config staged = {.pipelined = job->way == WAY_STAGED,
				       .slot_bytes = CHUNK,
				       .slots = 2 * COLL_WINDOW_MAX};
	struct transport *tp, *outer;
	char error[TP_ERROR_BYTES];

	*device = NULL;
	tp_open_loop(r->world->hub, r->rank, job->inject, &tp);
	if (job->way == WAY_HOST)
		return tp;
	*device = test_device_new(job->way == WAY_DIRECT);
	if (job->way == WAY_DIRECT)
		return tp;
	if (!tp_open_staged(tp, *device, &staged, &outer, error))
		return outer;
	snprintf(r->failure, sizeof(r->failure), "%s", error);
	return tp;
}

static void check_leaks(struct rank *r, const struct transport *tp,
			const struct coll_device *device)
{
	/* Bounce buffers, and their registration, go with the transport. */
	int left = tp->stages ? 1 : 0;
	int leaked = (int)(tp->stats.registrations - tp->stats.deregistrations);

	if (!r->failure[0] && leaked != left)
		snprintf(r->failure, sizeof(r->failure), "%d registrations leaked", leaked - left);
	if (!r->failure[0] && device && test_device_live(device) != left)
		snprintf(r->failure, sizeof(r->failure), "device memory leaked");
}

static void *rank_main(void *arg)
{
	struct rank *r = arg;
	struct world *w = r->world;
	struct coll_config config = coll_config_default();
	struct coll_device *device;
	struct transport *tp = open_way(r, &device);
	struct coll_comm *comm = NULL;
	char error[TP_ERROR_BYTES];

	pthread_barrier_wait(&w->barrier);
	tp_connect(tp, NULL, r->rank, w->ranks);
	config.device = device;
	config.chunk_bytes = CHUNK;
	config.algorithm = w->job->algorithm;
	config.cache_entries = w->job->cache_entries;
	config.window = w->job->window;
	if (coll_comm_new(tp, &config, &comm, error)) {
		snprintf(r->failure, sizeof(r->failure), "%s", error);
	} else if (w->job->script) {
		if (w->job->script(comm, tp))
			snprintf(r->failure, sizeof(r->failure), "%s", coll_error(comm));
	} else {
		run_job(r, comm);
	}
	if (!r->failure[0] && coll_barrier(comm))
		snprintf(r->failure, sizeof(r->failure), "barrier: %s", coll_error(comm));
	coll_comm_free(comm);
	check_leaks(r, tp, device);
	pthread_barrier_wait(&w->barrier); /* nobody sends to a closed endpoint */
	tp_close(tp);
	device_close(device);
	return NULL;
}

/* Runs a job on `ranks` threads; fails the test with the first rank's words. */
static void run(const struct job *job, int ranks)
{
	struct world w = {.job = job, .ranks = ranks, .hub = loop_hub_new(ranks)};
	struct rank r[RANKS_MAX];
	pthread_t thread[RANKS_MAX];

	assert_non_null(w.hub);
	pthread_barrier_init(&w.barrier, NULL, (unsigned int)ranks);
	for (int i = 0; i < ranks; i++) {
		r[i] = (struct rank){.world = &w, .rank = i};
		assert_int_equal(pthread_create(&thread[i], NULL, rank_main, &r[i]), 0);
	}
	for (int i = 0; i < ranks; i++)
		pthread_join(thread[i], NULL);
	pthread_barrier_destroy(&w.barrier);
	loop_hub_free(w.hub);
	for (int i = 0; i < ranks; i++) {
		if (r[i].failure[0])
			fail_msg("rank %d of %d, way %d, what %d, %zu %s, %s, %s%s: %s", i, ranks,
				 job->way, job->what, job->count, coll_type_name(job->type),
				 coll_op_name(job->op), coll_algorithm_name(job->algorithm),
				 job->in_place ? ", in place" : "", r[i].failure);
	}
}

static struct job job_of(enum what what, size_t count)
{
	return (struct job){.what = what,
			    .count = count,
			    .type = COLL_FLOAT32,
			    .op = COLL_SUM,
			    .inject = 64,
			    .cache_entries = 16,
			    .repeats = 2};
}

/* Counts around a cache line, a chunk (1024 floats), several rounds of the pipeline. */
static const size_t counts[] = {0, 1, 3, 17, 1024, 1025, 4099, 20011};
static const int rank_counts[] = {1, 2, 3, 5, 8};

#define EACH(i, array) (size_t i = 0; i < sizeof(array) / sizeof((array)[0]); i++)

static void sweep(enum what what, enum coll_algorithm algorithm)
{
	for
		EACH(n, rank_counts)
		{
		for
			EACH(c, counts)
			{
				struct job job = job_of(what, counts[c]);

				job.algorithm = algorithm;
				run(&job, rank_counts[n]);
				if (what == ALL_TO_ALL)
					continue;
				job.in_place = true;
				job.root = rank_counts[n] - 1;
				job.inject = 0;
				run(&job, rank_counts[n]);
			}
		}
}

static void test_all_reduce_ring(void **state)
{
	(void)state;
	sweep(ALL_REDUCE, COLL_RING);
}

static void test_all_reduce_doubling(void **state)
{
	(void)state;
	sweep(ALL_REDUCE, COLL_RECURSIVE_DOUBLING);
}

static void test_all_reduce_rabenseifner(void **state)
{
	(void)state;
	sweep(ALL_REDUCE, COLL_RABENSEIFNER);
}

static void test_all_reduce_auto(void **state)
{
	(void)state;
	sweep(ALL_REDUCE, COLL_AUTO);
}

static void test_reduce_scatter(void **state)
{
	(void)state;
	sweep(REDUCE_SCATTER, COLL_RING);
	sweep(REDUCE_SCATTER, COLL_DIRECT);
}

static void test_all_gather(void **state)
{
	(void)state;
	sweep(ALL_GATHER, COLL_RING);
	sweep(ALL_GATHER, COLL_DIRECT);
}

static void test_broadcast(void **state)
{
	(void)state;
	sweep(BROADCAST, COLL_TREE);
	sweep(BROADCAST, COLL_RING);
}

static void test_all_to_all(void **state)
{
	(void)state;
	sweep(ALL_TO_ALL, COLL_AUTO);
}

/* The same collectives over device memory, whichever way it gets to the network. */
static void test_device_ways(void **state)
{
	static const enum coll_algorithm algorithms[WHAT_MAX][4] = {
		[ALL_REDUCE] = {COLL_RING, COLL_RECURSIVE_DOUBLING, COLL_RABENSEIFNER, COLL_AUTO},
		[REDUCE_SCATTER] = {COLL_RING, COLL_DIRECT},
		[ALL_GATHER] = {COLL_RING, COLL_DIRECT},
		[BROADCAST] = {COLL_TREE, COLL_RING},
		[ALL_TO_ALL] = {COLL_AUTO},
	};
	static const int ranks[] = {2, 5};
	static const size_t some[] = {1, 1025, 9001};

	(void)state;
	for (int way = WAY_NAIVE; way < WAY_MAX; way++)
		for (int what = 0; what < WHAT_MAX; what++)
			for (int a = 0; a < 4 && (!a || algorithms[what][a]); a++)
				for (size_t i = 0; i < 6; i++) {
					struct job job = job_of((enum what)what, some[i % 3]);

					job.way = (enum way)way;
					job.algorithm = algorithms[what][a];
					job.op = i % 2 ? COLL_AVG : COLL_SUM;
					job.in_place = what != ALL_TO_ALL && i % 4 == 3;
					run(&job, ranks[i / 3]);
				}
}

/* Device memory that was freed and allocated again at its old address is registered anew, although
 * nobody said that it went away. */
static int reuse_script(struct coll_comm *comm, struct transport *tp)
{
	/* The buffer is exactly as long as a device's own small allocations are apart. */
	float *data = calloc(512, sizeof(*data));
	uint64_t before, again, after;
	int rc = coll_all_reduce(comm, data, data, 512, COLL_FLOAT32, COLL_SUM);

	before = tp->stats.registrations;
	for (int i = 0; i < 3 && !rc; i++)
		rc = coll_all_reduce(comm, data, data, 512, COLL_FLOAT32, COLL_SUM);
	again = tp->stats.registrations;
	test_device_renumber(coll_device_of(comm));
	if (!rc)
		rc = coll_all_reduce(comm, data, data, 512, COLL_FLOAT32, COLL_SUM);
	after = tp->stats.registrations;
	if (!rc && (again != before || after != again + 1))
		rc = tp_fail(tp, -EIO, "%d and %d registrations, not 0 and 1",
			     (int)(again - before), (int)(after - again));
	if (!rc)
		rc = coll_barrier(comm);
	coll_forget(comm, data, 512 * sizeof(*data));
	free(data);
	return rc;
}

static void test_device_reuse(void **state)
{
	struct job job = job_of(ALL_REDUCE, 0);

	(void)state;
	job.way = WAY_DIRECT;
	job.script = reuse_script;
	run(&job, 2);
}

/* Every type with every operation, by every way to reduce. */
static void test_types(void **state)
{
	static const struct {
		enum what what;
		enum coll_algorithm algorithm;
	} ways[] = {
		{ALL_REDUCE, COLL_RING},         {ALL_REDUCE, COLL_RECURSIVE_DOUBLING},
		{ALL_REDUCE, COLL_RABENSEIFNER}, {REDUCE_SCATTER, COLL_RING},
		{REDUCE_SCATTER, COLL_DIRECT},
	};

	(void)state;
	for
		EACH(w, ways)
		{
			for (int type = 0; type < COLL_TYPE_MAX; type++) {
				for (int op = 0; op < COLL_OP_MAX; op++) {
					struct job job = job_of(ways[w].what, 1511);

					job.algorithm = ways[w].algorithm;
					job.type = (enum coll_type)type;
					job.op = (enum coll_op)op;
					job.in_place = op & 1;
					run(&job, 2);
					run(&job, 5);
				}
			}
		}
}

/* Every depth of the pipeline, with several rounds. */
static void test_windows(void **state)
{
	(void)state;
	for (int window = 2; window <= COLL_WINDOW_MAX; window++) {
		for (int what = ALL_REDUCE; what <= BROADCAST; what++) {
			struct job job = job_of((enum what)what, 30011);

			job.algorithm = COLL_RING;
			job.window = window;
			job.in_place = window & 1;
			run(&job, 2);
			run(&job, 4);
		}
	}
}

static void test_cache_off(void **state)
{
	struct job job = job_of(ALL_REDUCE, 4099);

	(void)state;
	job.cache_entries = 0;
	job.repeats = 5;
	run(&job, 3);
}

/* Buffers are registered once, whatever the number of calls. */
static int script_registers_once(struct coll_comm *comm, struct transport *tp)
{
	static const size_t n = 5003;
	float *a = calloc(n, sizeof(*a)), *b = calloc(n, sizeof(*b));
	uint64_t before;
	int rc = coll_all_reduce(comm, a, b, n, COLL_FLOAT32, COLL_SUM);

	before = tp->stats.registrations;
	for (int i = 0; i < 11 && !rc; i++)
		rc = coll_all_reduce(comm, a, b, n, COLL_FLOAT32, COLL_SUM);
	if (!rc && tp->stats.registrations != before)
		rc = tp_fail(tp, -EIO, "%d registrations for buffers that were known",
			     (int)(tp->stats.registrations - before));
	coll_forget(comm, a, n * sizeof(*a));
	coll_forget(comm, b, n * sizeof(*b));
	free(a);
	free(b);
	return rc;
}

static void test_registers_once(void **state)
{
	struct job job = job_of(ALL_REDUCE, 0);

	(void)state;
	job.script = script_registers_once;
	run(&job, 4);
}

/* A ring whose first element is NaN-free but rounds: the same bits on all ranks. */
static int script_same_bits(struct coll_comm *comm, struct transport *tp)
{
	static const size_t n = 3001;
	float *a = calloc(n, sizeof(*a)), *all = NULL;
	int rc;

	for (size_t i = 0; i < n; i++)
		a[i] = 1.0f / (float)((size_t)tp->rank * 7 + i + 1);
	rc = coll_all_reduce(comm, a, a, n, COLL_FLOAT32, COLL_SUM);
	all = calloc(n * (size_t)tp->size, sizeof(*all));
	if (!rc)
		rc = coll_all_gather(comm, a, all, n, COLL_FLOAT32);
	for (int r = 0; r < tp->size && !rc; r++) {
		if (memcmp((void *)a, (void *)(all + (size_t)r * n), n * sizeof(*a)) != 0)
			rc = tp_fail(tp, -EIO, "rank %d has other bits than rank %d", r, tp->rank);
	}
	coll_forget(comm, a, n * sizeof(*a));
	coll_forget(comm, all, n * (size_t)tp->size * sizeof(*all));
	free(a);
	free(all);
	return rc;
}

static void test_same_bits(void **state)
{
	(void)state;
	for (int algorithm = COLL_AUTO; algorithm <= COLL_RABENSEIFNER; algorithm++) {
		struct job job = job_of(ALL_REDUCE, 0);

		job.algorithm = (enum coll_algorithm)algorithm;
		job.script = script_same_bits;
		run(&job, 7);
	}
}

static int script_one_sided(struct coll_comm *comm, struct transport *tp)
{
	static char target[64];
	static struct tp_region *shared;
	struct tp_range range = {.addr = target, .bytes = sizeof(target), .dmabuf_fd = -1};
	char text[] = "written by rank 1";
	struct tp_region *mine = NULL;
	struct tp_req req = {.state = TP_IDLE};
	int rc = 0;

	if (tp->rank == 0)
		rc = tp_register(tp, &range, &shared);
	if (!rc)
		rc = coll_barrier(comm);
	if (!rc && tp->rank == 1 && shared) {
		range = (struct tp_range){.addr = text, .bytes = sizeof(text), .dmabuf_fd = -1};
		rc = tp_register(tp, &range, &mine);
		if (!rc)
			rc = tp_write(tp, 0, text, sizeof(text), mine, shared->remote_base + 3,
				      shared->key, &req);
		if (!rc)
			rc = tp_wait(tp, &req);
		tp_deregister(tp, mine);
	}
	if (!rc)
		rc = coll_barrier(comm);
	if (!rc && tp->rank == 0) {
		if (strcmp(target + 3, "written by rank 1") != 0)
			rc = tp_fail(tp, -EIO, "the write did not arrive");
		tp_deregister(tp, shared);
	}
	return rc;
}

static void test_one_sided(void **state)
{
	struct job job = job_of(ALL_REDUCE, 0);

	(void)state;
	job.script = script_one_sided;
	run(&job, 2);
}

/* A rank whose peers never come gives up with words, in time. */
static void test_timeout(void **state)
{
	struct loop_hub *hub = loop_hub_new(2);
	struct coll_config config = coll_config_default();
	struct transport *tp, *silent;
	struct coll_comm *comm;
	char error[TP_ERROR_BYTES];
	int64_t start;

	(void)state;
	tp_open_loop(hub, 0, 64, &tp);
	tp_open_loop(hub, 1, 64, &silent);
	tp_connect(tp, NULL, 0, 2);
	tp->timeout_ns = 50000000;
	assert_int_equal(coll_comm_new(tp, &config, &comm, error), 0);
	start = tp_now_ns();
	assert_int_equal(coll_barrier(comm), -ETIMEDOUT);
	assert_true(tp_now_ns() - start < (int64_t)10 * 1000000000);
	assert_non_null(strstr(coll_error(comm), "waited "));
	assert_int_equal(coll_barrier(comm), -ETIMEDOUT); /* stays broken */
	coll_comm_free(comm);
	tp_close(tp);
	tp_close(silent);
	loop_hub_free(hub);
}

static int script_mismatch(struct coll_comm *comm, struct transport *tp)
{
	char data[64] = {0};
	/* Rank 1 believes in other counts. */
	int rc = coll_all_reduce(comm, data, data, tp->rank ? 16 : 8, COLL_UINT8, COLL_SUM);

	if (rc != -EPROTO || !strstr(coll_error(comm), "same collective"))
		return tp_fail(tp, -EIO, "a mismatch of counts went unnoticed");
	tp->broken = 0; /* the harness still wants its barrier */
	return 0;
}

static void test_mismatch(void **state)
{
	struct job job = job_of(ALL_REDUCE, 0);

	(void)state;
	job.script = script_mismatch;
	job.cache_entries = 0;
	run(&job, 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_all_reduce_ring),
		cmocka_unit_test(test_all_reduce_doubling),
		cmocka_unit_test(test_all_reduce_rabenseifner),
		cmocka_unit_test(test_all_reduce_auto),
		cmocka_unit_test(test_reduce_scatter),
		cmocka_unit_test(test_all_gather),
		cmocka_unit_test(test_broadcast),
		cmocka_unit_test(test_all_to_all),
		cmocka_unit_test(test_device_ways),
		cmocka_unit_test(test_device_reuse),
		cmocka_unit_test(test_types),
		cmocka_unit_test(test_windows),
		cmocka_unit_test(test_cache_off),
		cmocka_unit_test(test_registers_once),
		cmocka_unit_test(test_same_bits),
		cmocka_unit_test(test_one_sided),
		cmocka_unit_test(test_timeout),
		cmocka_unit_test(test_mismatch),
	};

	return cmocka_run_group_tests_name("coll", tests, NULL, NULL);
}
