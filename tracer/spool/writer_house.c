/* SPDX-License-Identifier: Apache-2.0
 *
 * What the housekeeping thread does for the recording, so that the job's threads need not.
 */
#include "tracer/spool/writer.h"

#include <errno.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

#define AHEAD_LEAST 4 /* chunks kept ready */
#define AHEAD_MOST  256
#define REAP_EVERY  16 /* calls */

/* linux/mempolicy.h, which is not everywhere */
#define MPOL_DEFAULT   0
#define MPOL_PREFERRED 1

/* Without MADV_POPULATE_WRITE (before Linux 5.14). The owner of the page may be writing to it. */
static void touch(uint8_t *at, uint64_t bytes)
{
	long page = sysconf(_SC_PAGESIZE);

	for (uint64_t off = 0; off < bytes; off += (uint64_t)page)
		atomic_fetch_or_explicit((_Atomic uint32_t *)(at + off), 0, memory_order_relaxed);
}

static uint64_t own_node(void)
{
	unsigned cpu, node;

	return getcpu(&cpu, &node) == 0 ? SPOOL_NODE_BIT(node) : 0;
}

static void touch_all(uint8_t *at, uint64_t bytes)
{
	if (madvise(at, bytes, MADV_POPULATE_WRITE) != 0 && errno == EINVAL)
		touch(at, bytes);
}

/* Pages come from the memory of whoever touches them first, which is to be the node of the threads that will
 * write to them: one node, asked for while they are touched; unless the job chose a policy of its own. */
static void touch_near(uint8_t *at, uint64_t bytes, uint64_t node)
{
	unsigned long mask = node;
	int policy = MPOL_DEFAULT;
	bool asked = node && node != own_node() &&
		     syscall(SYS_get_mempolicy, &policy, NULL, 0, NULL, 0) == 0 &&
		     policy == MPOL_DEFAULT &&
		     syscall(SYS_set_mempolicy, MPOL_PREFERRED, &mask, sizeof(mask) * 8 + 1) == 0;

	touch_all(at, bytes);
	if (asked)
		syscall(SYS_set_mempolicy, MPOL_DEFAULT, NULL, 0);
}

/* Reserves and touches what will be needed until the next call, by what was needed since the last. */
static void chunks_ahead(struct spool_writer *w)
{
	uint64_t next = atomic_load(&w->header->chunk_next);
	uint64_t ahead = (next - w->house_chunks) * 2, from, to, nodes;
	enum trace_drop why;

	w->house_chunks = next;
	if (ahead < AHEAD_LEAST)
		ahead = AHEAD_LEAST;
	if (ahead > AHEAD_MOST)
		ahead = AHEAD_MOST;
	to = next + ahead < w->chunk_max ? next + ahead : w->chunk_max;
	from = atomic_load(&w->touched);
	if (from < next)
		from = next;
	if (from >= to ||
	    !spool_file_reserve(w, w->header->data_offset + to * w->chunk_bytes, 0, &why))
		return;
	nodes = atomic_exchange_explicit(&w->nodes_seen, 0, memory_order_relaxed);
	/* Threads of several nodes better touch their own, when they take a chunk. */
	if (nodes & (nodes - 1))
		return;
	touch_near(w->data + from * w->chunk_bytes, (to - from) * w->chunk_bytes, nodes);
	atomic_store(&w->touched, to);
}

void spool_housekeep(void)
{
	struct spool_writer *w = spool_writer_open_now();
	int saved = errno;

	if (!w)
		return;
	spool_control_poll(w);
	if (spool_sink)
		spool_sink_tick(w);
	else
		chunks_ahead(w);
	spool_clock_snapshot(w, false);
	if (++w->house_calls % REAP_EVERY == 0)
		spool_threads_reap(w);
	errno = saved;
}
