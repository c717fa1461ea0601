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
#define TIMED_BYTES    (32u << 10)
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

struct coll_device *coll_device_of(const struct coll_comm *comm)
{
	return comm->config.device;
}

/* --- set-up --------------------------------------------------------------------------------- */

static int make_cache(struct coll_comm *comm)
{
	/* Two allocations of a device may share a page, and each is registered by itself. */
	size_t page_bytes = comm->config.device ? 0 : (size_t)sysconf(_SC_PAGESIZE);
	struct mr_cache_config config = {.max_entries = comm->config.cache_entries,
					 .max_bytes = comm->config.cache_bytes,
					 .page_bytes = page_bytes,
					 .reg = comm_cache_reg,
					 .dereg = comm_cache_dereg,
					 .ctx = comm};

	comm->cache = mr_cache_new(&config);
	return comm->cache ? 0 : -ENOMEM;
}

static bool registers(const struct coll_comm *comm)
{
	return comm->config.registering == COLL_REGISTER_ALWAYS || comm->tp->needs_regions;
}

/* Host memory whose pages are there. */
static int map_host(struct coll_comm *comm, size_t bytes, char **out, struct tp_region **region)
{
	struct tp_range range = {.bytes = bytes, .dmabuf_fd = -1};
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		return -ENOMEM;
	*out = p;
	madvise(p, bytes, MADV_HUGEPAGE); /* fewer pages to look up; harmless where refused */
	memset(p, 0, bytes);              /* page faults now, not in the first collective */
	/* Beside device memory, a region is what tells that this is the host's. */
	if (!registers(comm) && !comm->config.device)
		return 0;
	range.addr = p;
	return tp_register(comm->tp, &range, region);
}

static int make_scratch(struct coll_comm *comm)
{
	size_t bytes = comm->config.chunk_bytes * (size_t)comm->config.window;
	struct coll_device *device = comm->config.device;
	void *p;
	int rc;

	comm->token_bytes = (size_t)sysconf(_SC_PAGESIZE);
	rc = map_host(comm, comm->token_bytes, &comm->token, &comm->token_region);
	if (rc)
		return rc;
	comm->scratch_bytes = bytes;
	if (!device)
		return map_host(comm, bytes, &comm->scratch, &comm->scratch_region);
	rc = device->ops->alloc(device, bytes, &p);
	if (rc)
		return tp_fail(comm->tp, rc, "%s", device->error);
	comm->scratch = p;
	return comm_direct(comm) ? coll_register_device(comm, p, bytes, comm->config.interface,
							&comm->scratch_region)
				 : 0;
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
	if (comm->token_region)
		tp_deregister(comm->tp, comm->token_region);
	if (comm->scratch && comm->config.device)
		comm->config.device->ops->release(comm->config.device, comm->scratch);
	else if (comm->scratch)
		munmap(comm->scratch, comm->scratch_bytes);
	if (comm->token)
		munmap(comm->token, comm->token_bytes);
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

/* --- work on the memory ---------------------------------------------------------------------- */

static int device_rc(struct coll_comm *comm, int rc)
{
	return rc ? tp_break(comm->tp, rc, "%s", comm->config.device->error) : 0;
}

int comm_copy(struct coll_comm *comm, void *to, const void *from, size_t bytes)
{
	struct coll_device *device = comm->config.device;

	if (device)
		return bytes ? device_rc(comm, device->ops->copy(device, to, from, bytes)) : 0;
	memcpy(to, from, bytes);
	return 0;
}

static int reduce_on_device(struct coll_comm *comm, void *out, const void *a, const void *b,
			    size_t count, enum coll_type type, enum coll_op op)
{
	struct coll_device *device = comm->config.device;
	int rc = 0;

	comm_phase(comm, "reduce");
	if (comm_direct(comm)) /* the network wrote one of the two */
		rc = device->ops->flush(device);
	if (!rc)
		rc = device->ops->reduce(device, out, a, b, count, type, op);
	comm_phase_end(comm);
	return device_rc(comm, rc);
}

int comm_reduce(struct coll_comm *comm, void *out, const void *a, const void *b, size_t count,
		enum coll_type type, enum coll_op op)
{
	/* Two looks at the clock are a good part of a small reduction. */
	bool timed = count * coll_type_bytes(type) >= TIMED_BYTES;
	int64_t start = timed ? tp_now_ns() : 0;
	int rc = 0;

	if (comm->config.device)
		rc = reduce_on_device(comm, out, a, b, count, type, op);
	else
		coll_reduce(out, a, b, count, type, op);
	if (timed)
		comm->reduce_ns += (uint64_t)(tp_now_ns() - start);
	return rc;
}

uint64_t coll_reduce_ns(const struct coll_comm *comm)
{
	return comm->reduce_ns;
}

int comm_average(struct coll_comm *comm, void *data, size_t count, enum coll_type type)
{
	struct coll_device *device = comm->config.device;

	if (device)
		return device_rc(comm, device->ops->average(device, data, count, type, comm->size));
	coll_average(data, count, type, comm->size);
	return 0;
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
	/* Whatever runs on the device next must see what came. */
	if (!rc && comm_direct(comm))
		rc = device_rc(comm, comm->config.device->ops->flush(comm->config.device));
	comm_phase_end(comm);
	return rc;
}

/* Device memory always brings its registration, or bounces and needs none. */
static bool needs_region(const struct coll_comm *comm)
{
	return comm->config.device ? comm_direct(comm) : registers(comm);
}

int comm_map(struct coll_comm *comm, const void *addr, size_t bytes, struct coll_buffer *out)
{
	uint64_t space;
	int rc;

	*out = (struct coll_buffer){0};
	if (!bytes || comm->size == 1 || !needs_region(comm))
		return 0;
	rc = comm_space(comm, addr, &space);
	if (!rc)
		rc = mr_cache_get(comm->cache, (uint64_t)(uintptr_t)addr, bytes, space,
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

		rc = comm_exchange(comm, to, comm->token, 1, comm->token_region, from,
				   comm->token + 1, 1, comm->token_region, round);
	}
	return comm_end(comm, rc);
}
