/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/ctf_write.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PACKET_HEADER 84
#define PADDING       24 /* behind the content of a packet */
#define BEGINS_NS     5000000000ull

/* --- metadata --------------------------------------------------------------------------------- */

static const char begins[] =
	"/* CTF 1.8 */\n"
	"typealias integer { size = 8; align = 8; signed = false; } := uint8_t;\n"
	"typealias integer { size = 16; align = 8; signed = false; } := uint16_t;\n"
	"typealias integer { size = 32; align = 8; signed = false; } := uint32_t;\n"
	"typealias integer { size = 64; align = 8; signed = false; } := uint64_t;\n"
	"typealias integer { size = 64; align = 8; signed = false; } := unsigned long;\n"
	"typealias integer { size = 5; align = 1; signed = false; } := uint5_t;\n"
	"typealias integer { size = 27; align = 1; signed = false; } := uint27_t;\n"
	"trace {\n\tmajor = 1;\n\tminor = 8;\n"
	"\tuuid = \"00010203-0405-0607-0809-0a0b0c0d0e0f\";\n"
	"\tbyte_order = le;\n"
	"\tpacket.header := struct {\n\t\tuint32_t magic;\n\t\tuint8_t  uuid[16];\n"
	"\t\tuint32_t stream_id;\n\t\tuint64_t stream_instance_id;\n\t};\n};\n"
	"env {\n\tdomain = \"ust\";\n\ttracer_name = \"lttng-ust\";\n\ttracer_major = 2;\n"
	"\ttracer_minor = 13;\n\thostname = \"there\";\n\tvpid = 71;\n\tprocname = \"program\";\n};\n"
	"clock {\n\tname = \"monotonic\";\n\tdescription = \"Monotonic Clock\";\n"
	"\tfreq = 1000000000; /* Frequency, in Hz */\n\toffset = 1700000000000000007;\n};\n"
	"typealias integer {\n\tsize = 27; align = 1; signed = false;\n"
	"\tmap = clock.monotonic.value;\n} := uint27_clock_monotonic_t;\n"
	"typealias integer {\n\tsize = 32; align = 8; signed = false;\n"
	"\tmap = clock.monotonic.value;\n} := uint32_clock_monotonic_t;\n"
	"typealias integer {\n\tsize = 64; align = 8; signed = false;\n"
	"\tmap = clock.monotonic.value;\n} := uint64_clock_monotonic_t;\n"
	"struct packet_context {\n\tuint64_clock_monotonic_t timestamp_begin;\n"
	"\tuint64_clock_monotonic_t timestamp_end;\n\tuint64_t content_size;\n"
	"\tuint64_t packet_size;\n\tuint64_t packet_seq_num;\n\tunsigned long events_discarded;\n"
	"\tuint32_t cpu_id;\n};\n"
	"struct event_header_compact {\n\tenum : uint5_t { compact = 0 ... 30, extended = 31 } id;\n"
	"\tvariant <id> {\n\t\tstruct {\n\t\t\tuint27_clock_monotonic_t timestamp;\n\t\t} compact;\n"
	"\t\tstruct {\n\t\t\tuint32_t id;\n\t\t\tuint64_clock_monotonic_t timestamp;\n"
	"\t\t} extended;\n\t} v;\n} align(8);\n"
	"struct event_header_large {\n"
	"\tenum : uint16_t { compact = 0 ... 65534, extended = 65535 } id;\n"
	"\tvariant <id> {\n\t\tstruct {\n\t\t\tuint32_clock_monotonic_t timestamp;\n\t\t} compact;\n"
	"\t\tstruct {\n\t\t\tuint32_t id;\n\t\t\tuint64_clock_monotonic_t timestamp;\n"
	"\t\t} extended;\n\t} v;\n} align(8);\n";

#define INTEGER(bits, sign, name)                                                                  \
	"\t\tinteger { size = " #bits "; align = 8; signed = " #sign                               \
	"; encoding = none; base = 10; } _" name ";\n"
#define STRING(name) "\t\tstring _" name ";\n"
#define EVENT(name, number, fields)                                                                \
	"event {\n\tname = \"" name "\";\n\tid = " #number                                         \
	";\n\tstream_id = 0;\n\tloglevel = 13;\n\tfields := struct {\n" fields "\t};\n};\n"
