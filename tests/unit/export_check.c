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

/* --- devices -------------------------------------------------------------------------------------- */

#define ROUND_NS 10000
#define BATCH    23

struct devices {
	struct synthetic *synthetic;
	uint32_t thread[2], carrier;
	uint64_t handle[2];
	uint32_t number[2];
	int64_t free_ns[2]; /* when the stream is done with all it was given */
	int64_t now_ns[2];
	uint32_t correlation, serial;
	struct work {
		unsigned event;
		int64_t begin_ns, end_ns;
		union {
			struct wl_ev_gpu_kernel kernel;
			struct wl_ev_gpu_copy copy;
			struct wl_ev_gpu_memset memset;
			struct wl_ev_gpu_sync sync;
		} args;
	} batch[BATCH], late[BATCH];
	unsigned batched, late_count, deliveries;
	unsigned called;
};

static int by_end(const void *left, const void *right)
{
	const struct work *a = left, *b = right;

	return a->end_ns < b->end_ns ? -1 : a->end_ns > b->end_ns;
}

static void record(struct devices *devices, const struct work *work, unsigned count)
{
	for (unsigned i = 0; i < count; i++)
		synthetic_event(devices->synthetic, devices->carrier, work[i].event,
				work[i].begin_ns, work[i].end_ns, 0, &work[i].args);
}

/* One delivery: in order of end, long after the first of them; the second one after all others. */
static void deliver(struct devices *devices)
{
	qsort(devices->batch, devices->batched, sizeof(devices->batch[0]), by_end);
	if (++devices->deliveries == 2) {
		memcpy(devices->late, devices->batch, sizeof(devices->late));
		devices->late_count = devices->batched;
	} else {
		record(devices, devices->batch, devices->batched);
	}
	devices->batched = 0;
}

static struct work *work_on(struct devices *devices, unsigned t, unsigned event, int64_t not_before)
{
	struct work *work;

	if (devices->batched == BATCH)
		deliver(devices);
	work = &devices->batch[devices->batched++];
	memset(work, 0, sizeof(*work));
	work->event = event;
	work->begin_ns = devices->free_ns[t] > not_before ? devices->free_ns[t] : not_before;
	work->end_ns = work->begin_ns + 97;
	devices->free_ns[t] = work->end_ns + 3;
	return work;
}

static void kernel_on(struct devices *devices, unsigned t, int64_t not_before, uint32_t name,
		      uint32_t correlation, uint32_t graph)
{
	struct work *work = work_on(devices, t, WL_EV_gpu_kernel, not_before);

	work->args.kernel = (struct wl_ev_gpu_kernel){.name = name,
						      .context = 1,
						      .stream = devices->number[t],
						      .correlation = correlation,
						      .graph = graph,
						      .grid_x = 7,
						      .block_x = 128,
						      .registers = 32};
}

/* A launch: with work, without (captured, failed), or work alone. */
static void launch(struct devices *devices, unsigned t, bool call, bool works, uint32_t flags)
{
	int64_t begin = devices->now_ns[t] += 100;
	struct wl_ev_cuda_launch args = {.stream = devices->handle[t]};
	char name[32];
	uint32_t kernel;

	snprintf(name, sizeof(name), "kernel_%u", devices->serial++);
	kernel = synthetic_string(devices->synthetic, name);
	args.kernel = kernel;
	args.api = synthetic_string(devices->synthetic, "cuLaunchKernel");
	args.status = call && !works && !flags ? 700 : 0;
	if (call)
		synthetic_event(devices->synthetic, devices->thread[t], WL_EV_cuda_launch, begin,
				begin + 40, flags, &args);
	if (works)
		kernel_on(devices, t, begin + 20, kernel, ++devices->correlation, 0);
	devices->called += call && works;
}

/* in_time: the copy is over before its call returns. */
static void copy(struct devices *devices, unsigned t, bool in_time)
{
	int64_t begin = devices->now_ns[t] += 100;
	uint64_t bytes = 4096 + devices->serial++;
	struct wl_ev_cuda_copy args = {.bytes = bytes,
				       .stream = devices->handle[t],
				       .dst_kind = WL_mem_kind_device,
				       .src_kind = WL_mem_kind_pinned};
	struct work *work = work_on(devices, t, WL_EV_gpu_copy, begin + 20);
	int64_t end = in_time ? work->end_ns + 50 : begin + 40;

	work->args.copy = (struct wl_ev_gpu_copy){.bytes = bytes,
						  .context = 1,
						  .stream = devices->number[t],
						  .correlation = ++devices->correlation,
						  .dst_kind = WL_mem_kind_device,
						  .src_kind = WL_mem_kind_pinned};
	args.api = synthetic_string(devices->synthetic, "cuMemcpyHtoDAsync_v2");
	synthetic_event(devices->synthetic, devices->thread[t], WL_EV_cuda_copy, begin, end, 0,
			&args);
	devices->now_ns[t] = end;
	devices->called++;
}

