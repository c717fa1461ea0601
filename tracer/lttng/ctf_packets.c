/* SPDX-License-Identifier: Apache-2.0
 *
 * A folder's packets read here. libbabeltrace2 makes an object of every field, which takes longer than all
 * else; what LTTng-UST writes of numbers and texts can be read as it lies there. The library still reads
 * the metadata, and whatever is laid out otherwise.
 */
#include "tracer/lttng/ctf_internal.h"
#include "tracer/lttng/ctf_layout.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define STREAM_MAGIC 0xc1fc1fc1u
#define WINDOW_BYTES (64u << 10)
#define STREAMS_MAX  65536u

/* As it lies in the file; layout_of() has seen that the metadata says so. */
struct packet {
	uint32_t magic;
	uint8_t uuid[16];
	uint32_t stream_id;
	uint64_t stream_instance, begin, end, content_bits, packet_bits, sequence, discarded;
	uint32_t cpu;
} __attribute__((packed));

struct stream {
	int fd;
	uint64_t bytes;  /* of the file */
	uint64_t packet; /* where the next one is */
	uint64_t end;    /* of the present one's content */
	uint64_t at;     /* in the file: what is read next */
	/* What is in memory of it. */
	uint8_t *window;
	uint64_t window_at;
	size_t window_bytes, window_size;

	const struct layout_stream *layout;
	uint64_t clock, sequence, discarded;
	bool seen; /* a packet */
	uint64_t instance;
	uint32_t id;
	/* The next event. */
	const struct layout_event *event;
};

struct packets {
	struct ctf_decoding *d;
	const struct ctf_origin *origin;
	const struct layout *layout;
	struct stream *streams;
	unsigned count, room;
	struct stream **heap; /* those with an event, by its time */
	unsigned heap_count;
};

/* --- bytes ------------------------------------------------------------------------------------ */

/* The next n bytes of the packet, or as many as there are up to `more`. NULL: it has not that many. */
static const uint8_t *bytes_next(struct stream *s, size_t n, size_t *more)
{
	uint64_t left = s->end - s->at, have = s->window_at + s->window_bytes;
	size_t got = 0, want;

	if (n > left)
		return NULL;
	if (s->at >= s->window_at && s->at <= have && have - s->at >= n) {
		*more = have - s->at < left ? (size_t)(have - s->at) : (size_t)left;
		return s->window + (s->at - s->window_at);
	}
	want = n > WINDOW_BYTES ? n : WINDOW_BYTES;
	if (want > s->window_size) {
		uint8_t *window = realloc(s->window, want);

		if (!window)
			return NULL;
		s->window = window;
		s->window_size = want;
	}
	while (got < want) {
		ssize_t r = pread(s->fd, s->window + got, want - got, (off_t)(s->at + got));

		if (r < 0 && errno == EINTR)
			continue;
		if (r <= 0)
			break;
		got += (size_t)r;
	}
	s->window_at = s->at;
	s->window_bytes = got;
	if (got < n)
		return NULL;
	*more = got < left ? got : (size_t)left;
	return s->window;
}

static bool number_next(struct stream *s, unsigned bytes, bool is_signed, uint64_t *value)
{
	size_t more;
	const uint8_t *at = bytes_next(s, bytes, &more);

	*value = 0;
	if (!at)
		return false;
	memcpy(value, at, bytes);
	if (is_signed && bytes < 8 && *value >> (bytes * 8 - 1))
		*value |= ~0ull << (bytes * 8);
	s->at += bytes;
	return true;
}

/* A text. NULL: it has no end in this packet. */
static const char *text_next(struct stream *s, size_t *length)
{
	size_t want = 1, more;

	for (;;) {
		const uint8_t *at = bytes_next(s, want, &more), *nul;

		if (!at)
			return NULL;
		nul = memchr(at, 0, more);
		if (nul) {
			*length = (size_t)(nul - at);
			s->at += *length + 1;
			return (const char *)at;
		}
		/* Twice as much, so that a long one is not looked through again and again. */
		if (more >= s->end - s->at)
			return NULL;
		want = more * 2 < s->end - s->at ? more * 2 : (size_t)(s->end - s->at);
	}
}

/* --- events ----------------------------------------------------------------------------------- */

/* The clock from its lower bits: it has gone round at most once since the last event. */
static uint64_t clock_next(uint64_t clock, uint64_t low, unsigned bits)
{
	uint64_t mask = (1ull << bits) - 1;

	if (low < (clock & mask))
		clock += 1ull << bits;
	return (clock & ~mask) | low;
}