#define COMMON                                                                                     \
	INTEGER(64, 0, "begin")                                                                    \
	INTEGER(64, 0, "duration")                                                                 \
	INTEGER(32, 0, "flags_") INTEGER(32, 0, "pid") INTEGER(32, 0, "tid")

/* Number 40 does not fit into the short header. */
static const char events[] = EVENT(
	"waylay:cuda_wait", 0,
	COMMON INTEGER(64, 0, "stream") INTEGER(64, 0, "object") STRING("stack") STRING(
		"api") INTEGER(32, 1, "status")
		STRING("rule") "\t\tenum : integer { size = 8; align = 8; signed = 0; encoding = none; "
			       "base = 10; } { \"none\" = 0, \"waits\" = 1, } _cls;\n" INTEGER(
				       8, 0, "stream_kind"))
	EVENT("waylay:entry", 1,
	      STRING("event") STRING("api") INTEGER(64, 0, "since") INTEGER(64, 0, "object")
		      INTEGER(32, 0, "pid") INTEGER(32, 0, "tid") STRING("stack"))
		EVENT("waylay:nvtx_push", 40,
		      COMMON INTEGER(64, 0, "payload") STRING("domain") STRING("text")
			      INTEGER(32, 0, "color") STRING("category")
				      INTEGER(8, 0, "payload_type"))
			EVENT("other:thing", 3,
			      INTEGER(16, 1, "small") INTEGER(64, 1, "big") STRING("what"))
				EVENT("waylay:attribute", 4,
				      INTEGER(32, 0, "pid") STRING("key") STRING("value"))
					EVENT("waylay:thread", 5,
					      INTEGER(32, 0, "pid") INTEGER(32, 0, "tid")
						      STRING("name"));

static const char odd_event[] = EVENT(
	"other:odd", 6,
	"\t\tfloating_point { exp_dig = 11; mant_dig = 53; byte_order = le; align = 8; } _number;\n");

static void put_file(const char *folder, const char *name, const void *bytes, size_t size)
{
	char path[512];
	FILE *f;

	(void)snprintf(path, sizeof(path), "%s/%s", folder, name);
	f = fopen(path, "wb");
	if (!f || fwrite(bytes, 1, size, f) != size || fclose(f) != 0)
		abort();
}

static void metadata(const char *folder, const struct ctf_write *how)
{
	char text[16384], packed[16384 + 37] = {0};
	int n = snprintf(text, sizeof(text),
			 "%sstream {\n\tid = 0;\n\tevent.header := struct event_header_%s;\n"
			 "\tpacket.context := struct packet_context;\n%s};\n%s%s",
			 begins, how->large ? "large" : "compact",
			 how->context ? "\tevent.context := struct {\n" INTEGER(32, 1, "vpid")
						INTEGER(32, 1, "vtid") "\t};\n"
				      : "",
			 events, how->plain ? "" : odd_event);
	uint32_t bits = (uint32_t)(n + 37) * 8, magic = 0x75d11d57;

	if (!how->packed) {
		put_file(folder, "metadata", text, (size_t)n);
		return;
	}
	memcpy(packed, &magic, 4);
	for (uint8_t i = 0; i < 16; i++)
		packed[4 + i] = (char)i;
	memcpy(packed + 24, &bits, 4);
	memcpy(packed + 28, &bits, 4);
	packed[35] = 1; /* version 1.8 */
	packed[36] = 8;
	packed[32] = packed[33] = packed[34] = 0;
	memcpy(packed + 37, text, (size_t)n);
	put_file(folder, "metadata", packed, (size_t)n + 37);
}

/* --- streams ---------------------------------------------------------------------------------- */

struct bytes {
	uint8_t *at;
	size_t used, room;
};

static void put(struct bytes *b, const void *what, size_t size)
{
	if (b->used + size > b->room) {
		b->room = (b->used + size) * 2;
		b->at = realloc(b->at, b->room);
		if (!b->at)
			abort();
	}
	memcpy(b->at + b->used, what, size);
	b->used += size;
}

static void number(struct bytes *b, uint64_t value, unsigned bytes)
{
	put(b, &value, bytes);
}

static void text(struct bytes *b, const char *what)
{
	put(b, what, strlen(what) + 1);
}

static void header(struct bytes *b, const struct ctf_write *how, uint32_t id, uint64_t now,
		   uint64_t last)
{
	bool is_long = now - last >= 1ull << (how->large ? 32 : 27);

	if (how->large) {
		number(b, is_long ? 0xffff : id, 2);
		if (!is_long) {
			number(b, now, 4);
			return;
		}
	} else if (id < 31 && !is_long) {
		number(b, id | (now & 0x7ffffff) << 5, 4);
		return;
	} else {
		number(b, 31, 1);
	}
	number(b, id, 4);
	number(b, now, 8);
}

