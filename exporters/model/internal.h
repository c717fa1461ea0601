/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of the model share among themselves.
 */
#ifndef WAYLAY_EXPORTERS_MODEL_INTERNAL_H
#define WAYLAY_EXPORTERS_MODEL_INTERNAL_H

#include "exporters/exporters.h"
#include "exporters/model/text.h"

struct model_symbols;
struct message_senders;

/* One point of a process's clock: monotonic -> model. */
struct clock_knot {
	int64_t monotonic_ns, model_ns;
};

struct stack_slot {
	uint32_t id; /* 0 free */
	struct model_stack *stack;
};

struct process {
	struct model_process public; /* first: model_time() gets back from it to the rest */
	struct trace_reader *reader; /* NULL while closed */
	const char *path;            /* NULL: given as a reader, cannot be opened again */
	unsigned pins;               /* cursors that need it open */
	uint64_t used;               /* when it was last asked for: the oldest is closed first */
	unsigned knot_count;
	struct clock_knot *knots;
	struct stack_slot *stacks; /* resolved ones, by id */
	uint32_t stack_count, stack_mask;
};

struct model {
	struct text_pool *texts;
	struct process **processes; /* sorted as model_process() promises */
	unsigned process_count, process_capacity;
	unsigned open_count;
	unsigned open_max;
	uint64_t clock; /* of uses */
	unsigned host_count;
	bool want_symbols;
	const char **notes;
	unsigned note_count, note_capacity;
	unsigned unreadable_count;
	const char *run;
	int64_t first_ns, last_ns;
	struct message_senders *senders; /* of messages between processes; NULL: one process */
	struct model_symbols *symbols;   /* the helper process and what it has told */
	struct model_stack empty_stack;
};

/* model.c */
struct model *model_new(const struct model_options *options);
/* Takes the reader over (also on failure). path: where to open it again, NULL nowhere. */
int model_add(struct model *model, struct trace_reader *reader, const char *path);
/* Drops recordings that are not wanted, orders the rest, gives numbers, aligns clocks. */
int model_settle(struct model *model, const struct model_options *options, char *err,
		 size_t err_size);
void model_add_note(struct model *model, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
/* The process's reader, opened if need be; NULL with *error. */
struct trace_reader *model_reader(struct model *model, unsigned process, int *error);

/* clock.c */
int model_align(struct model *model);

/* align.c: learns who sends to whom, and aligns hosts' clocks by it. */
int model_align_by_messages(struct model *model);

/* stack.c */
void model_stacks_free(struct process *process);

/* symbols.c */
struct model_symbol {
	const char *function, *file; /* NULL unknown; the model's texts */
	uint32_t line;
};
/* What a mangled name ("_Z...") of C++ means; the name itself where that cannot be told. Lives as long as the
 * model, or as the name. */
const char *model_plain_name(struct model *model, const char *name);
/* Resolves an address of a module (offset: a return address) into at most max symbols, inlined
 * functions first; returns how many (0: nothing known). */
unsigned model_symbols_find(struct model *model, const struct trace_frame *frame,
			    struct model_symbol *symbols, unsigned max);
void model_symbols_free(struct model_symbols *symbols);

/* symbol_helper.c: what the helper process runs; reads requests from in, answers on out, returns at
 * the end of input. */
void symbol_helper_run(int in, int out);

#endif