static bool header_long(struct stream *s, uint64_t *id)
{
	return number_next(s, 4, false, id) && number_next(s, 8, false, &s->clock);
}

static bool header_next(struct stream *s, uint64_t *id)
{
	uint64_t word, low;
	size_t more;
	const uint8_t *at;

	if (s->layout->large) {
		if (!number_next(s, 2, false, id))
			return false;
		if (*id == 0xffff)
			return header_long(s, id);
		if (!number_next(s, 4, false, &low))
			return false;
		s->clock = clock_next(s->clock, low, 32);
		return true;
	}
	at = bytes_next(s, 1, &more);
	if (!at)
		return false;
	if ((*at & 31) == 31) {
		s->at++;
		return header_long(s, id);
	}
	if (!number_next(s, 4, false, &word))
		return false;
	*id = word & 31;
	s->clock = clock_next(s->clock, word >> 5, 27);
	return true;
}

static bool values_next(struct packets *p, struct stream *s, const struct layout_event *event,
			uint64_t *values, struct ctf_moment *moment)
{
	for (unsigned i = 0; i < event->count; i++) {
		const struct layout_member *m = &event->members[i];
		struct ctf_field *f = m->field >= 0 ? &event->plan->fields[m->field] : NULL;
		uint64_t value;

		if (m->bytes) {
			if (!number_next(s, m->bytes, m->is_signed, &value))
				return false;
		} else {
			size_t length;
			const char *text = text_next(s, &length);

			if (!text)
				return false;
			value = f ? ctf_text_value(p->d, f, text, length) : 0;
		}
		if (f)
			values[m->field] = value;
		else if (m->field == LAYOUT_PID)
			moment->pid = (int64_t)value;
		else if (m->field == LAYOUT_TID)
			moment->tid = (int64_t)value;
	}
	return true;
}

/* --- packets ---------------------------------------------------------------------------------- */

static int packet_lost(struct packets *p, struct stream *s, const struct packet *h)
{
	uint64_t lost = 0;

	if (s->seen && h->sequence > s->sequence + 1)
		lost = h->sequence - s->sequence - 1;
	/* A stream that begins later than its buffers: what was lost before is somewhere else. */
	if ((s->seen || h->sequence == 0) && h->discarded > s->discarded)
		lost += h->discarded - s->discarded;
	s->seen = true;
	s->sequence = h->sequence;
	s->discarded = h->discarded;
	return lost ? ctf_lost(p->d, p->origin, lost) : 0;
}

/* 1: in a packet; 0: there is none any more; -errno. */
static int packet_next(struct packets *p, struct stream *s)
{
	const struct packet *h;
	struct packet head;
	size_t more;
	int rc;

	if (s->bytes - s->packet < sizeof(head))
		return 0;
	s->at = s->packet;
	s->end = s->bytes;
	h = (const struct packet *)bytes_next(s, sizeof(head), &more);
	if (!h)
		return 0;
	memcpy(&head, h, sizeof(head));
	if (head.magic != STREAM_MAGIC || head.packet_bits % 8 || head.content_bits % 8 ||
	    head.content_bits > head.packet_bits || head.content_bits / 8 < sizeof(head) ||
	    head.packet_bits / 8 > s->bytes - s->packet) {
		p->d->damage = "a stream is damaged, and was read up to there";
		return 0;
	}
	s->layout = layout_stream_of(p->layout, head.stream_id);
	s->end = s->packet + head.content_bits / 8;
	s->packet += head.packet_bits / 8;
	s->at += sizeof(head);
	s->clock = head.begin;
	rc = packet_lost(p, s, &head);
	if (rc)
		return rc;
	if (!s->layout) {
		p->d->damage = "packets of a stream that the metadata does not have were left out";
		s->at = s->end;
	}
	return 1;
}

/* 1: the stream's next event is known; 0: it has no more; -errno. */
static int event_next(struct packets *p, struct stream *s)
{
	uint64_t id;
	int rc;

	for (;;) {
		while (s->at >= s->end) {
			rc = packet_next(p, s);
			if (rc <= 0)
				return rc;
		}
		s->event = header_next(s, &id) ? layout_event_of(s->layout, id) : NULL;
		if (s->event)
			return 1;
		p->d->damage = "packets were not read to their ends, since they are damaged";
		s->at = s->end;
	}
}

static int event_take(struct packets *p, struct stream *s)
{
	struct ctf_moment moment = {.ns = (int64_t)s->clock};
	uint64_t values[CTF_FIELDS_MAX] = {0};

	if (values_next(p, s, s->event, values, &moment))
		return ctf_take(p->d, s->event->plan, values, &moment);
	p->d->damage = "packets were not read to their ends, since they are damaged";
	s->at = s->end;
	return 0;
}

