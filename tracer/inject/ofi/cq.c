/* SPDX-License-Identifier: Apache-2.0
 *
 * Completion queues. Jobs poll these millions of times a second: an empty read costs one thread-local
 * increment here, and a whole run of them is one record, timed at its first read and at the one that
 * ends it.
 */
#include "tracer/inject/ofi/ofi.h"

/* --- runs of empty reads ---------------------------------------------------------------------- */

#define RUNS 4 /* queues a thread polls in turn */
struct run {
	const void *queue;
	uint64_t polls, begin;
	uint32_t flags;
};
static __thread struct run runs[RUNS] __attribute__((tls_model("initial-exec")));

static void run_end(struct run *run, uint64_t end)
{
	if (run->polls)
		SPOOL_EMIT(ofi_poll, run->begin, end, run->flags, .cq = (uintptr_t)run->queue,
			   .polls = run->polls, .api = OFI_NAME("fi_cq_read"));
	run->polls = 0;
}

static __attribute__((noinline)) void run_begin(const void *queue, enum ofi_how how)
{
	struct run *free_run = &runs[0];
	uint64_t now = spool_now();

	for (unsigned i = 0; i < RUNS; i++) {
		if (runs[i].queue == queue && runs[i].polls) {
			runs[i].polls++;
			return;
		}
		if (!runs[i].polls)
			free_run = &runs[i];
	}
	if (free_run->polls) /* all busy with other queues: the first one makes room */
		run_end(free_run, now);
	*free_run = (struct run){queue, 1, now, ofi_flags(how)};
}

static inline void run_count(const void *queue, enum ofi_how how)
{
	if (__builtin_expect(runs[0].queue == queue && runs[0].polls, 1))
		runs[0].polls++;
	else if (runs[1].queue == queue && runs[1].polls)
		runs[1].polls++;
	else
		run_begin(queue, how);
}

void ofi_poll_flush(const void *queue)
{
	for (unsigned i = 0; i < RUNS; i++)
		if (runs[i].queue == queue && runs[i].polls)
			run_end(&runs[i], spool_now());
}

/* --- completion entries ----------------------------------------------------------------------- */

static size_t entry_bytes(uint8_t format)
{
	switch (format) {
	case FI_CQ_FORMAT_CONTEXT:
		return sizeof(struct fi_cq_entry);
	case FI_CQ_FORMAT_MSG:
		return sizeof(struct fi_cq_msg_entry);
	case FI_CQ_FORMAT_DATA:
		return sizeof(struct fi_cq_data_entry);
	case FI_CQ_FORMAT_TAGGED:
		return sizeof(struct fi_cq_tagged_entry);
	default:
		return 0;
	}
}

/* Each format's entry begins with the shorter ones' members. */
static inline void entry_fill(struct wl_ev_ofi_completion *event, uint8_t format,
			      const struct fi_cq_tagged_entry *entry)
{
	if (format >= FI_CQ_FORMAT_CONTEXT)
		event->context = (uintptr_t)entry->op_context;
	if (format >= FI_CQ_FORMAT_MSG) {
		event->flags = entry->flags;
		event->bytes = entry->len;
	}
	if (format >= FI_CQ_FORMAT_DATA) {
		event->buf = (uintptr_t)entry->buf;
		event->data = entry->data;
	}
	if (format >= FI_CQ_FORMAT_TAGGED)
		event->tag = entry->tag;
}

static __attribute__((noinline)) void entries_record(struct fid_cq *cq, const void *buf,
						     ssize_t count, const fi_addr_t *src,
						     enum ofi_how how)
{
	const struct ofi_table *table = ofi_table_of(cq->ops);
	uint8_t format = table ? table->format : (uint8_t)FI_CQ_FORMAT_UNSPEC;
	size_t bytes = entry_bytes(format);
	uint64_t now;

	/* A thread's records are in order of their end: the run that these ended comes first. */
	ofi_poll_flush(cq);
	now = spool_now();
	for (ssize_t i = 0; i < count; i++) {
		const void *entry = (const char *)buf + (size_t)i * bytes;
		uint64_t from = src ? src[i] : FI_ADDR_UNSPEC;

		SPOOL_RECORD(ofi_completion, now, now, ofi_flags(how),
			     ((struct wl_ev_ofi_completion){.cq = (uintptr_t)cq, .src = from}),
			     entry_fill(it, format, entry));
	}
}

