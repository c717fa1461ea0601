/* SPDX-License-Identifier: Apache-2.0 */
/* Communicators: set-up, registration of users' buffers, messages. */
#include "collectives/comm.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/mman.h>
#include <unistd.h>

/* A few chunks stay in a second-level cache between their arrival and their reduction. */
#define CHUNK_DEFAULT  (512u << 10)
#define WINDOW_DEFAULT 4
#define CHUNK_MIN      (4u << 10)
#define CHUNK_MAX      (64u << 20)
#define RANKS_MAX      (1 << 16) /* a tag has 16 bits for the sender */

static const char *const algorithm_names[COLL_ALGORITHM_MAX] = {
	"auto", "ring", "recursive-doubling", "rabenseifner", "direct", "tree",
};

const char *coll_algorithm_name(enum coll_algorithm algorithm)
{
	return algorithm_names[algorithm];
}

int coll_algorithm_parse(const char *name, enum coll_algorithm *out)
{
	for (int i = 0; i < COLL_ALGORITHM_MAX; i++) {
		if (strcasecmp(name, algorithm_names[i]) != 0)
			continue;
		*out = (enum coll_algorithm)i;
		return 0;
	}
	return -EINVAL;
}

struct coll_config coll_config_default(void)
{
	return (struct coll_config){.registering = COLL_REGISTER_ALWAYS,
				    .cache_entries = 1024,
				    .cache_bytes = SIZE_MAX};
}

const char *coll_error(const struct coll_comm *comm)
{
	return tp_error(comm->tp);
}

/* --- set-up --------------------------------------------------------------------------------- */

static int cache_reg(void *ctx, uint64_t addr, size_t bytes, uint32_t space, void **handle)
{
	struct coll_comm *comm = ctx;
	struct tp_range range = {.addr = (void *)(uintptr_t)addr,
				 .bytes = bytes,
				 .memory = (enum tp_memory)space,
				 .dmabuf_fd = -1};
	struct tp_region *region;
	int rc = tp_register(comm->tp, &range, &region);

	*handle = region;
	return rc;
}

static void cache_dereg(void *ctx, void *handle)
{
	struct coll_comm *comm = ctx;

	tp_deregister(comm->tp, handle);
}

static int make_cache(struct coll_comm *comm)
{
	struct mr_cache_config config = {.max_entries = comm->config.cache_entries,
					 .max_bytes = comm->config.cache_bytes,
					 .page_bytes = (size_t)sysconf(_SC_PAGESIZE),
					 .reg = cache_reg,
					 .dereg = cache_dereg,
					 .ctx = comm};

	comm->cache = mr_cache_new(&config);
	return comm->cache ? 0 : -ENOMEM;
}

static int make_scratch(struct coll_comm *comm)
{
	struct tp_range range = {.dmabuf_fd = -1};
	size_t bytes = comm->config.chunk_bytes * (size_t)comm->config.window;
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		return -ENOMEM;
	comm->scratch = p;
	comm->scratch_bytes = bytes;
	madvise(p, bytes, MADV_HUGEPAGE); /* fewer pages to look up; harmless where refused */
	memset(p, 0, bytes);              /* page faults now, not in the first collective */
	if (comm->config.registering != COLL_REGISTER_ALWAYS && !comm->tp->needs_regions)
		return 0;
	range.addr = p;
	range.bytes = bytes;
	return tp_register(comm->tp, &range, &comm->scratch_region);
}

static size_t sane_chunk(const struct transport *tp, size_t chunk)
{
	if (!chunk)
		chunk = CHUNK_DEFAULT;
	if (chunk > tp->max_msg_bytes)
		chunk = tp->max_msg_bytes;
	if (chunk < CHUNK_MIN)
		chunk = CHUNK_MIN;
	if (chunk > CHUNK_MAX)
		chunk = CHUNK_MAX;
	return chunk & ~(size_t)63; /* whole elements of every type, whole cache lines */
}

static int sane_window(int window)
{
	if (window <= 0)
		window = WINDOW_DEFAULT;
	if (window > COLL_WINDOW_MAX)
		window = COLL_WINDOW_MAX;
	return window < 2 ? 2 : window;
}

int coll_comm_new(struct transport *tp, const struct coll_config *config, struct coll_comm **out,
		  char *error)
{
	struct coll_comm *comm;
	int rc = 0;

	*out = NULL;
	if (tp->size > RANKS_MAX || tp->max_msg_bytes < CHUNK_MIN) {
		snprintf(error, TP_ERROR_BYTES,
			 "%d ranks over %s: at most %d ranks, and messages of %u bytes, are needed",
			 tp->size, tp->provider, RANKS_MAX, CHUNK_MIN);
		return -EINVAL;
	}
	comm = calloc(1, sizeof(*comm));
	if (comm) {
		comm->tp = tp;
		comm->config = *config;
		comm->config.chunk_bytes = sane_chunk(tp, config->chunk_bytes);
		comm->config.window = sane_window(config->window);
		comm->rank = tp->rank;
		comm->size = tp->size;
		comm->reqs = calloc(2 * (size_t)tp->size, sizeof(*comm->reqs));
	}
	if (!comm || !comm->reqs)
		rc = -ENOMEM;
	if (!rc)
		rc = make_cache(comm);
	if (!rc)
		rc = make_scratch(comm);
	if (rc) {
		snprintf(error, TP_ERROR_BYTES, "%s",
			 rc == -ENOMEM && !tp->error[0] ? "no memory for a communicator"
							: tp->error);
		coll_comm_free(comm);
		return rc;
	}
	*out = comm;
	return 0;
}