static void fill(struct devices *devices, unsigned t)
{
	int64_t begin = devices->now_ns[t] += 100;
	uint64_t bytes = 64 + devices->serial++;
	struct work *work = work_on(devices, t, WL_EV_gpu_memset, begin + 20);

	work->args.memset = (struct wl_ev_gpu_memset){.bytes = bytes,
						      .context = 1,
						      .stream = devices->number[t],
						      .correlation = ++devices->correlation};
	SYNTHETIC(devices->synthetic, devices->thread[t], cuda_memset, begin, begin + 30,
		  .bytes = bytes, .stream = devices->handle[t]);
	devices->called++;
}

static void graph(struct devices *devices, unsigned t)
{
	int64_t begin = devices->now_ns[t] += 100;
	uint32_t api = synthetic_string(devices->synthetic, "cuGraphLaunch");
	uint32_t make = synthetic_string(devices->synthetic, "cuGraphInstantiate");
	uint32_t node = synthetic_string(devices->synthetic, "node");

	SYNTHETIC(devices->synthetic, devices->thread[t], cuda_graph, begin, begin + 10,
		  .api = make);
	SYNTHETIC(devices->synthetic, devices->thread[t], cuda_graph, begin + 20, begin + 60,
		  .api = api, .stream = devices->handle[t]);
	++devices->correlation;
	for (unsigned i = 0; i < 3; i++)
		kernel_on(devices, t, begin + 40, node, devices->correlation, 9);
	devices->called += 3;
}

static void wait_for(struct devices *devices, unsigned t)
{
	int64_t begin = devices->now_ns[t] += 100;
	int64_t end = devices->free_ns[t] > begin ? devices->free_ns[t] : begin + 10;
	struct work *work = work_on(devices, t, WL_EV_gpu_sync, begin + 5);

	devices->free_ns[t] = end;
	work->begin_ns = begin + 5;
	work->end_ns = end;
	work->args.sync = (struct wl_ev_gpu_sync){.context = 1,
						  .stream = devices->number[t],
						  .correlation = ++devices->correlation,
						  .wait = WL_gpu_wait_stream};
	SYNTHETIC(devices->synthetic, devices->thread[t], cuda_wait, begin, end + 5,
		  .stream = devices->handle[t], .cls = WL_call_class_waits);
	devices->now_ns[t] = end + 5;
}

unsigned synthetic_devices(struct synthetic *synthetic, unsigned rounds)
{
	static const char *const attributes[][2] = {{"cupti", "on"}};
	struct devices devices = {
		.synthetic = synthetic, .handle = {0, 0x7f0000001000}, .number = {7, 13}};

	synthetic_info(synthetic)->attributes = attributes;
	synthetic_info(synthetic)->attribute_count = 1;
	for (unsigned t = 0; t < 2; t++) {
		devices.thread[t] = synthetic_thread(synthetic, 500 + t, t ? "second" : "first");
		devices.now_ns[t] = devices.free_ns[t] = 1000 + t * 17;
	}
	devices.carrier = synthetic_thread(synthetic, 600, "waylay");
	for (unsigned round = 0; round < rounds; round++) {
		for (unsigned t = 0; t < 2; t++) {
			launch(&devices, t, true, true, 0);
			/* The stream's number is learnt after the first call on it. */
			if (!round)
				SYNTHETIC(synthetic, devices.thread[t], gpu_stream,
					  devices.now_ns[t] + 45, devices.now_ns[t] + 45,
					  .stream = devices.handle[t], .context = 1,
					  .number = devices.number[t]);
			copy(&devices, t, false);
			launch(&devices, t, true, false, WL_FLAG_CAPTURED);
			launch(&devices, t, true, true, 0);
			fill(&devices, t);
			launch(&devices, t, true, false, 0);
			copy(&devices, t, true);
			graph(&devices, t);
			wait_for(&devices, t);
		}
		if (round % 5 == 4)
			launch(&devices, 1, false, true, 0);
	}
	deliver(&devices);
	record(&devices, devices.late, devices.late_count);
	return devices.called;
}
