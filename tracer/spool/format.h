/* SPDX-License-Identifier: Apache-2.0
 *
 * The spool file, version 1. This header is the format: writer and reader include it, and
 * docs/spool-format.md explains it. Little endian throughout.
 *
 *   offset 0                       struct spool_header (4096 bytes)
 *   header.table_offset            the event table as text (header.table_bytes)
 *   header.directory_offset        struct spool_dir_entry, one a chunk (header.chunk_max of them)
 *   header.data_offset             chunks of header.chunk_bytes each, number 0 upwards
 *
 * The file is as long as what has been reserved; whatever was never written reads as zero.
 */
#ifndef WAYLAY_TRACER_SPOOL_FORMAT_H
#define WAYLAY_TRACER_SPOOL_FORMAT_H

#include <stdatomic.h>
#include <stdint.h>

#define SPOOL_MAGIC         "WAYSPOOL"
#define SPOOL_VERSION_MAJOR 1 /* a reader refuses a greater one */
#define SPOOL_VERSION_MINOR 1 /* a reader accepts a greater one and ignores what it does not know */
#define SPOOL_ENDIAN        0x01020304u
#define SPOOL_HEADER_BYTES  4096
#define SPOOL_CHUNK_BYTES   (64u * 1024) /* default; any power of two from 16 KiB to 16 MiB is read */
#define SPOOL_DROPS         8
#define SPOOL_CONTROL_TEXT  248

enum spool_clock { SPOOL_CLOCK_MONOTONIC, SPOOL_CLOCK_TSC };

struct spool_header {
	char magic[8];
	uint16_t version_major, version_minor;
	uint32_t endian;
	uint32_t header_bytes;
	uint32_t chunk_bytes;
	uint32_t chunk_max; /* chunks that the cap allows: length of the directory */
	uint32_t table_bytes;
	uint64_t table_offset, directory_offset, data_offset;
	int64_t pid, ppid;                    /* in the process's own pid namespace */
	uint64_t pid_namespace;               /* inode of it, 0 unknown */
	uint64_t start_ticks;                 /* start of the process as /proc/self/stat has it */
	int32_t rank, world_size, local_rank; /* -1: the launcher gave none */
	uint32_t clock;                       /* enum spool_clock that the process began with */
	uint32_t flight_recorder;             /* 1: oldest chunks are overwritten at the cap */
	uint32_t reserved0;
	char host[64]; /* NUL-terminated */
	char run[64];  /* run identifier, NUL-terminated, may be empty */
	char process_name[64];
	/* --- live ------------------------------------------------------------------------------- */
	_Alignas(64) _Atomic uint64_t
		chunk_next;              /* chunks handed out; never more than chunk_max matter */
	_Atomic uint64_t reserved_bytes; /* the file is reserved up to here */
	_Alignas(64) _Atomic uint64_t drops[SPOOL_DROPS]; /* that no slot and no THREAD_END counts;
							     index: enum trace_drop */
	_Alignas(64) _Atomic uint32_t ended; /* trailer: 1 exit, written last (release) */
	uint32_t reserved1;
	int64_t end_monotonic_ns;
	/* --- control: since version 1.1, see docs/spool-format.md --------------------------------- */
	_Alignas(64) _Atomic uint32_t asked; /* number of the newest request; by `waylay ctl` */
	uint32_t command;                    /* enum spool_command; written before `asked` */
	char command_text[SPOOL_CONTROL_TEXT];
	_Alignas(64) _Atomic uint32_t answered; /* the request that was acted on; by the process */
	int32_t answer_status;                  /* of it, 0 or -errno; written before `answered` */
	_Atomic uint32_t off; /* why nothing is recorded now: bits of enum spool_off; 0: recorded */
	uint32_t reserved2;
	char answer_text[SPOOL_CONTROL_TEXT];
};

/* What `waylay ctl` asks of a process. */
enum spool_command {
	SPOOL_COMMAND_NONE,
	SPOOL_COMMAND_START,
	SPOOL_COMMAND_STOP,
	SPOOL_COMMAND_SET, /* command_text: VARIABLE=VALUE */
	SPOOL_COMMAND_MAX,
};

/* Why nothing is recorded. */
enum spool_off {
	SPOOL_OFF_STOPPED = 1 << 0, /* by ctl or by the job */
	SPOOL_OFF_DELAY = 1 << 1,   /* WAYLAY_DELAY has not passed */
	SPOOL_OFF_OVER = 1 << 2,    /* WAYLAY_DURATION has */
	SPOOL_OFF_RANGE = 1 << 3,   /* outside of what WAYLAY_ONLY_RANGE names */
};

/* Written when a chunk is closed; all zero (or with committed 0) for a chunk still being filled, whose
 * own header tells then. */
struct spool_dir_entry {
	uint64_t begin_least, end_greatest; /* in the chunk's clock */
	uint32_t thread;                    /* serial */
	uint32_t committed;
	uint16_t type; /* enum spool_chunk_type */
	uint16_t clock;
	uint32_t sequence; /* among this thread's chunks */
};

_Static_assert(sizeof(struct spool_dir_entry) == 32, "directory entry");
_Static_assert(sizeof(struct spool_header) <= SPOOL_HEADER_BYTES, "header");

enum spool_chunk_type {
	SPOOL_CHUNK_FREE,
	SPOOL_CHUNK_RECORDS,
	SPOOL_CHUNK_META,
	SPOOL_CHUNK_SLOTS
};

#define SPOOL_CHUNK_MAGIC 0x4b4e4843u /* "CHNK" */

