/* SPDX-License-Identifier: Apache-2.0
 *
 * How any recording is read. One struct trace_reader is one process's recording, whatever it lies
 * in (a spool, a CTF directory); exporters and analyses know only this interface.
 *
 * Records come in order of their END, the order in which a thread commits them: thread by thread,
 * or merged over the threads of the process.
 */
#ifndef WAYLAY_TRACER_READER_H
#define WAYLAY_TRACER_READER_H

#include "tracer/events/events.h"

#include <sys/types.h>

enum trace_drop {
	TRACE_DROP_SPACE,       /* the recording reached its cap */
	TRACE_DROP_DISK,        /* no space left on the file system */
	TRACE_DROP_INTERN,      /* a string or stack did not fit any more: shown as "?" */
	TRACE_DROP_THREAD,      /* no slot for a further thread */
	TRACE_DROP_OVERWRITTEN, /* the flight recorder wrote over it: wanted, not a fault */
	TRACE_DROP_ENGINE,      /* lost by an engine outside the process (LTTng) */
	TRACE_DROP_MAX,
};
const char *trace_drop_name(enum trace_drop reason);

/* A record. args: type->arg_count values, signed ones sign-extended; for a type this build knows, in
 * the order of this build's table (so WL_ARG() indexes them), with 0 for arguments the recording
 * does not have. Valid until the cursor moves. */
struct trace_event {
	const struct wl_event_type *type; /* this build's where known, else the recording's */
	uint32_t thread;                  /* index into trace_reader.threads */
	uint32_t flags;                   /* enum wl_flag */
	int64_t begin_ns, end_ns;         /* CLOCK_MONOTONIC of the recording host */
	uint64_t args[WL_ARGS_MAX];
};

enum trace_frame_kind { TRACE_FRAME_PYTHON, TRACE_FRAME_NATIVE };

/* One frame of a stack, innermost first. Strings are the reader's. */
struct trace_frame {
	enum trace_frame_kind kind;
	const char *
		function; /* Python: the qualified or plain name; native: NULL (symbolize offline) */
	const char *file; /* Python: the source file; native: the module's path */
	uint32_t line;    /* Python: 1-based, 0 unknown */
	uint64_t offset;  /* native: address - load bias: what the module's ELF symbols use */
	uint8_t build_id[20];
	uint8_t build_id_bytes; /* 0 when the module has none */
	bool awaited; /* a line of the thread that waits for this one (autograd workers) */
};

/* A call that had not returned when the recording was read or its process died. */
struct trace_inflight {
	uint32_t thread;
	const struct wl_event_type *type;
	const char *api;
	uint32_t stack;
	int64_t since_ns;
};

struct trace_thread {
	uint32_t serial;  /* unique in the process, never reused */
	int64_t tid;      /* as the kernel numbers it in the process's own namespace */
	const char *name; /* the newest known, never NULL */
	int64_t first_ns, last_ns;
	uint64_t drops[TRACE_DROP_MAX];
};

struct trace_clock {
	int64_t monotonic_ns, boottime_ns, realtime_ns;
	uint64_t tsc; /* 0 where not used */
};

struct trace_info {
	const char *format; /* "spool", "ctf" */
	const char *path;   /* the file or directory read */
	const char *host;
	const char *run;     /* run identifier; "" if none was given */
	const char *command; /* command line, arguments separated by spaces, shell-quoted */
	const char *process_name;
	int64_t pid, ppid;
	int rank, world_size, local_rank; /* -1 where the launcher gave none */
	int64_t start_ns, end_ns;         /* MONOTONIC; end_ns: newest record or trailer */
	bool ended;   /* a trailer was written: the process left in good order */
	bool damaged; /* something could not be read; damage says what */
	const char *damage;
	bool simulated;                 /* the driver was the simulated one (tests/fakecuda) */
	uint64_t drops[TRACE_DROP_MAX]; /* of the whole process */
	unsigned clock_count;           /* snapshots in order of time, at least 1 */
	const struct trace_clock *clocks;
	unsigned attribute_count; /* settings and facts: key, value pairs */
	const char *const (*attributes)[2];
};

enum trace_order { TRACE_ORDER_THREAD, TRACE_ORDER_MERGED };

struct trace_reader;
struct trace_cursor;

struct trace_reader_ops {
	/* A cursor over one thread (thread >= 0) or all, merged by end. NULL with *error = -errno. */
	struct trace_cursor *(*cursor_open)(struct trace_reader *reader, int thread, int *error);
	/* 1: *event filled; 0: end; -errno: the recording cannot be read further (info.damage says). */
	int (*cursor_next)(struct trace_cursor *cursor, struct trace_event *event);
	void (*cursor_close)(struct trace_cursor *cursor);
	/* Interned text, never NULL: "" for id 0, "?" for an id that is not there. */
	const char *(*string)(struct trace_reader *reader, uint32_t id);
	/* Frames of an interned stack, innermost first; returns how many (0 for id 0 or unknown),
	 * at most max are written. */
	unsigned (*stack)(struct trace_reader *reader, uint32_t id, struct trace_frame *frames,
			  unsigned max);
	unsigned (*inflight)(struct trace_reader *reader, struct trace_inflight *calls,
			     unsigned max);
	void (*close)(struct trace_reader *reader);
};

struct trace_reader {
	const struct trace_reader_ops *ops;
	struct trace_info info;
	unsigned thread_count;
	struct trace_thread *threads;
};

#endif
