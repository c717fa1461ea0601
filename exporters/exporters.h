/* SPDX-License-Identifier: Apache-2.0
 *
 * What exporters and analyses share: the model of a job (its processes and threads on one clock,
 * matched transfers, registration lifetimes, named ranges, resolved stacks) and the exporters made
 * on it. Depends on the reader interface alone; recordings are opened through it.
 *
 * Times in events are CLOCK_MONOTONIC of the recording host, as read; model_time() places them on
 * the model's clock, which is BOOTTIME of the host that holds the earliest recording.
 */
#ifndef WAYLAY_EXPORTERS_H
#define WAYLAY_EXPORTERS_H

#include "tracer/events/reader.h"

#define MODEL_FILES_OPEN_MAX 512 /* recordings kept open at once, however many there are */
#define MODEL_STACK_MAX      256 /* frames of one stack that are looked at */
#define MODEL_ALL_THREADS    (-1)

/* --- the job ---------------------------------------------------------------------------------- */

struct model;

struct model_options {
	bool all_runs;   /* every run found in the directories; otherwise the newest alone */
	const char *run; /* only this run; NULL: see all_runs */
	bool symbols;    /* resolve native frames (starts a helper process when first needed) */
	/* Opens a directory of another kind of recordings, of which there may be several in it; as
	 * ctf_open() of tracer/lttng/ctf.h. NULL: such directories are left out. */
	int (*open_other)(const char *path, struct trace_reader ***readers, unsigned *count,
			  char *err, size_t err_size);
	unsigned files_open; /* recordings kept open at once; 0: MODEL_FILES_OPEN_MAX */
};

struct model_thread {
	struct trace_thread info;
	int64_t unique_tid; /* never 0, no two threads of the model share one; the main thread's is
			       its process's unique_pid */
};

struct model_process {
	struct trace_info info; /* the model's own copy: valid until model_close */
	unsigned index;         /* in model_process() */
	unsigned host;          /* index of its host (one boot of one machine), 0 the reference */
	int64_t unique_pid; /* never 0, unique over all hosts; the real pid where it is unique */
	const char *label;  /* "rank 3, host7", "host7" with several hosts, or "" */
	unsigned thread_count;
	const struct model_thread *threads;
	uint64_t drops_lost; /* all drops but TRACE_DROP_OVERWRITTEN */
	bool incomplete;     /* something is missing that was not meant to be: drops or damage */
	bool aligned; /* false: the recording's clocks made no sense and were taken as they are */
	int64_t clock_error_ns; /* bound of the clock's error against the reference host: 0 on that host,
				   from the traffic between hosts elsewhere; -1 unknown */
};

/*
 * Opens recordings. paths: files and directories (every *.wspool in them, not below). Duplicates
 * and files that cannot be read are left out and reported by model_note(). Returns 0 and *model,
 * or: -ENOENT no recording at all, -EINVAL none of them readable, other -errno; err then has one
 * line: what, which path, why, what to do. Free with model_close().
 */
int model_open(const char *const *paths, unsigned path_count, const struct model_options *options,
	       struct model **model, char *err, size_t err_size);
/* A model of readers that are open already (tests, other kinds of recordings). Takes them over,
 * also on failure. */
int model_from_readers(struct trace_reader *const *readers, unsigned count,
		       const struct model_options *options, struct model **model, char *err,
		       size_t err_size);
void model_close(struct model *model);

unsigned model_process_count(const struct model *model);
/* In order of rank, then host, then start. */
const struct model_process *model_process(const struct model *model, unsigned index);
unsigned model_host_count(const struct model *model);
/* What a user must be told about the input (files left out and why, runs left out), one line each.
 */
unsigned model_note_count(const struct model *model);
const char *model_note(const struct model *model, unsigned index);
/* Recordings that were left out because they cannot be read: whatever their run, which cannot be known,
 * nothing may be called complete. */
unsigned model_unreadable_count(const struct model *model);
/* The run that was chosen: "" if it has no identifier or if there are several. */
const char *model_run(const struct model *model);

/* A monotonic time of that process's host on the model's clock, 0 or later. Never decreases as its
 * argument grows; lengths are kept exactly where the host's clocks agree over the whole recording. */
int64_t model_time(const struct model_process *process, int64_t monotonic_ns);
/* Bounds of all recordings on the model's clock; and what REALTIME was at that first moment. */
void model_bounds(const struct model *model, int64_t *first_ns, int64_t *last_ns,
		  int64_t *first_realtime_ns);
/* The reference host's clocks at one moment (boottime_ns is the model's clock). */
struct trace_clock model_reference(const struct model *model);

/* --- records ---------------------------------------------------------------------------------- */

struct model_cursor;

/* Over one thread (an index into threads) or over all, merged by end. NULL with *error = -errno.
 * The recording stays open as long as the cursor. */