struct spool_chunk {
	uint32_t magic;
	uint16_t type;  /* enum spool_chunk_type */
	uint16_t clock; /* enum spool_clock: of every time in this chunk */
	uint32_t number;
	/* Even: settled; odd: being taken over (flight recorder). A reader that finds it odd, or other
	 * after its reads than before, has read nothing. */
	_Atomic uint32_t generation;
	uint32_t thread; /* serial of its owner (RECORDS) */
	uint32_t
		sequence; /* 0, 1, 2 ... among this thread's chunks: a gap is an overwritten chunk */
	/* Bytes committed after this header. One release store publishes a record; a reader's acquire
	 * load pairs with it and sees whole records or none. Not used by META and SLOTS. */
	_Atomic uint32_t committed;
	_Atomic uint32_t closed; /* 1: begin_least and end_greatest are final */
	uint64_t begin_least, end_greatest;
	uint64_t slot; /* RECORDS: file offset / 8 of its owner's struct spool_slot, 0 none */
	uint8_t reserved[8];
};
_Static_assert(sizeof(struct spool_chunk) == 64, "chunk header is one cache line");

/* A record. Its arguments follow, packed as the event table says; size covers all, in units of 8
 * bytes (the last unit is padded with zeros). */
struct spool_record {
	uint16_t units;
	uint16_t event;
	uint32_t flags; /* enum wl_flag */
	uint64_t begin; /* in the chunk's clock */
	uint64_t duration;
};
_Static_assert(sizeof(struct spool_record) == 24, "record header");

/*
 * Interned things and facts lie in META chunks, appended by any thread without locks. An entry's
 * head is claimed by compare-and-swap from 0 to (bytes | kind), which makes its length known even if
 * its writer dies at once; SPOOL_META_COMMITTED is set by a release store when the body is there.
 * An entry's id is its file offset / 8. Entries are 8-byte aligned; a zero head ends the chunk.
 */
#define SPOOL_META_BYTES(head)       ((head)&0xffffffu) /* head and body, a multiple of 8 */
#define SPOOL_META_KIND(head)        (((head) >> 24) & 0x7fu)
#define SPOOL_META_COMMITTED         0x80000000u
#define SPOOL_META_HEAD(bytes, kind) ((uint32_t)(bytes) | (uint32_t)(kind) << 24)

enum spool_meta_kind {
	SPOOL_META_NONE,
	SPOOL_META_STRING,     /* struct spool_meta_string */
	SPOOL_META_MODULE,     /* struct spool_meta_module */
	SPOOL_META_STACK,      /* struct spool_meta_stack */
	SPOOL_META_THREAD,     /* struct spool_meta_thread */
	SPOOL_META_THREAD_END, /* struct spool_meta_thread_end */
	SPOOL_META_CLOCK,      /* struct spool_meta_clock */
	SPOOL_META_ATTRIBUTE,  /* two ids: key, value (struct spool_meta_attribute) */
	SPOOL_META_SKIP,       /* the rest of a chunk that was too small for the next entry */
	SPOOL_META_MAX,
};

struct spool_meta_string {
	_Atomic uint32_t head;
	uint32_t length; /* without the NUL that follows the text */
	char text[];
};

struct spool_meta_module {
	_Atomic uint32_t head;
	uint32_t path;       /* string id */
	uint64_t bias;       /* what was added to its ELF addresses */
	uint64_t start, end; /* where it lay */
	uint8_t build_id[20];
	uint8_t build_id_bytes;
	uint8_t reserved[3];
};

/* Frames innermost first, Python frames before native ones. */
struct spool_meta_frame {
	uint64_t where; /* native: address - bias; Python: line */
	uint32_t
		what; /* native: module id (0: unknown, `where` is the address); Python: file string id */
	uint32_t name; /* Python: function string id; native: 0 */
	uint32_t kind; /* enum trace_frame_kind | SPOOL_FRAME_AWAITED */
	uint32_t reserved;
};
#define SPOOL_FRAME_AWAITED 0x100u

struct spool_meta_stack {
	_Atomic uint32_t head;
	uint32_t count;
	struct spool_meta_frame frames[];
};

struct spool_meta_thread {
	_Atomic uint32_t head;
	uint32_t serial;
	int64_t tid;
	uint32_t name; /* string id; a later entry of the same serial renames */
	uint32_t slot; /* file offset / 8 of its struct spool_slot */
	int64_t monotonic_ns;
};

struct spool_meta_thread_end {
	_Atomic uint32_t head;
	uint32_t serial;
	int64_t monotonic_ns;
	uint64_t drops[SPOOL_DROPS];
};

struct spool_meta_clock {
	_Atomic uint32_t head;
	uint32_t reserved;
	uint64_t tsc; /* 0 when the process does not use it */
	int64_t monotonic_ns, boottime_ns, realtime_ns;
};

struct spool_meta_attribute {
	_Atomic uint32_t head;
	uint32_t key, value; /* string ids */
	uint32_t reserved;
};

/*
 * What a thread is in. SLOTS chunks hold them after the chunk header. `call` is written last at
 * entry (release) and cleared at exit; a reader checks that `call` did not change around its reads.
 */
struct spool_slot {
	_Atomic uint32_t thread; /* serial of the owner, 0 free */
	uint32_t reserved;
	int64_t tid;
	_Atomic uint64_t call;  /* event << 32 | api string id; 0 outside any call */
	_Atomic uint64_t since; /* in `clock` */
	_Atomic uint32_t stack;
	_Atomic uint32_t clock;  /* enum spool_clock */
	_Atomic uint64_t object; /* stream, event or queue waited for */
	_Atomic uint64_t drops[SPOOL_DROPS];
	uint8_t reserved1[16];
};
_Static_assert(sizeof(struct spool_slot) == 128, "two cache lines");

#endif