/* --- all streams ------------------------------------------------------------------------------ */

static void sift_down(struct packets *p, unsigned at)
{
	for (;;) {
		unsigned least = at, left = 2 * at + 1;
		struct stream *swapped;

		for (unsigned child = left; child < p->heap_count && child < left + 2; child++)
			if (p->heap[child]->clock < p->heap[least]->clock)
				least = child;
		if (least == at)
			return;
		swapped = p->heap[at];
		p->heap[at] = p->heap[least];
		p->heap[least] = swapped;
		at = least;
	}
}

static int events_all(struct packets *p)
{
	int rc = 0;

	p->heap = calloc(p->count + 1u, sizeof(struct stream *));
	if (!p->heap)
		return -ENOMEM;
	for (unsigned i = 0; i < p->count && rc >= 0; i++) {
		rc = event_next(p, &p->streams[i]);
		if (rc > 0)
			p->heap[p->heap_count++] = &p->streams[i];
	}
	for (unsigned i = p->heap_count; i-- > 0;)
		sift_down(p, i);
	while (p->heap_count && rc >= 0) {
		struct stream *s = p->heap[0];

		rc = event_take(p, s);
		if (rc >= 0)
			rc = event_next(p, s);
		if (rc == 0)
			p->heap[0] = p->heap[--p->heap_count];
		sift_down(p, 0);
	}
	return rc < 0 ? rc : 0;
}

static int stream_add(struct packets *p, const char *folder, const char *name)
{
	char path[PATH_MAX];
	struct stream *s;
	struct stat st;

	if ((size_t)snprintf(path, sizeof(path), "%s/%s", folder, name) >= sizeof(path))
		return -ENAMETOOLONG;
	if (stat(path, &st) != 0 || !S_ISREG(st.st_mode) || !st.st_size)
		return 0;
	if (p->count == p->room) {
		unsigned room = p->room ? p->room * 2 : 16;
		struct stream *streams = realloc(p->streams, room * sizeof(*streams));

		if (!streams)
			return -ENOMEM;
		p->streams = streams;
		p->room = room;
	}
	if (!p->streams)
		return -ENOMEM;
	s = &p->streams[p->count];
	*s = (struct stream){.fd = -1};
	s->fd = open(path, O_RDONLY | O_CLOEXEC);
	if (s->fd < 0)
		return -errno;
	s->bytes = (uint64_t)st.st_size;
	p->count++;
	return 0;
}

static int streams_find(struct packets *p, const char *folder)
{
	DIR *directory = opendir(folder);
	struct dirent *entry;
	int rc = 0;

	if (!directory)
		return -EIO;
	while (!rc && (entry = readdir(directory)))
		if (entry->d_name[0] != '.' && strcmp(entry->d_name, "metadata") != 0)
			rc = p->count < STREAMS_MAX ? stream_add(p, folder, entry->d_name) : -E2BIG;
	(void)closedir(directory);
	return rc;
}

/* A stream cut into several files, of which the numbers of packets go on from one to the next, is the
 * library's. */
static bool streams_apart(struct packets *p)
{
	for (unsigned i = 0; i < p->count; i++) {
		struct stream *s = &p->streams[i];
		struct packet head = {0};

		(void)pread(s->fd, &head, sizeof(head), 0);
		s->id = head.stream_id;
		s->instance = head.stream_instance;
		for (unsigned k = 0; k < i; k++)
			if (p->streams[k].id == s->id && p->streams[k].instance == s->instance)
				return false;
	}
	return true;
}

int ctf_packets_read(struct ctf_decoding *d, const char *folder, const bt_stream *stream)
{
	struct packets p = {.d = d, .origin = ctf_origin_of(d, stream)};
	struct layout layout = {0};
	int rc = p.origin ? layout_of(&layout, d, folder, stream) : -ENOMEM;

	p.layout = &layout;
	/* More streams than may be open are the library's, too. */
	if (rc == 1 && (streams_find(&p, folder) != 0 || !streams_apart(&p)))
		rc = 0;
	if (rc == 1) {
		int failed = events_all(&p);

		rc = failed ? failed : 1;
	}
	for (unsigned i = 0; i < p.count; i++) {
		(void)close(p.streams[i].fd);
		free(p.streams[i].window);
	}
	free(p.streams);
	free((void *)p.heap);
	layout_free(&layout);
	return rc;
}