struct model_cursor *model_cursor_open(struct model *model, unsigned process, int thread,
				       int *error);
/* As trace_reader_ops.cursor_next; the event's end is never before its begin, and its thread is one
 * of the process's. */
int model_cursor_next(struct model_cursor *cursor, struct trace_event *event);
void model_cursor_close(struct model_cursor *cursor);

/* Interned text, never NULL; valid while any cursor of that process is open, at least until the
 * next call for another process. */
const char *model_string(struct model *model, unsigned process, uint32_t id);
/* What a record is called: its `api` or `text` argument, else its type's name. */
const char *model_event_name(struct model *model, unsigned process,
			     const struct trace_event *event);
/* Calls that had not returned at the end of the recording; their api lives as long as the model. */
unsigned model_inflight(struct model *model, unsigned process, struct trace_inflight *calls,
			unsigned max);
/* An argument of an event whose type this build knows: MODEL_ARG(&event, cuda_wait, rule). */
#define MODEL_ARG(event, type_name, arg_name) ((event)->args[WL_ARG(type_name, arg_name)])
/* An argument by name, for any type: its index in args, or -1. */
int model_arg_index(const struct wl_event_type *type, const char *name);
/* The event's call class (enum wl_call_class), WL_call_class_none for one that has none. */
unsigned model_event_class(const struct trace_event *event);

/* --- stacks ----------------------------------------------------------------------------------- */

/* A frame with everything that could be found out. Strings live as long as the model. */
struct model_frame {
	enum trace_frame_kind kind;
	bool awaited;         /* of the thread that waits for this one */
	const char *function; /* demangled; NULL unknown */
	const char *file;     /* source file; NULL unknown */
	uint32_t line;        /* 0 unknown */
	const char *module;   /* native: path of the module, else NULL */
	uint64_t offset;      /* native: in the module */
	const uint8_t *build_id;
	unsigned build_id_bytes;
};

struct model_stack {
	unsigned count; /* innermost first */
	unsigned site;  /* index of the frame to blame; valid when count > 0 */
	struct model_frame *frames;
};

/* An interned stack, resolved; count 0 for id 0 or an unknown one. Kept: asking again is cheap.
 * The result lives as long as the model. Never NULL. */
const struct model_stack *model_stack(struct model *model, unsigned process, uint32_t id);
/* The frame to blame: the innermost Python frame outside the standard library and site-packages,
 * else the innermost Python frame; without Python, the innermost native frame outside the system,
 * driver and fabric libraries, else the innermost. NULL for an empty stack. */
const struct model_frame *model_site(struct model *model, unsigned process, uint32_t id);
/* Where native code went to the driver or the fabric for a Python line: the innermost native frame outside
 * their libraries. NULL without one, and where the frame to blame is native itself. */
const struct model_frame *model_native_site(struct model *model, unsigned process, uint32_t id);
/* The frame to blame in words, as below; "(no stack)" without one. Lives as long as the model. */
const char *model_place(struct model *model, unsigned process, uint32_t id);
/* "train.py:12 in step" or "libfoo.so+0x123 in f()"; as snprintf. A NULL frame gives "". */
int model_frame_text(const struct model_frame *frame, char *buf, size_t size);

/* --- matching --------------------------------------------------------------------------------- */

enum model_transfer_end {
	MODEL_TRANSFER_COMPLETED,  /* a completion entry was read */
	MODEL_TRANSFER_AT_RETURN,  /* inject, or no completion was asked for: over when the call
				      returned */
	MODEL_TRANSFER_UNFINISHED, /* none seen by the end of the recording */
	MODEL_TRANSFER_LOST,       /* given up: more operations outstanding than are kept */
	MODEL_TRANSFER_END_MAX,
};

/* One network operation from its post to its completion. Times are monotonic_ns of the process. */
struct model_transfer {
	struct trace_event post; /* the ofi_post record */
	uint64_t post_ordinal;   /* which ofi_post of its thread it was, from 0 */
	enum model_transfer_end how;
	bool exact; /* false: contexts repeat, matched first in first out */
	bool multi; /* one of several completions of a multi-receive post */
	bool counted; /* posted() told of it, and this ends it: not so for what was over at once, nor for
			 any but the last of a multi-receive */
	bool failed;       /* an error entry; status says which */
	uint64_t bytes;    /* moved: the completion's count for receives, else the post's */
	int32_t status;    /* 0 or the negative libfabric error */
	uint32_t provider; /* string id of the endpoint's provider, 0 unknown */
	uint64_t message;  /* of sends and receives: the same number at both ends; 0 unknown */
	int64_t end_ns;    /* the completion was read; post's end or the recording's without one */
	uint32_t completion_thread;
	uint64_t completion_ordinal; /* which ofi_completion of that thread, from 0 */
};