/* --- reads ------------------------------------------------------------------------------------ */

/* The queue that a recorded read of this thread is about, known by the read's frame as in wl_depth: a
 * provider carries out one kind of read by another of the same queue, which is no layer's. Kept only
 * with --ofi-layers, since else nothing inside a call is recorded. */
struct reading {
	struct wl_inside call;
	const void *queue;
};
static __thread struct reading reading __attribute__((tls_model("initial-exec")));

static inline __attribute__((always_inline)) enum ofi_how
read_enter(const void *cq, const void *caller, struct reading *outer)
{
	enum ofi_how how = ofi_enter(caller);

	if (__builtin_expect(wl_settings.ofi_layers && how, 0)) {
		if (how == OFI_LAYER && reading.queue == cq &&
		    wl_is_inside(&reading.call, WL_FRAME))
			return OFI_PASS;
		*outer = reading;
		reading.queue = cq;
		wl_enter(&reading.call, WL_FRAME);
	}
	return how;
}
#define READ_ENTER(cq, outer) read_enter((cq), __builtin_return_address(0), (outer))

static inline void read_leave(enum ofi_how how, const struct reading *outer)
{
	ofi_leave(how);
	if (__builtin_expect(wl_settings.ofi_layers, 0))
		reading = *outer;
}

static __attribute__((noinline)) ssize_t read_ended(struct fid_cq *cq, const void *buf, ssize_t ret,
						    enum ofi_how how)
{
	if (ret > 0 && buf)
		entries_record(cq, buf, ret, NULL, how);
	else if (ret == -FI_EAGAIN || ret == 0)
		run_count(cq, how);
	return ret;
}

/* Any read: recording off, a layer's, inside another call. */
static __attribute__((noinline)) ssize_t read_any(struct fid_cq *cq, void *buf, size_t count,
						  const void *caller)
{
	struct fi_ops_cq *real = OFI_REAL(cq->ops);
	struct reading outer;
	enum ofi_how how = read_enter(cq, caller, &outer);
	ssize_t ret;

	if (!how)
		return real->read(cq, buf, count);
	ret = real->read(cq, buf, count);
	read_leave(how, &outer);
	return read_ended(cq, buf, ret, how);
}

/* What jobs call most: the usual read, which finds nothing, takes as few instructions as can be. */
static ssize_t hook_read(struct fid_cq *cq, void *buf, size_t count)
{
	const void *caller = __builtin_return_address(0);
	ssize_t ret;

	if (__builtin_expect(!wl_recording || wl_depth.ofi.frame || wl_settings.ofi_layers ||
				     ofi_internal(caller),
			     0))
		return read_any(cq, buf, count, caller);
	wl_enter(&wl_depth.ofi, WL_FRAME);
	ret = OFI_REAL(cq->ops)->read(cq, buf, count);
	wl_leave(&wl_depth.ofi);
	if (__builtin_expect(ret != -FI_EAGAIN, 0))
		return read_ended(cq, buf, ret, OFI_JOB);
	run_count(cq, OFI_JOB);
	return ret;
}

static ssize_t hook_readfrom(struct fid_cq *cq, void *buf, size_t count, fi_addr_t *src_addr)
{
	struct fi_ops_cq *real = OFI_REAL(cq->ops);
	struct reading outer;
	enum ofi_how how = READ_ENTER(cq, &outer);
	ssize_t ret;

	if (!how)
		return real->readfrom(cq, buf, count, src_addr);
	ret = real->readfrom(cq, buf, count, src_addr);
	read_leave(how, &outer);
	if (ret > 0 && buf)
		entries_record(cq, buf, ret, src_addr, how);
	else if (ret == -FI_EAGAIN || ret == 0)
		run_count(cq, how);
	return ret;
}

