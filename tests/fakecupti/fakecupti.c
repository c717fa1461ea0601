/* SPDX-License-Identifier: Apache-2.0
 *
 * A libcupti for the simulated driver: the activity interface with one owner a process, records laid out as
 * those of CUDA 13.0 (or, FAKECUPTI_VERSION=18, of 11.8) and true times. A record takes its place in a buffer
 * in the call that gives the work and is completed when the work is done; a flush returns buffers whose
 * records are all complete, a forced one all.
 */
#include "tests/fakecuda/activity.h"

#include <stdatomic.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

enum { SUCCESS, INVALID_PARAMETER, NOT_READY_TO = 15, INVALID_KIND = 21, UNKNOWN = 999 };
enum {
	MEMCPY = 1,
	MEMSET = 2,
	DRIVER = 4,
	RUNTIME = 5,
	KERNEL = 10,
	MEMCPY2 = 22,
	SYNC = 38,
	EXTERNAL = 39,
	GRAPH = 51,
	KINDS = 64
};

typedef void (*request_fn)(uint8_t **, size_t *, size_t *);
typedef void (*complete_fn)(void *, uint32_t, uint8_t *, size_t, size_t);

/* Where the fields that we fill lie, and how long a record is: of 13.0 and of 11.8. */
struct layout {
	size_t kernel, memcpy, memset, sync, graph, api;
};
static const struct layout new_layout = {216, 96, 88, 56, 56, 40};
static const struct layout old_layout = {200, 88, 88, 40, 48, 40};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static request_fn request;
static complete_fn complete;
typedef uint64_t (*clock_fn)(void);
static _Atomic(clock_fn) timestamp; /* set by a client, asked by the streams' threads */
static uint64_t kinds;
static uint32_t version = 130001;
static const struct layout *layout = &new_layout;
static bool flushing;
static _Atomic int delivering; /* buffers on their way to the client */

/* The buffer being filled, and those that still wait for work. */
struct buffer {
	struct buffer *next;
	uint8_t *data;
	size_t size, used;
	unsigned pending;
};
static struct buffer *filling, *waiting;

/* A place in a buffer, until its work is done. */
struct place {
	struct buffer *buffer; /* NULL: gone, taken by force */
	struct place *next;
	size_t at, bytes;
};
static struct place *places;