void coll_comm_free(struct coll_comm *comm)
{
	if (!comm)
		return;
	mr_cache_free(comm->cache);
	if (comm->scratch_region)
		tp_deregister(comm->tp, comm->scratch_region);
	if (comm->scratch)
		munmap(comm->scratch, comm->scratch_bytes);
	free(comm->reqs);
	free(comm);
}

void coll_cache_counters(struct coll_comm *comm, struct mr_cache_counters *out)
{
	mr_cache_counters(comm->cache, out);
}

void coll_forget(struct coll_comm *comm, const void *addr, size_t bytes)
{
	mr_cache_invalidate(comm->cache, (uint64_t)(uintptr_t)addr, bytes);
}

/* --- a call --------------------------------------------------------------------------------- */

void comm_phase(struct coll_comm *comm, const char *name)
{
	if (comm->config.range_push)
		comm->config.range_push(name);
}

void comm_phase_end(struct coll_comm *comm)
{
	if (comm->config.range_pop)
		comm->config.range_pop();
}

void comm_begin(struct coll_comm *comm, const char *name)
{
	comm->seq++;
	tp_rest(comm->tp);
	comm_phase(comm, name);
}

int comm_end(struct coll_comm *comm, int rc)
{
	comm_phase_end(comm);
	return rc;
}

int comm_map(struct coll_comm *comm, const void *addr, size_t bytes, struct coll_buffer *out)
{
	int rc;

	*out = (struct coll_buffer){0};
	if (!bytes || comm->size == 1 ||
	    (comm->config.registering != COLL_REGISTER_ALWAYS && !comm->tp->needs_regions))
		return 0;
	rc = mr_cache_get(comm->cache, (uint64_t)(uintptr_t)addr, bytes, TP_MEMORY_HOST,
			  &out->entry);
	if (rc)
		return rc;
	out->region = out->entry->handle;
	return 0;
}

void comm_unmap(struct coll_comm *comm, struct coll_buffer *buffer)
{
	if (buffer->entry)
		mr_cache_put(comm->cache, buffer->entry);
	*buffer = (struct coll_buffer){0};
}

static bool within(const char *inner, size_t inner_bytes, const char *outer, size_t outer_bytes)
{
	return inner >= outer && inner + inner_bytes <= outer + outer_bytes;
}

int comm_map_pair(struct coll_comm *comm, const void *send, size_t send_bytes, const void *recv,
		  size_t recv_bytes, struct coll_buffer out[2])
{
	int rc;

	out[0] = out[1] = (struct coll_buffer){0};
	if (within(send, send_bytes, recv, recv_bytes)) {
		rc = comm_map(comm, recv, recv_bytes, &out[1]);
		out[0].region = out[1].region;
		return rc;
	}
	rc = comm_map(comm, send, send_bytes, &out[0]);
	if (rc)
		return rc;
	if (within(recv, recv_bytes, send, send_bytes)) {
		out[1].region = out[0].region;
		return 0;
	}
	rc = comm_map(comm, recv, recv_bytes, &out[1]);
	if (rc)
		comm_unmap(comm, &out[0]);
	return rc;
}

void comm_unmap_pair(struct coll_comm *comm, struct coll_buffer pair[2])
{
	comm_unmap(comm, &pair[0]);
	comm_unmap(comm, &pair[1]);
}

/* --- messages ------------------------------------------------------------------------------- */

int comm_send(struct coll_comm *comm, int peer, uint32_t index, const void *buf, size_t bytes,
	      const struct tp_region *region, struct tp_req *req)
{
	return tp_send(comm->tp, peer, comm_tag(comm, comm->rank, index), buf, bytes, region, req);
}

int comm_recv(struct coll_comm *comm, int peer, uint32_t index, void *buf, size_t bytes,
	      const struct tp_region *region, struct tp_req *req)
{
	return tp_recv(comm->tp, peer, comm_tag(comm, peer, index), buf, bytes, region, req);
}

int comm_wait_all(struct coll_comm *comm, struct tp_req *reqs, int n)
{
	for (int i = 0; i < n; i++) {
		int rc = reqs[i].state == TP_IDLE ? 0 : tp_wait(comm->tp, &reqs[i]);

		if (rc)
			return rc;
	}
	return 0;
}

int comm_exchange(struct coll_comm *comm, int to, const void *out, size_t out_bytes,
		  const struct tp_region *out_region, int from, void *in, size_t in_bytes,
		  const struct tp_region *in_region, uint32_t index)
{
	struct tp_req *reqs = comm->reqs;
	int rc = comm_recv(comm, from, index, in, in_bytes, in_region, &reqs[0]);

	if (!rc)
		rc = comm_send(comm, to, index, out, out_bytes, out_region, &reqs[1]);
	return rc ? rc : comm_wait_all(comm, reqs, 2);
}

int coll_barrier(struct coll_comm *comm)
{
	uint32_t round = 0;
	int rc = 0;

	comm_begin(comm, "barrier");
	for (int d = 1; d < comm->size && !rc; d *= 2, round++) {
		int to = (comm->rank + d) % comm->size;
		int from = (comm->rank - d + comm->size) % comm->size;

		rc = comm_exchange(comm, to, comm->scratch, 1, comm->scratch_region, from,
				   comm->scratch + 1, 1, comm->scratch_region, round);
	}
	return comm_end(comm, rc);
}
