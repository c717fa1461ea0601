/* SPDX-License-Identifier: Apache-2.0
 *
 * Running the checkers on exported traces, and recordings worth exporting.
 */
#include "tests/unit/export_check.h"

#include "tests/perfetto/dump.h"
#include "tests/unit/synthetic_reader.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

int export_setup(void **state)
{
	const char *tmp = getenv("TMPDIR");
	char *path = NULL;

	if (asprintf(&path, "%s/waylay-export-XXXXXX", tmp ? tmp : "/tmp") < 0 || !mkdtemp(path))
		return -1;
	*state = path;
	return 0;
}

int export_teardown(void **state)
{
	char *path = *state;
	DIR *directory = opendir(path);
	struct dirent *entry;

	while (directory && (entry = readdir(directory)))
		unlinkat(dirfd(directory), entry->d_name, 0);
	if (directory)
		closedir(directory);
	rmdir(path);
	free(path);
	return 0;
}

/* Debian's python has the protobuf module; another one that comes first in PATH may not. */
static int run_checker(const char *checker, const char *first, const char *second)
{
	const char *python = access("/usr/bin/python3", X_OK) ? "python3" : "/usr/bin/python3";
	char script[4096];
	pid_t pid;
	int status;

	snprintf(script, sizeof(script), "%s/tests/perfetto/%s", WAYLAY_SOURCE, checker);
	fflush(stdout);
	pid = fork();
	assert_true(pid >= 0);
	if (!pid) {
		execlp(python, python, script, first, second, (char *)NULL);
		_exit(77);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

static void judge(const char *checker, const char *trace, const char *dump)
{
	int status = run_checker(checker, trace, dump);

	if (status == 77)
		skip();
	assert_int_equal(status, 0);
	/* Where Perfetto's own trace processor is at hand, it judges as well. */
	if (getenv("TRACE_PROCESSOR"))
		assert_int_equal(
			run_checker("check_processor.py", getenv("TRACE_PROCESSOR"), trace), 0);
}

static void export_to(const char *path, struct model *model, export_function export,
		      const struct export_options *options, struct export_result *result)
{
	char err[512] = "";

	if (export(model, path, options, result, err, sizeof(err)))
		fail_msg("%s", err);
}

void export_and_check(const char *directory, struct model *model, export_function export,
		      const char *checker, const char *suffix, const struct export_options *options,
		      struct export_result *result)
{
	char trace[4096], dump[4096];
	FILE *file;

	snprintf(trace, sizeof(trace), "%s/trace.%s", directory, suffix);
	snprintf(dump, sizeof(dump), "%s/dump.jsonl", directory);
	export_to(trace, model, export, options, result);
	file = fopen(dump, "w");
	assert_non_null(file);
	assert_int_equal(dump_model(model, file), 0);
	assert_int_equal(fclose(file), 0);
	judge(checker, trace, dump);
}

void export_and_judge(const char *directory, struct model *model, export_function export,
		      const char *checker, const char *suffix, const struct export_options *options,
		      struct export_result *result)
{
	char trace[4096];

	snprintf(trace, sizeof(trace), "%s/trace.%s", directory, suffix);
	export_to(trace, model, export, options, result);
	judge(checker, trace, NULL);
}

struct model *model_of(struct synthetic *const *recordings, unsigned count)
{
	struct trace_reader *readers[64];
	struct model_options options = {.all_runs = true};
	struct model *model = NULL;
	char err[512] = "";

	for (unsigned i = 0; i < count; i++)
		readers[i] = synthetic_reader(recordings[i]);
	if (model_from_readers(readers, count, &options, &model, err, sizeof(err)))
		fail_msg("%s", err);
	return model;
}

/* --- trouble ------------------------------------------------------------------------------------ */

struct maker {
	struct synthetic *synthetic;
	uint32_t thread, api[7], text[5], domain[3];
	uint64_t random;
	unsigned left;
	unsigned open[3]; /* ranges open, by domain */
	bool crossing;
};

static unsigned roll(struct maker *maker, unsigned sides)
{
	maker->random = maker->random * 6364136223846793005u + 1442695040888963407u;
	return (unsigned)(maker->random >> 33) % sides;
}

static void make_leaf(struct maker *maker, int64_t at)
{
	unsigned domain = maker->crossing ? roll(maker, 3) : 0;

	switch (roll(maker, 6)) {
	case 0:
		SYNTHETIC(maker->synthetic, maker->thread, nvtx_mark, at, at,
			  .text = maker->text[roll(maker, 5)]);
		break;
	case 1:
	case 2:
		if (maker->open[domain] >= 20)
			break;
		maker->open[domain]++;
		SYNTHETIC(maker->synthetic, maker->thread, nvtx_push, at, at,
			  .text = maker->text[roll(maker, 5)], .domain = maker->domain[domain]);
		break;
	case 3:
	case 4:
		/* Now and then an end too many. */
		if (!maker->open[domain] && roll(maker, 10))
			break;
		maker->open[domain] -= maker->open[domain] > 0;
		SYNTHETIC(maker->synthetic, maker->thread, nvtx_pop, at, at,
			  .domain = maker->domain[domain]);
		break;
	default:
		SYNTHETIC(maker->synthetic, maker->thread, meta_note, at, at, .count = 23,
			  .text = maker->text[0]);
		break;
	}
}

/* A call and what is inside it, beginning at `at`; returns its end. Steps are small, so that begins and
 * ends often fall together. */
static int64_t make_call(struct maker *maker, int64_t at, unsigned depth)
{
	int64_t begin = at;
	unsigned inside = depth < 6 ? roll(maker, 4) : 0;

	maker->left -= maker->left > 0;
	at += roll(maker, 2);
	for (unsigned i = 0; i < inside && maker->left; i++) {
		if (maker->crossing && !roll(maker, 4))
			make_leaf(maker, at);
		else
			at = make_call(maker, at, depth + 1);
		at += roll(maker, 3);
	}
	at += roll(maker, 2);
	if (roll(maker, 2))
		SYNTHETIC(maker->synthetic, maker->thread, cuda_wait, begin, at,
			  .api = maker->api[roll(maker, 7)], .stream = 0x51,
			  .rule = WL_rule_stream_wait,
			  .cls = depth ? WL_call_class_polls : WL_call_class_waits);
	else
		SYNTHETIC(maker->synthetic, maker->thread, ofi_open, begin, at,
			  .api = maker->api[roll(maker, 7)], .status = -(int)roll(maker, 3));
	return at;
}

void synthetic_trouble(struct synthetic *synthetic, unsigned threads, unsigned records,
		       unsigned seed, bool crossing)
{
	static const char *const texts[] = {"step", "forward", "backward", "caf\xc3\xa9",
					    "bad\xff"};
	struct maker maker = {.synthetic = synthetic, .random = seed, .crossing = crossing};
	char name[32];

	for (unsigned i = 0; i < 7; i++) {
		snprintf(name, sizeof(name), "cuCall%u", i);
		maker.api[i] = synthetic_string(synthetic, name);
	}
	for (unsigned i = 0; i < 5; i++)
		maker.text[i] = synthetic_string(synthetic, texts[i]);
	maker.domain[1] = synthetic_string(synthetic, "torch");
	maker.domain[2] = synthetic_string(synthetic, "nccl");
	for (unsigned i = 0; i < threads; i++) {
		int64_t at = 1000 + roll(&maker, 1000);

		maker.thread = synthetic_thread(synthetic, 500 + i, "worker");
		maker.left = records;
		memset(maker.open, 0, sizeof(maker.open));
		while (maker.left) {
			if (!roll(&maker, 9))
				SYNTHETIC(synthetic, maker.thread, cuda_poll, at - roll(&maker, 50),
					  at, .api = maker.api[0], .polls = 23,
					  .rule = WL_rule_query_loop,
					  .cls = roll(&maker, 2) ? WL_call_class_waits
								 : WL_call_class_polls);
			if (roll(&maker, 3)) {
				at = make_call(&maker, at, 0);
			} else {
				make_leaf(&maker, at);
				maker.left--;
			}
			at += roll(&maker, 3);
		}
	}
}

/* --- every event -------------------------------------------------------------------------------- */

void synthetic_every_event(struct synthetic *synthetic)
{
	const struct trace_frame frames[] = {
		{.kind = TRACE_FRAME_PYTHON,
		 .function = "step",
		 .file = "/job/train.py",
		 .line = 12},
		{.kind = TRACE_FRAME_NATIVE,
		 .file = "/opt/lib/libjob.so",
		 .offset = 0x1234,
		 .build_id = {1, 2, 3},
		 .build_id_bytes = 3},
		{.kind = TRACE_FRAME_PYTHON,
		 .function = "backward",
		 .file = "/job/loop.py",
		 .line = 3,
		 .awaited = true},
	};
	uint32_t stack = synthetic_stack(synthetic, frames, 3);
	uint32_t text = synthetic_string(synthetic, "some text");
	uint32_t thread = synthetic_thread(synthetic, 77, "all");
	int64_t at = 100;

	for (unsigned number = 1; number < WL_EV_MAX; number++) {
		const struct wl_event_type *type = wl_event_type(number);
		uint8_t args[256] = {0}, *to = args;

		if (!type)
			continue;
		for (unsigned i = 0; i < type->arg_count; i++) {
			const struct wl_arg *arg = &type->args[i];
			uint64_t value = number * 7 + i;

			if (arg->show == WL_SHOW_STACK)
				value = stack;
			else if (arg->show == WL_SHOW_STR)
				value = text;
			else if (arg->show == WL_SHOW_ENUM)
				value = (number + i) % arg->enumeration->count;
			else if (arg->show == WL_SHOW_STATUS)
				value = 0;
			memcpy(to, &value, wl_arg_type_bytes(arg->type));
			to += wl_arg_type_bytes(arg->type);
		}
		synthetic_event(synthetic, thread, number, at,
				type->form == WL_FORM_CALL ? at + 10 : at, 0xf, args);
		at += 13;
	}
}

/* --- garbage --- */

void synthetic_garbage(struct synthetic *synthetic, unsigned records, unsigned seed)
{
	struct maker maker = {.synthetic = synthetic, .random = seed};
	uint32_t threads[3];
	int64_t end = -5000;

	for (int i = 0; i < 3; i++) {
		threads[i] = synthetic_thread(synthetic, i ? 77 : -1, i ? "same tid" : "");
		synthetic_string(synthetic, i ? "odd \x01\"name\\" : "");
	}
	for (unsigned i = 0; i < records; i++) {
		unsigned number = roll(&maker, WL_EV_MAX);
		uint8_t args[256];
		int64_t begin;

		if (!wl_event_type(number))
			continue;
		for (size_t j = 0; j < sizeof(args); j++)
			args[j] = (uint8_t)(roll(&maker, 3) ? 0 : roll(&maker, 256));
		/* Mostly near the end before; now and then long ago, or after its own end. */
		end += roll(&maker, 40) ? roll(&maker, 30) : 1000000007;
		begin = end - (roll(&maker, 9) ? roll(&maker, 60) : roll(&maker, 100000));
		if (!roll(&maker, 50))
			begin = roll(&maker, 2) ? INT64_MIN + 1 : end + 999;
		synthetic_event(synthetic, threads[roll(&maker, 3)], number, begin, end,
				roll(&maker, 4) ? 0 : roll(&maker, 1 << 16), args);
	}
	synthetic_inflight(synthetic, threads[0], WL_EV_ofi_wait, "", 12345, INT64_MIN);
	synthetic_inflight(synthetic, 99, WL_EV_ofi_wait, "x", 0, 0);
}

/* --- a fabric ----------------------------------------------------------------------------------- */

void synthetic_fabric(struct synthetic *synthetic, unsigned rounds)
{
	enum { EP = 0xe0, CQ = 0xc0, SENDERS = 3 };
	uint32_t send = synthetic_string(synthetic, "fi_tsend");
	uint32_t recv = synthetic_string(synthetic, "fi_trecv");
	uint32_t inject = synthetic_string(synthetic, "fi_tinject");
	uint32_t reg = synthetic_string(synthetic, "fi_mr_reg");
	uint32_t close = synthetic_string(synthetic, "fi_close");
	uint32_t main_thread = synthetic_thread(synthetic, 600, "main");
	uint32_t progress = synthetic_thread(synthetic, 601, "progress");
	const struct trace_frame frame = {.kind = TRACE_FRAME_PYTHON,
					  .function = "exchange",
					  .file = "/job/net.py",
					  .line = 7};
	uint32_t stack = synthetic_stack(synthetic, &frame, 1);
	int64_t at = 50;

	SYNTHETIC(synthetic, main_thread, ofi_open, at, at + 1, .object = EP,
		  .kind = WL_ofi_kind_ep);
	SYNTHETIC(synthetic, main_thread, ofi_bind, at + 2, at + 3, .object = EP, .bound = CQ,
		  .flags = 1ull << 10 | 1ull << 11, .kind = WL_ofi_kind_ep,
		  .bound_kind = WL_ofi_kind_cq);
	for (unsigned i = 0; i < rounds; i++) {
		at += 1000;
		SYNTHETIC(synthetic, main_thread, ofi_mr_reg, at, at + 90, .mr = 0x3000 + i,
			  .addr = 0x7f0000000000 + i * 4096, .bytes = 4096, .api = reg,
			  .stack = stack, .ranges = 1, .fd = -1);
		for (unsigned j = 0; j < SENDERS; j++) {
			SYNTHETIC(synthetic, main_thread, ofi_post, at + 100 + j * 20,
				  at + 110 + j * 20, .ep = EP, .context = 0x100 + j, .bytes = 1024,
				  .peer = 1, .tag = i, .api = recv, .op = WL_ofi_op_trecv);
			SYNTHETIC(synthetic, main_thread, ofi_post, at + 110 + j * 20,
				  at + 119 + j * 20, .ep = EP, .context = 0x200 + j, .bytes = 512,
				  .peer = 1, .tag = i, .api = send, .op = WL_ofi_op_tsend);
		}
		SYNTHETIC(synthetic, main_thread, ofi_post, at + 170, at + 175, .ep = EP,
			  .bytes = 8, .peer = 2, .api = inject, .op = WL_ofi_op_tsend, .inject = 1);
		for (unsigned j = SENDERS; j-- > 0;) {
			SYNTHETIC(synthetic, progress, ofi_completion, at + 300 - j * 30,
				  at + 300 - j * 30, .cq = CQ, .context = 0x200 + j,
				  .flags = 1ull << 11, .src = UINT64_MAX);
			SYNTHETIC(synthetic, progress, ofi_completion, at + 310 - j * 30,
				  at + 310 - j * 30, .cq = CQ, .context = 0x100 + j,
				  .flags = 1ull << 10, .bytes = 1000, .src = 1);
		}
		if (i % 3)
			SYNTHETIC(synthetic, main_thread, ofi_mr_close, at + 500, at + 520,
				  .mr = 0x3000 + i, .api = close);
	}
}