/* A registration's life. */
struct model_registration {
	struct trace_event reg; /* the ofi_mr_reg record */
	uint64_t serial;        /* from 0 in order of registration */
	bool closed;            /* false: live at the end of the recording */
	int64_t end_ns;         /* return of the close, or the recording's end */
};

/* An instance of a named range (NVTX). Its begin and end callbacks carry the same serial. */
struct model_range {
	uint64_t serial;
	const char *name, *domain; /* the model's: live as long as it */
	uint32_t name_id, domain_id;
	uint32_t color; /* ARGB, 0 none */
	unsigned process;
	uint32_t thread;     /* it began on */
	uint32_t end_thread; /* it ended on: the same for push and pop */
	bool across;         /* start / end rather than push / pop */
	unsigned depth; /* of push / pop: how many are open around it in its thread and domain */
	int64_t begin_ns, end_ns;
	bool closed; /* false: open at the end of the recording */
};

/* Something a device did, and the call that caused it. Times are monotonic_ns of the process. */
struct model_activity {
	struct trace_event event; /* gpu_kernel, gpu_copy, gpu_memset, gpu_graph, gpu_sync */
	bool called;              /* the call is known, by the order of work on its stream: */
	uint32_t thread;
	uint64_t
		ordinal; /* which device call (launch, copy, memset, graph) of its thread, from 0 */
	int64_t call_begin_ns, call_end_ns;
	enum wl_category call_category;
};

/* Any may be NULL. What they are given is valid during the call. */
struct model_match_ops {
	void (*posted)(void *user, const struct trace_event *post);
	void (*transfer)(void *user, const struct model_transfer *transfer);
	void (*registered)(void *user, const struct model_registration *registration);
	void (*unregistered)(void *user, const struct model_registration *registration);
	void (*range_begin)(void *user, const struct model_range *range);
	void (*range_end)(void *user, const struct model_range *range);
	/* In the order in which the device's tracer delivered them, roughly that of their ends. */
	void (*activity)(void *user, const struct model_activity *activity);
};

/* How sure the matches are, and what could not be matched. */
struct model_match_counts {
	uint64_t transfers, exact, approximate, at_return, unfinished, lost;
	uint64_t completions_unmatched; /* entries without a post: remote writes, or posts not
					   recorded */
	uint64_t pops_unmatched;        /* range ends without a begin */
	uint64_t closes_unmatched;
	uint64_t activities, activities_called; /* of devices; those whose call is known */
};

struct model_matcher;

/* For one process: feed it that process's records merged by end, then finish. Callbacks come in
 * order of the time they speak of. NULL when memory is short. */
struct model_matcher *model_matcher_new(struct model *model, unsigned process,
					const struct model_match_ops *ops, void *user);
void model_matcher_feed(struct model_matcher *matcher, const struct trace_event *event);
/* Ends what is open. Nothing may be fed afterwards. */
void model_matcher_finish(struct model_matcher *matcher);
const struct model_match_counts *model_matcher_counts(const struct model_matcher *matcher);
void model_matcher_free(struct model_matcher *matcher);

/* --- selection ---------------------------------------------------------------------------------- */

/* What of a model an export shows. */
struct selection_spec {
	int64_t from_ns,
		to_ns;     /* model's clock; what touches it is shown whole. INT64_MIN, MAX: open */
	const char *range; /* only what touches an instance of this range in its process; NULL */
	uint32_t categories; /* bits by enum wl_category; 0 all */
	bool one_host;       /* only the processes of this host: */
	unsigned host;
};
struct selection;

/* NULL with *error and one line in err. The model must outlive it. */
struct selection *selection_new(struct model *model, const struct selection_spec *spec, int *error,
				char *err, size_t err_size);
void selection_free(struct selection *selection);
/*
 * Thinning: calls, instants, runs of polls and transfers are left out, those of the shortest duration
 * first, until the given part of those counted by the last export is left (0 .. 1). Waits, ranges and
 * registrations stay; of counters some values do. An export counts anew after selection_restart.
 */
void selection_thin(struct selection *selection, double keep);
void selection_restart(struct selection *selection);
/* How many the last export left out, of how many. */
uint64_t selection_thinned(const struct selection *selection, uint64_t *of);
/* Leaves processes of other ranks out of the model. ranks: bit by rank below 64 * words. -ENOENT if
 * none is left (the model is then as it was). */
int model_keep_ranks(struct model *model, const uint64_t *ranks, unsigned words);

/* --- beside ours -------------------------------------------------------------------------------- */

/* Reads a trace of torch.profiler (Kineto) of the same run, plain or gzipped, into memory: GPU rows and the
 * calls that caused them. NULL with *error and one line in err: also if it holds no such rows, or is of no
 * process of the model. The model must outlive it. */
struct kineto;
struct kineto *kineto_open(const struct model *model, const char *path, int *error, char *err,
			   size_t err_size);