static ssize_t hook_readerr(struct fid_cq *cq, struct fi_cq_err_entry *buf, uint64_t flags)
{
	struct fi_ops_cq *real = OFI_REAL(cq->ops);
	struct reading outer;
	enum ofi_how how = READ_ENTER(cq, &outer);
	uint64_t now;
	ssize_t ret;

	if (!how)
		return real->readerr(cq, buf, flags);
	ret = real->readerr(cq, buf, flags);
	read_leave(how, &outer);
	if (ret <= 0)
		return ret;
	ofi_poll_flush(cq);
	now = spool_now();
	SPOOL_EMIT(ofi_completion, now, now, ofi_flags(how), .cq = (uintptr_t)cq,
		   .context = (uintptr_t)buf->op_context, .flags = buf->flags, .bytes = buf->len,
		   .buf = (uintptr_t)buf->buf, .data = buf->data, .tag = buf->tag,
		   .src = FI_ADDR_UNSPEC, .status = -buf->err, .prov_errno = buf->prov_errno);
	return ret;
}

/* --- waits ------------------------------------------------------------------------------------ */

struct ofi_blocked ofi_block_begin(const void *object, uint32_t api, enum ofi_how how)
{
	struct ofi_blocked blocked = {.api = api, .stack = wl_stack(WL_STACK_FOR_SYNC)};

	blocked.begin = spool_now();
	if (how != OFI_LAYER)
		spool_enter(WL_EV_ofi_wait, api, blocked.begin, blocked.stack, (uintptr_t)object);
	return blocked;
}

void ofi_block_end(const struct ofi_blocked *blocked, const void *object, int timeout, ssize_t ret,
		   enum ofi_how how)
{
	if (how != OFI_LAYER)
		spool_leave();
	SPOOL_EMIT(ofi_wait, blocked->begin, spool_now(), ofi_flags(how),
		   .object = (uintptr_t)object, .stack = blocked->stack, .api = blocked->api,
		   .timeout_ms = timeout, .status = ret < 0 ? (int32_t)ret : 0);
}

static ssize_t hook_sread(struct fid_cq *cq, void *buf, size_t count, const void *cond, int timeout)
{
	struct fi_ops_cq *real = OFI_REAL(cq->ops);
	struct reading outer;
	enum ofi_how how = READ_ENTER(cq, &outer);
	struct ofi_blocked blocked;
	ssize_t ret;

	if (!how)
		return real->sread(cq, buf, count, cond, timeout);
	blocked = ofi_block_begin(cq, OFI_NAME("fi_cq_sread"), how);
	ret = real->sread(cq, buf, count, cond, timeout);
	read_leave(how, &outer);
	ofi_block_end(&blocked, cq, timeout, ret, how);
	if (ret > 0 && buf)
		entries_record(cq, buf, ret, NULL, how);
	return ret;
}

static ssize_t hook_sreadfrom(struct fid_cq *cq, void *buf, size_t count, fi_addr_t *src_addr,
			      const void *cond, int timeout)
{
	struct fi_ops_cq *real = OFI_REAL(cq->ops);
	struct reading outer;
	enum ofi_how how = READ_ENTER(cq, &outer);
	struct ofi_blocked blocked;
	ssize_t ret;

	if (!how)
		return real->sreadfrom(cq, buf, count, src_addr, cond, timeout);
	blocked = ofi_block_begin(cq, OFI_NAME("fi_cq_sreadfrom"), how);
	ret = real->sreadfrom(cq, buf, count, src_addr, cond, timeout);
	read_leave(how, &outer);
	ofi_block_end(&blocked, cq, timeout, ret, how);
	if (ret > 0 && buf)
		entries_record(cq, buf, ret, src_addr, how);
	return ret;
}

static int hook_signal(struct fid_cq *cq)
{
	struct fi_ops_cq *real = OFI_REAL(cq->ops);
	enum ofi_how how = OFI_ENTER();
	uint64_t begin;
	int ret;

	if (!how)
		return real->signal(cq);
	begin = spool_now();
	ret = real->signal(cq);
	ofi_leave(how);
	ofi_control_record(cq, OFI_NAME("fi_cq_signal"), 0, 0, begin, ret, how);
	return ret;
}

static const struct ofi_slot cq_slots[] = {
	OFI_SLOT(fi_ops_cq, read, hook_read),       OFI_SLOT(fi_ops_cq, readfrom, hook_readfrom),
	OFI_SLOT(fi_ops_cq, readerr, hook_readerr), OFI_SLOT(fi_ops_cq, sread, hook_sread),
	OFI_SLOT(fi_ops_cq, signal, hook_signal),   OFI_SLOT(fi_ops_cq, sreadfrom, hook_sreadfrom),
};
const struct ofi_slots ofi_cq_slots = OFI_SLOTS(cq_slots);
