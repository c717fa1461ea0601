/* SPDX-License-Identifier: Apache-2.0
 *
 * Judges the rules by what cuda_matrix measured:  cuda_matrix_check ROWS RECORDING
 *
 * For each row the recorded call's rule says whether the call had to wait for the kernel; the program's
 * clock says whether it did. They must agree (in rows marked "gpu" on a GPU only), and where the host was
 * held for 1 ms or more the recorded duration must be within 5 % of the program's.
 */
#include "tracer/spool/spool.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

struct row {
	char name[64], relation[8], measured[8];
	uint64_t busy;
	int64_t held_ns, kernel_ns;
};

struct subject {
	const char *api;
	uint64_t stream, object;
	uint8_t rule, cls;
	int64_t duration_ns;
	uint32_t flags;
};

static uint64_t marker, pending;

static bool row_read(FILE *file, struct row *row)
{
	return fscanf(file, "%63[^|]|%7[^|]|%7[^|]|%" SCNx64 "|%" SCNd64 "|%" SCNd64 "\n",
		      row->name, row->relation, row->measured, &row->busy, &row->held_ns,
		      &row->kernel_ns) == 6;
}

static bool is_marker(const struct trace_event *event)
{
	return event->type->number == WL_EV_cuda_poll &&
	       event->args[WL_ARG(cuda_poll, object)] == marker;
}

#define TAKE(event_name, stream_, object_, rule_, cls_)                                            \
	case WL_EV_##event_name:                                                                   \
		*subject = (struct subject){                                                       \
			.api = reader->ops->string(                                                \
				reader, (uint32_t)event->args[WL_ARG(event_name, api)]),           \
			.stream = (stream_),                                                       \
			.object = (object_),                                                       \
			.rule = (uint8_t)(rule_),                                                  \
			.cls = (uint8_t)(cls_)};                                                   \
		break
#define ARG(event_name, name) event->args[WL_ARG(event_name, name)]

static void subject_take(struct trace_reader *reader, const struct trace_event *event,
			 struct subject *subject)
{
	switch (event->type->number) {
		TAKE(cuda_wait, ARG(cuda_wait, stream), ARG(cuda_wait, object),
		     ARG(cuda_wait, rule), ARG(cuda_wait, cls));
		TAKE(cuda_poll, 0, 0, ARG(cuda_poll, rule), ARG(cuda_poll, cls));
		TAKE(cuda_copy, ARG(cuda_copy, stream), 0, ARG(cuda_copy, rule),
		     ARG(cuda_copy, cls));
		TAKE(cuda_memset, ARG(cuda_memset, stream), 0, ARG(cuda_memset, rule),
		     ARG(cuda_memset, cls));
		TAKE(cuda_mem, 0, 0, ARG(cuda_mem, rule), ARG(cuda_mem, cls));
		TAKE(cuda_setup, 0, 0, ARG(cuda_setup, rule), ARG(cuda_setup, cls));
		TAKE(cuda_launch, 0, 0, ARG(cuda_launch, rule), ARG(cuda_launch, cls));
		TAKE(cuda_graph, 0, 0, 0, 0);
		TAKE(cuda_order, 0, 0, 0, 0);
	default:
		return;
	}
	subject->duration_ns = event->end_ns - event->begin_ns;
	subject->flags = event->flags;
}

/* The next call between two marks; api "" when nothing was recorded there. */
static bool subject_next(struct trace_reader *reader, struct trace_cursor *cursor,
			 struct subject *subject)
{
	struct trace_event event;

	memset(subject, 0, sizeof(*subject));
	subject->api = "";
	do {
		if (reader->ops->cursor_next(cursor, &event) != 1)
			return false;
	} while (!is_marker(&event));
	while (reader->ops->cursor_next(cursor, &event) == 1) {
		if (is_marker(&event))
			return true;
		subject_take(reader, &event, subject);
	}
	return false;
}

/* What rules.def says the call waits for, in the row's situation. */
static bool must_wait(const struct row *row, const struct subject *subject)
{
	const char *waits_for = wl_rule_info(subject->rule)->waits_for;
	bool ordered_with_legacy = !strcmp(row->relation, "B") || !strcmp(row->relation, "D");

	if (subject->cls != WL_call_class_waits || !row->kernel_ns)
		return false;
	if (!strcmp(waits_for, "CONTEXT"))
		return true;
	if (!strcmp(waits_for, "EVENT"))
		return subject->object == pending;
	if (!strcmp(waits_for, "LEGACY"))
		return ordered_with_legacy;
	if (!strcmp(waits_for, "COPY")) /* queued on the legacy stream, behind the kernel */
		return strstr(row->name, "copy pending") && ordered_with_legacy;
	if (!strcmp(waits_for, "STREAM"))
		return subject->stream == row->busy || (!subject->stream && ordered_with_legacy);
	return false;
}

static bool judge(const struct row *row, const struct subject *subject, bool simulated)
{
	bool judged = !simulated || strcmp(row->measured, "gpu") != 0;
	bool held = row->kernel_ns && row->held_ns >= row->kernel_ns / 2;
	int64_t off = subject->duration_ns - row->held_ns;
	bool agrees = must_wait(row, subject) == held;
	bool exact = row->held_ns < 1000000 || (off < 0 ? -off : off) * 20 <= row->held_ns;
	bool fails = (!agrees && judged) || !exact || !subject->api[0];

	printf("%-36s %-4s %-5s %10.3f ms %-4s  %-28s %-20s %s%s%s\n", row->name, row->relation,
	       row->measured, (double)row->held_ns / 1e6, held ? "held" : "", subject->api,
	       wl_rule_info(subject->rule)->word,
	       subject->flags & WL_FLAG_GUESSED ? "guessed " : "", agrees ? "" : "DISAGREES ",
	       exact ? "" : "DURATION");
	return !fails;
}

int main(int argc, char **argv)
{
	struct trace_reader *reader;
	struct trace_cursor *cursor;
	struct subject subject;
	unsigned rows = 0, wrong = 0;
	struct row row;
	FILE *file;
	char err[512];
	int error;

	if (argc != 3) {
		fprintf(stderr, "usage: cuda_matrix_check ROWS RECORDING\n");
		return 64;
	}
	file = fopen(argv[1], "r");
	if (!file || fscanf(file, "markers|%" SCNx64 "|%" SCNx64 "\n", &marker, &pending) != 2) {
		fprintf(stderr, "cuda_matrix_check: %s holds no rows of cuda_matrix\n", argv[1]);
		if (file)
			fclose(file);
		return 2;
	}
	if (spool_reader_open(argv[2], &reader, err, sizeof(err))) {
		fprintf(stderr, "cuda_matrix_check: %s\n", err);
		fclose(file);
		return 2;
	}
	cursor = reader->ops->cursor_open(reader, 0, &error);
	while (cursor && row_read(file, &row)) {
		rows++;
		if (!subject_next(reader, cursor, &subject)) {
			printf("%s (%s): the recording ends before it\n", row.name, row.relation);
			wrong++;
			break;
		}
		wrong += !judge(&row, &subject, reader->info.simulated);
	}
	if (cursor)
		reader->ops->cursor_close(cursor);
	reader->ops->close(reader);
	fclose(file);
	printf("%u rows, %u wrong\n", rows, wrong);
	return rows == 0 || wrong != 0;
}