void kineto_close(struct kineto *kineto);

/* --- exporters -------------------------------------------------------------------------------- */

enum export_compress {
	EXPORT_COMPRESS_NONE,
	EXPORT_COMPRESS_DEFLATE,
	EXPORT_COMPRESS_ZSTD, /* Perfetto alone, and where the build has it */
	EXPORT_COMPRESS_MAX,
};

struct export_options {
	enum export_compress
		compress; /* Perfetto: packets; Chrome, JSON lines: gzip (also by a .gz suffix) */
	bool no_stacks;   /* leave call stacks out */
	bool no_args;     /* leave arguments out: names and times alone */
	struct selection *selection; /* NULL: everything */
	const struct kineto *with;   /* Perfetto: its GPU rows beside ours; NULL: none */
	/* Called now and then with how much is done, 0 to 1000, or with EXPORT_ASK, where that is not known;
	 * non-zero stops the export (-EINTR). */
	int (*progress)(void *user, unsigned permille);
	void *user;
};

#define EXPORT_ASK 1001

struct export_result {
	uint64_t slices; /* on threads */
	uint64_t instants, counters, flows;
	uint64_t transfers, registrations, synchronizations; /* slices on their own tracks */
	uint64_t runs;  /* of polls, on tracks of their own: calls and ranges may cross them */
	uint64_t bytes; /* written */
	uint64_t ranges_across; /* start / end ranges, on tracks of their own */
	uint64_t activities;    /* of devices */
	uint64_t with_rows;     /* of them: from a trace of torch.profiler */
	uint64_t messages;      /* receives whose sender's end is known by number */
	uint64_t split;    /* ranges shown in pieces, because they began or ended inside a call */
	uint64_t too_deep; /* slices left out: inside 500 others, viewers take no more */
	struct model_match_counts match;
};

/*
 * Writes the whole model to path; "-" is the standard output. A file is written under a temporary
 * name beside it and renamed when complete, so that a failure leaves nothing behind under the final
 * name. 0 or -errno; err then has one line: what, which file, why, what to do. options and result
 * may be NULL.
 */
int perfetto_export(struct model *model, const char *path, const struct export_options *options,
		    struct export_result *result, char *err, size_t err_size);
int chrome_export(struct model *model, const char *path, const struct export_options *options,
		  struct export_result *result, char *err, size_t err_size);

/*
 * The same as tables for queries (docs/tables.md). tables: which, made of table_mask, 0 all. CSV is one
 * file a table: path is the file for one table, a folder (made if need be) for several; JSON lines and
 * SQLite are one file. result counts every record as a slice.
 */
enum table_format { TABLE_FORMAT_CSV, TABLE_FORMAT_JSONL, TABLE_FORMAT_SQLITE };
int table_export(struct model *model, const char *path, enum table_format format, uint32_t tables,
		 const struct export_options *options, struct export_result *result, char *err,
		 size_t err_size);
/* A table's bit by its name, 0 for none of them; and the name of table 0, 1, ..., NULL past the last. */
uint32_t table_mask(const char *name);
const char *table_name(unsigned number);

/* --- for those who write and draw themselves ------------------------------------------------------ */

/* Where something goes: a file that gets its name when it is complete, or the standard output. */
struct output {
	const char *path; /* final name, "-" standard output */
	char *temporary;  /* NULL: written in place (standard output, devices, pipes) */
	int fd;
	int error; /* first failure, -errno; later writes do nothing */
	uint64_t bytes;
	const struct export_options *options; /* what says when to stop; may be NULL */
};

/* 0 or -errno with one line in err. options: of the export, or NULL; must outlive it. */
int output_open(struct output *output, const char *path, const struct export_options *options,
		char *err, size_t err_size);
/* Whether the export is to stop: to be asked now and then by what takes long. */
bool output_stopped(const struct output *output);
void output_write(struct output *output, const void *data, size_t bytes);
/* error: 0 to complete the file, or why not: then nothing is left behind. Returns error, or the first
 * failure of writing; err then has one line (unless error was given and err is filled already). */
int output_close(struct output *output, int error, char *err, size_t err_size);
/* Bytes in a finished file, 0 if it cannot be asked. */
uint64_t output_size(const char *path);

/* Slices that overlap, spread over as few lanes as hold them without overlap. */
struct lane {
	int64_t end_ns; /* of its last slice */
	uint32_t number;
};

struct lanes {
	struct lane *lanes; /* in order of end_ns */
	uint32_t count, capacity;
};

/* A lane for a slice, given in order of their ends: one whose last slice is over when this begins.
 * Its number, from 0 on; equal to the count so far for a new lane; -1 without memory. */
int64_t lanes_take(struct lanes *lanes, int64_t begin_ns, int64_t end_ns);
void lanes_done(struct lanes *lanes);

#endif