static void common(struct bytes *b, uint64_t n, uint64_t now, uint32_t tid)
{
	number(b, now - 100 - n % 7, 8);
	number(b, 100 + n % 7, 8);
	number(b, n % 3, 4);
	number(b, 71, 4);
	number(b, tid, 4);
}

static void event(struct bytes *b, const struct ctf_write *how, uint64_t n, uint64_t now,
		  uint64_t last)
{
	static const uint32_t ids[] = {4, 5, 1, 0, 40, 3, 0};
	uint32_t id = ids[n % 7], tid = 71 + (uint32_t)(n % 11) % 3;
	char words[64];

	header(b, how, id, now, last);
	if (how->context) {
		number(b, 71, 4);
		number(b, tid, 4);
	}
	(void)snprintf(words, sizeof(words), "text %u", (unsigned)(n % 53));
	if (id == 0) {
		common(b, n, now, tid);
		number(b, n, 8);
		number(b, ~n, 8);
		text(b, n % 5 ? "" : "so\t/lib/x.so\t1f\tabcd\npy\tf.py\t7\tmain");
		text(b, n % 2 ? "cuStreamSynchronize" : "cuEventSynchronize");
		number(b, (uint32_t)-7, 4);
		text(b, n % 2 ? "stream_wait" : "no such rule");
		number(b, 1, 1);
		number(b, n % 4, 1);
	} else if (id == 1) {
		text(b, "cuda_wait");
		text(b, "cuStreamSynchronize");
		number(b, now, 8);
		number(b, n, 8);
		number(b, 71, 4);
		number(b, tid, 4);
		text(b, "");
	} else if (id == 40) {
		common(b, n, now, tid);
		number(b, n, 8);
		text(b, "");
		text(b, words);
		number(b, 0xff00ff, 4);
		text(b, "");
		number(b, 0, 1);
	} else if (id == 3) {
		number(b, (uint16_t)(n % 2 ? -(int)(n % 100) : (int)(n % 100)), 2);
		number(b, -n, 8);
		text(b, words);
	} else if (id == 4) {
		number(b, 71, 4);
		text(b, "key");
		text(b, words);
	} else {
		number(b, 71, 4);
		number(b, tid, 4);
		text(b, words);
	}
}

static void packet_put(struct bytes *b, size_t from, unsigned stream, uint64_t begin, uint64_t end,
		       uint64_t sequence, uint64_t discarded)
{
	uint8_t *h = b->at + from;
	uint32_t magic = 0xc1fc1fc1;
	uint64_t content = (b->used - from) * 8, words[6];

	memcpy(h, &magic, 4);
	for (uint8_t i = 0; i < 16; i++)
		h[4 + i] = i;
	memset(h + 20, 0, 12);
	memcpy(h + 24, &stream, 4); /* the instance */
	words[0] = begin;
	words[1] = end;
	words[2] = content;
	words[3] = content + 8ull * PADDING;
	words[4] = sequence;
	words[5] = discarded;
	memcpy(h + 32, words, sizeof(words));
	memcpy(h + 80, &stream, 4);
}

uint64_t ctf_write(const char *folder, const struct ctf_write *how)
{
	uint8_t zeros[PACKET_HEADER] = {0};
	uint64_t all = 0;

	metadata(folder, how);
	for (unsigned s = 0; s < how->streams; s++) {
		uint64_t now = BEGINS_NS + s * 17, n = s, last;
		struct bytes b = {0};
		char name[32];

		for (unsigned p = 0; p < how->packets; p++) {
			size_t from = b.used;
			uint64_t begin = now;

			last = now;
			put(&b, zeros, PACKET_HEADER);
			for (unsigned e = 0; e < how->events; e++, all++, n += how->streams) {
				now += how->step_ns;
				event(&b, how, n, now, last);
				last = now;
			}
			packet_put(&b, from, s, begin, now, p * (how->missing + 1),
				   p * how->discarded);
			put(&b, zeros, PADDING);
		}
		(void)snprintf(name, sizeof(name), "waylay_%u", s);
		put_file(folder, name, b.at, b.used);
		free(b.at);
	}
	return all;
}