static uint64_t now(void)
{
	struct timespec ts;
	/* Relaxed: a function of a library that is there for good. */
	clock_fn own = atomic_load_explicit(&timestamp, memory_order_relaxed);

	if (own)
		return own();
	clock_gettime(CLOCK_REALTIME, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/* Gives a buffer back; called without the lock, as the real one does from its own thread. */
static void give_back(struct buffer *buffer)
{
	complete_fn fn = complete;

	if (fn)
		fn(NULL, 0, buffer->data, buffer->size, buffer->used);
	free(buffer);
}

static void put(uint8_t *record, size_t at, const void *value, size_t bytes)
{
	memcpy(record + at, value, bytes);
}

#define PUT(at, type, value)                                                                       \
	do {                                                                                       \
		type put_value = (type)(value);                                                    \
		put(record, at, &put_value, sizeof(put_value));                                    \
	} while (0)

static size_t record_bytes(uint32_t kind)
{
	switch (kind) {
	case KERNEL:
		return layout->kernel;
	case MEMCPY:
		return layout->memcpy;
	case MEMSET:
		return layout->memset;
	case SYNC:
		return layout->sync;
	case GRAPH:
		return layout->graph;
	case DRIVER:
		return layout->api;
	}
	return 0;
}

static uint32_t kind_of(enum fakecuda_work_type type)
{
	switch (type) {
	case FAKECUDA_KERNEL:
		return KERNEL;
	case FAKECUDA_COPY:
		return MEMCPY;
	case FAKECUDA_MEMSET:
		return MEMSET;
	case FAKECUDA_GRAPH:
		return GRAPH;
	case FAKECUDA_WAIT:
		return SYNC;
	}
	return 0;
}

static void fill_common(uint8_t *record, const struct fakecuda_work *w, size_t at)
{
	PUT(at, uint64_t, w->begin);
	PUT(at + 8, uint64_t, w->end);
}

static void fill(uint8_t *record, uint32_t kind, const struct fakecuda_work *w)
{
	memset(record, 0, record_bytes(kind));
	PUT(0, uint32_t, kind);
	switch (kind) {
	case KERNEL:
		fill_common(record, w, 16);
		PUT(40, uint32_t, 0); /* device */
		PUT(44, uint32_t, w->context);
		PUT(48, uint32_t, w->stream);
		for (int i = 0; i < 3; i++) {
			PUT(52 + (size_t)i * 4, uint32_t, w->grid[i]);
			PUT(64 + (size_t)i * 4, uint32_t, w->block[i]);
		}
		PUT(92, uint32_t, w->correlation);
		PUT(104, const char *, w->name);
		PUT(144, uint64_t, w->node);
		PUT(156, uint32_t, w->graph);
		break;
	case MEMCPY:
	case MEMSET:
		if (kind == MEMCPY) {
			record[5] = w->src_kind;
			record[6] = w->dst_kind;
		}
		PUT(8, uint64_t, w->bytes);
		fill_common(record, w, 16);
		PUT(36, uint32_t, w->context);
		PUT(40, uint32_t, w->stream);
		PUT(44, uint32_t, w->correlation);
		PUT(64, uint64_t, w->node);
		PUT(72, uint32_t, w->graph);
		if (kind == MEMSET)
			PUT(50, uint16_t, 3);
		break;
	case SYNC:
		PUT(4, uint32_t, w->wait);
		fill_common(record, w, 8);
		PUT(24, uint32_t, w->correlation);
		PUT(28, uint32_t, w->context);
		PUT(32, uint32_t, w->stream);
		break;
	case GRAPH:
		PUT(4, uint32_t, w->correlation);
		fill_common(record, w, 8);
		PUT(28, uint32_t, w->graph);
		PUT(32, uint32_t, w->context);
		PUT(36, uint32_t, w->stream);
		break;
	case DRIVER:
		PUT(4, uint32_t, w->type); /* no real callback id, but one a type */
		fill_common(record, w, 8);
		PUT(24, uint32_t, getpid());
		PUT(28, uint32_t, syscall(SYS_gettid));
		PUT(32, uint32_t, w->correlation);
		break;
	}
}

/* Room for a record; a full buffer goes on *full. With the lock, which it lets go to ask for a buffer. */
static uint8_t *room(size_t bytes, struct buffer **full)
{
	while (!filling || filling->size - filling->used < bytes) {
		struct buffer *fresh = calloc(1, sizeof(*fresh));
		request_fn fn = request;
		size_t records = 0;

		if (!fresh || !fn) {
			free(fresh);
			return NULL;
		}
		pthread_mutex_unlock(&lock);
		fn(&fresh->data, &fresh->size, &records);
		pthread_mutex_lock(&lock);
		if (!fresh->data || fresh->size < bytes) {
			free(fresh);
			return NULL;
		}
		if (filling) {
			struct buffer **list = filling->pending ? &waiting : full;

			delivering += list == full;
			filling->next = *list;
			*list = filling;
		}
		filling = fresh;
	}
	filling->used += bytes;
	return filling->data + filling->used - bytes;
}

static void give_back_all(struct buffer *list)
{
	while (list) {
		struct buffer *next = list->next;

		give_back(list);
		list = next;
		delivering--;
	}
}

/* Whether it took a place; a forced flush may have taken that away again by now. */
static bool write_record(uint32_t kind, const struct fakecuda_work *work, struct place *place)
{
	struct buffer *full = NULL;
	uint8_t *at;

	pthread_mutex_lock(&lock);
	at = kinds & 1ull << kind ? room(record_bytes(kind), &full) : NULL;
	if (at)
		fill(at, kind, work);
	if (at && place) {
		place->buffer = filling;
		place->at = (size_t)(at - filling->data);
		place->next = places;
		places = place;
		filling->pending++;
	}
	pthread_mutex_unlock(&lock);
	give_back_all(full);
	return at != NULL;
}

/* --- what the driver tells --------------------------------------------------------------------------- */

static void *given(const struct fakecuda_work *work)
{
	struct place *place = calloc(1, sizeof(*place));

	/* A graph is one record, or else its nodes are. */
	if (place && !write_record(kind_of(work->type), work, place)) {
		free(place);
		place = NULL;
	}
	return place;
}

static void done(void *what, const struct fakecuda_work *work)
{
	struct place *place = what, **link = &places;
	struct buffer *full = NULL;

	if (!place)
		return;
	pthread_mutex_lock(&lock);
	while (*link && *link != place)
		link = &(*link)->next;
	if (*link)
		*link = place->next;
	if (place->buffer) {
		struct buffer *buffer = place->buffer;

		fill(buffer->data + place->at, kind_of(work->type), work);
		if (--buffer->pending == 0 && buffer != filling) {
			struct buffer **at = &waiting;

			while (*at != buffer)
				at = &(*at)->next;
			*at = buffer->next;
			buffer->next = NULL;
			full = buffer;
			delivering++;
		}
	}
	pthread_mutex_unlock(&lock);
	free(place);
	give_back_all(full);
}

static void node(const struct fakecuda_work *work)
{
	if (!(kinds & 1ull << GRAPH))
		write_record(kind_of(work->type), work, NULL);
}

static void call(const struct fakecuda_work *work)
{
	if (work->type == FAKECUDA_WAIT)
		write_record(SYNC, work, NULL);
	write_record(DRIVER, work, NULL);
}

static const struct fakecuda_observer observer = {now, given, done, node, call};

static void *driver(const char *name)
{
	void *handle = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);

	return handle ? dlsym(handle, name) : NULL;
}

/* --- the interface ------------------------------------------------------------------------------------ */

__attribute__((constructor)) static void start(void)
{
	const char *wanted = getenv("FAKECUPTI_VERSION");

	if (wanted)
		version = (uint32_t)atoi(wanted);
	if (version < 19)
		layout = &old_layout;
}

EXPORT int cuptiGetVersion(uint32_t *out);
EXPORT int cuptiGetVersion(uint32_t *out)
{
	*out = version;
	return SUCCESS;
}

EXPORT int cuptiGetResultString(int result, const char **text);
EXPORT int cuptiGetResultString(int result, const char **text)
{
	*text = result == SUCCESS ? "CUPTI_SUCCESS" : "CUPTI_ERROR_SIMULATED";
	return SUCCESS;
}

EXPORT int cuptiActivityRegisterCallbacks(request_fn requested, complete_fn completed);
EXPORT int cuptiActivityRegisterCallbacks(request_fn requested, complete_fn completed)
{
	if (!requested || !completed)
		return INVALID_PARAMETER;
	pthread_mutex_lock(&lock);
	request = requested;
	complete = completed;
	pthread_mutex_unlock(&lock);
	return SUCCESS;
}

EXPORT int cuptiActivityRegisterTimestampCallback(uint64_t (*own)(void));
EXPORT int cuptiActivityRegisterTimestampCallback(uint64_t (*own)(void))
{
	atomic_store_explicit(&timestamp, own, memory_order_relaxed);
	return own ? SUCCESS : INVALID_PARAMETER;
}

EXPORT int cuptiActivityEnable(uint32_t kind);
EXPORT int cuptiActivityEnable(uint32_t kind)
{
	void (*observe)(const struct fakecuda_observer *) =
		(void (*)(const struct fakecuda_observer *))driver("fakecuda_observe");

	if (!observe)
		return UNKNOWN; /* as with no driver */
	if (!kind || kind >= KINDS)
		return INVALID_KIND;
	pthread_mutex_lock(&lock);
	kinds |= 1ull << kind;
	pthread_mutex_unlock(&lock);
	observe(&observer);
	return SUCCESS;
}

EXPORT int cuptiActivityDisable(uint32_t kind);
EXPORT int cuptiActivityDisable(uint32_t kind)
{
	if (!kind || kind >= KINDS)
		return INVALID_KIND;
	pthread_mutex_lock(&lock);
	kinds &= ~(1ull << kind);
	pthread_mutex_unlock(&lock);
	return SUCCESS;
}

/* Steps by the sizes of this version alone, whoever wrote the buffer. */
EXPORT int cuptiActivityGetNextRecord(uint8_t *buffer, size_t valid, uint8_t **record);
EXPORT int cuptiActivityGetNextRecord(uint8_t *buffer, size_t valid, uint8_t **record)
{
	uint8_t *next = buffer;
	uint32_t kind;

	if (*record) {
		memcpy(&kind, *record, sizeof(kind));
		next = *record + record_bytes(kind);
	}
	if (next >= buffer + valid)
		return 12; /* MAX_LIMIT_REACHED */
	memcpy(&kind, next, sizeof(kind));
	if (!record_bytes(kind))
		return INVALID_KIND;
	*record = next;
	return SUCCESS;
}

EXPORT int cuptiActivityGetNumDroppedRecords(void *context, uint32_t stream, size_t *dropped);
EXPORT int cuptiActivityGetNumDroppedRecords(void *context, uint32_t stream, size_t *dropped)
{
	(void)context;
	(void)stream;
	*dropped = 0;
	return SUCCESS;
}

/* Two at once hang, as in the real one; here that is an abort. */
EXPORT int cuptiActivityFlushAll(uint32_t flag);
EXPORT int cuptiActivityFlushAll(uint32_t flag)
{
	struct buffer *full = NULL, *last;

	pthread_mutex_lock(&lock);
	if (!complete) {
		pthread_mutex_unlock(&lock);
		return NOT_READY_TO;
	}
	if (flushing)
		abort();
	flushing = true;
	if (flag & 1) { /* what waits, by force */
		for (struct place *place = places; place; place = place->next)
			place->buffer = NULL;
		full = waiting;
		waiting = NULL;
		for (struct buffer *b = full; b; b = b->next) {
			b->pending = 0;
			delivering++;
		}
		if (filling)
			filling->pending = 0;
	}
	if (filling && filling->used && !filling->pending) {
		last = filling;
		last->next = full;
		full = last;
		filling = NULL;
		delivering++;
	}
	pthread_mutex_unlock(&lock);
	give_back_all(full);
	while (delivering) /* by other threads */
		usleep(50);
	pthread_mutex_lock(&lock);
	flushing = false;
	pthread_mutex_unlock(&lock);
	return SUCCESS;
}

EXPORT int cuptiActivityEnableAllSyncRecords(uint8_t enable);
EXPORT int cuptiActivityEnableAllSyncRecords(uint8_t enable)
{
	(void)enable;
	return SUCCESS;
}

EXPORT int cuptiGetContextId(void *context, uint32_t *id);
EXPORT int cuptiGetContextId(void *context, uint32_t *id)
{
	int (*numbers)(void *, void *, int, uint32_t *, uint32_t *) =
		(int (*)(void *, void *, int, uint32_t *, uint32_t *))driver("fakecuda_numbers");

	return numbers && !numbers(context, NULL, 0, id, NULL) ? SUCCESS : INVALID_PARAMETER;
}

EXPORT int cuptiGetStreamIdEx(void *context, void *stream, uint8_t per_thread, uint32_t *id);
EXPORT int cuptiGetStreamIdEx(void *context, void *stream, uint8_t per_thread, uint32_t *id)
{
	int (*numbers)(void *, void *, int, uint32_t *, uint32_t *) =
		(int (*)(void *, void *, int, uint32_t *, uint32_t *))driver("fakecuda_numbers");
	uint32_t context_id;

	return numbers && !numbers(context, stream, per_thread, &context_id, id)
		       ? SUCCESS
		       : INVALID_PARAMETER;
}
