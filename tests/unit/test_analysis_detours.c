/* SPDX-License-Identifier: Apache-2.0
 *
 * Detours, in mixes of copies, sends and receives by chance, beside a simulation that keeps what every
 * byte of host memory holds: all are found, none is invented.
 */
#include "tests/unit/analysis_job.h"
#include "viewers/spans.h"

#include <stdio.h>
#include <string.h>

#define MEMORY 4096u /* bytes of host memory, from BASE on */
#define BASE   0x100000u
#define MIXES  200u
#define STEPS  300u

enum holds { NOTHING, FROM_DEVICE, FROM_NETWORK };

struct truth {
	uint8_t holds[MEMORY];
	uint32_t copy[MEMORY]; /* FROM_DEVICE: by which */
	bool matched[STEPS];
	struct detour_stat out, in;
};

static unsigned random_state;
static unsigned below(unsigned limit)
{
	random_state = random_state * 1664525u + 1013904223u;
	return (random_state >> 8) % limit;
}

static void copy_out(struct job *job, struct truth *truth, unsigned step, unsigned first,
		     unsigned bytes)
{
	JOB_CALL(job, 0, cuda_copy, 0, .dst = BASE + first, .bytes = bytes, .stream = 7,
		 .stack = JOB_STACK(job, LINE_A), .api = JOB_TEXT(job, "cuMemcpyDtoH_v2"),
		 .src_kind = WL_mem_kind_device, .dst_kind = WL_mem_kind_pageable,
		 .rule = WL_rule_copy_to_host, .cls = WL_call_class_waits);
	for (unsigned i = first; i < first + bytes; i++) {
		truth->holds[i] = FROM_DEVICE;
		truth->copy[i] = step;
	}
}

static void copy_in(struct job *job, struct truth *truth, unsigned first, unsigned bytes)
{
	unsigned found = 0;

	JOB_CALL(job, 0, cuda_copy, 0, .src = BASE + first, .bytes = bytes, .stream = 7,
		 .stack = JOB_STACK(job, LINE_B), .api = JOB_TEXT(job, "cuMemcpyHtoD_v2"),
		 .src_kind = WL_mem_kind_pageable, .dst_kind = WL_mem_kind_device,
		 .rule = WL_rule_copy_from_pageable, .cls = WL_call_class_waits);
	for (unsigned i = first; i < first + bytes; i++) {
		found += truth->holds[i] == FROM_NETWORK;
		if (truth->holds[i] == FROM_NETWORK)
			truth->holds[i] = NOTHING;
	}
	truth->in.bytes += found;
	truth->in.copies += found != 0;
	truth->in.copy_bytes += found ? bytes : 0;
	truth->in.held_ns += found ? JOB_CALL_NS : 0;
}

static void send_it(struct job *job, struct truth *truth, const unsigned *sizes, unsigned first,
		    unsigned bytes)
{
	unsigned found = 0;

	JOB_CALL(job, 0, ofi_post, 0, .ep = 1, .context = 99, .addr = BASE + first, .bytes = bytes,
		 .op = WL_ofi_op_tsend, .inject = 1);
	for (unsigned i = first; i < first + bytes; i++) {
		if (truth->holds[i] != FROM_DEVICE)
			continue;
		found++;
		if (truth->matched[truth->copy[i]])
			continue;
		truth->matched[truth->copy[i]] = true;
		truth->out.copies++;
		truth->out.copy_bytes += sizes[truth->copy[i]];
		truth->out.held_ns += JOB_CALL_NS;
	}
	truth->out.bytes += found;
	truth->out.transfers += found != 0;
}

static void receive(struct job *job, struct truth *truth, unsigned first, unsigned bytes)
{
	static uint64_t context = 1000;
	struct job_process *process = &job->processes[job->count - 1];

	context++;
	JOB_CALL(job, 0, ofi_post, 0, .ep = 1, .context = context, .addr = BASE + first,
		 .bytes = bytes, .op = WL_ofi_op_trecv);
	SYNTHETIC(process->synthetic, 0, ofi_completion, process->now, process->now, .cq = 2,
		  .context = context, .flags = 1ull << 3 | 1ull << 10, .bytes = bytes);
	process->now++;
	for (unsigned i = first; i < first + bytes; i++)
		truth->holds[i] = FROM_NETWORK;
}

static void one_mix(unsigned seed, struct truth *all)
{
	struct job job = {0};
	struct truth truth = {0};
	unsigned sizes[STEPS];
	const struct detour_stat *out, *in;

	random_state = seed;
	(void)job_process(&job, -1, -1);
	JOB_CALL(&job, 0, ofi_open, 0, .object = 2, .kind = WL_ofi_kind_cq);
	JOB_CALL(&job, 0, ofi_open, 0, .object = 1, .kind = WL_ofi_kind_ep);
	JOB_CALL(&job, 0, ofi_bind, 0, .object = 1, .bound = 2, .flags = 1ull << 10 | 1ull << 11,
		 .kind = WL_ofi_kind_ep, .bound_kind = WL_ofi_kind_cq);
	for (unsigned i = 0; i < STEPS; i++) {
		/* Whole buffers again and again, or anything. */
		unsigned whole = seed % 2;
		unsigned first = whole ? 256 * below(16) : below(MEMORY - 1);
		unsigned bytes =
			whole ? 256 : 1 + below(MEMORY - first < 700 ? MEMORY - first : 700);

		sizes[i] = bytes;
		switch (below(4)) {
		case 0:
			copy_out(&job, &truth, i, first, bytes);
			break;
		case 1:
			copy_in(&job, &truth, first, bytes);
			break;
		case 2:
			send_it(&job, &truth, sizes, first, bytes);
			break;
		default:
			receive(&job, &truth, first, bytes);
		}
	}
	job_analyse(&job, NULL);
	out = &job.analysis->detours.kinds[DETOUR_COPIED_OUT];
	in = &job.analysis->detours.kinds[DETOUR_COPIED_IN];
	assert_int_equal(out->bytes, truth.out.bytes);
	assert_int_equal(out->transfers, truth.out.transfers);
	assert_int_equal(out->copies, truth.out.copies);
	assert_int_equal(out->copy_bytes, truth.out.copy_bytes);
	assert_int_equal(out->held_ns, truth.out.held_ns);
	assert_int_equal(in->bytes, truth.in.bytes);
	assert_int_equal(in->copies, truth.in.copies);
	assert_int_equal(in->copy_bytes, truth.in.copy_bytes);
	assert_int_equal(in->held_ns, truth.in.held_ns);
	assert_int_equal(job.analysis->detours.save_ns, truth.out.held_ns + truth.in.held_ns);
	all->out.copies += out->copies;
	all->in.copies += in->copies;
	job_done(&job);
}

static void mixes_by_chance(void **state)
{
	struct truth all = {0};

	(void)state;
	for (unsigned seed = 1; seed <= MIXES; seed++)
		one_mix(seed, &all);
	assert_true(all.out.copies > 1000 && all.in.copies > 1000);
	print_message(
		"[ detours  ] %u mixes: %llu copies out and %llu in; recall 100 %%, precision "
		"100 %%\n",
		MIXES, (unsigned long long)all.out.copies, (unsigned long long)all.in.copies);
}

/* Pinned memory that no copy fills: kernels write it, in a process that has any. */
static void mapped_memory(void **state)
{
	(void)state;
	for (unsigned launches = 0; launches < 2; launches++) {
		struct job job = {0};
		struct truth truth = {0};
		const struct detour_stat *out, *in;

		(void)job_process(&job, -1, -1);
		JOB_CALL(&job, 0, ofi_open, 0, .object = 2, .kind = WL_ofi_kind_cq);
		JOB_CALL(&job, 0, ofi_open, 0, .object = 1, .kind = WL_ofi_kind_ep);
		JOB_CALL(&job, 0, ofi_bind, 0, .object = 1, .bound = 2,
			 .flags = 1ull << 10 | 1ull << 11, .kind = WL_ofi_kind_ep,
			 .bound_kind = WL_ofi_kind_cq);
		JOB_CALL(&job, 0, cuda_mem, 0, .ptr = BASE, .bytes = 2048,
			 .kind = WL_mem_kind_pinned, .op = WL_mem_op_alloc);
		if (launches)
			JOB_LAUNCH(&job, 0);
		send_it(&job, &truth, NULL, 0, 100);
		receive(&job, &truth, 1024, 101);
		send_it(&job, &truth, NULL, 1024, 50);  /* passed on: no detour */
		send_it(&job, &truth, NULL, 2000, 100); /* not all of it pinned */
		job_analyse(&job, NULL);
		out = &job.analysis->detours.kinds[DETOUR_MAPPED_OUT];
		in = &job.analysis->detours.kinds[DETOUR_MAPPED_IN];
		assert_int_equal(out->bytes, launches ? 100 : 0);
		assert_int_equal(out->transfers, launches);
		assert_int_equal(in->bytes, launches ? 101 : 0);
		assert_int_equal(job.analysis->detours.kinds[DETOUR_COPIED_OUT].bytes, 0);
		job_done(&job);
	}
}

static void copies_inside_the_provider(void **state)
{
	struct job job = {0};

	(void)state;
	(void)job_process(&job, -1, -1);
	JOB_CALL(&job, 0, cuda_copy, WL_FLAG_IN_PROVIDER, .dst = BASE, .bytes = 71,
		 .src_kind = WL_mem_kind_device, .dst_kind = WL_mem_kind_pageable,
		 .rule = WL_rule_copy_to_host, .cls = WL_call_class_waits);
	job_analyse(&job, NULL);
	assert_int_equal(job.analysis->detours.kinds[DETOUR_IN_PROVIDER].bytes, 71);
	assert_int_equal(job.analysis->detours.kinds[DETOUR_IN_PROVIDER].copies, 1);
	assert_int_equal(job.analysis->detours.kinds[DETOUR_COPIED_OUT].copies, 0);
	job_done(&job);
}

/* Whether it could have gone directly, by what was opened and registered. */
static void the_path(void **state)
{
	static const struct {
		uint64_t caps;
		int32_t status;
		bool registers, opens;
		enum direct_path direct;
	} cases[] = {
		{0, 0, false, false, DIRECT_UNKNOWN},
		{0, 0, false, true, DIRECT_NOT_OFFERED},
		{1ull << 47, 0, false, true, DIRECT_UNUSED},
		{1ull << 47, -22, true, true, DIRECT_REFUSED},
		{1ull << 47, 0, true, true, DIRECT_USED},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct job job = {0};

		(void)job_process(&job, -1, -1);
		if (cases[i].opens)
			JOB_CALL(&job, 0, ofi_open, 0, .object = 5, .caps = cases[i].caps,
				 .name = JOB_TEXT(&job, "efa"), .kind = WL_ofi_kind_domain);
		if (cases[i].registers)
			JOB_CALL(&job, 0, ofi_mr_reg, 0, .addr = BASE, .bytes = 4096,
				 .iface = WL_hmem_iface_cuda, .status = cases[i].status, .fd = -1);
		job_analyse(&job, NULL);
		assert_int_equal(job.analysis->detours.direct, cases[i].direct);
		if (cases[i].opens)
			assert_non_null(strstr(job.analysis->detours.why, "efa"));
		job_done(&job);
	}
}

/* Why not, in words: what was asked for, offered, set. */
static void the_reason(void **state)
{
	static const struct {
		bool wanted, offered, hmem, forbidden;
		const char *says;
	} cases[] = {
		{false, false, false, false, "the job did not ask for it"},
		{true, false, false, false, "no provider here has FI_HMEM"},
		{true, true, false, false, "though a provider offered it"},
		{true, true, true, false, "none was registered"},
		{true, true, true, true, "FI_OPT_CUDA_API_PERMITTED"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct job job = {0};

		(void)job_process(&job, -1, -1);
		JOB_CALL(&job, 0, ofi_getinfo, 0, .wanted_caps = cases[i].wanted ? 1ull << 47 : 0,
			 .api = JOB_TEXT(&job, "fi_getinfo"), .with_hmem = cases[i].offered,
			 .status = cases[i].offered ? 0 : -61);
		JOB_CALL(&job, 0, ofi_open, 0, .api = JOB_TEXT(&job, "fi_domain"), .status = -12);
		JOB_CALL(&job, 0, ofi_open, 0, .object = 5, .api = JOB_TEXT(&job, "fi_domain"),
			 .caps = cases[i].hmem ? 1ull << 47 : 0, .name = JOB_TEXT(&job, "efa"),
			 .kind = WL_ofi_kind_domain);
		if (cases[i].forbidden)
			JOB_CALL(&job, 0, ofi_control, 0, .object = 6, .arg = 10,
				 .api = JOB_TEXT(&job, "fi_setopt"), .status = -95,
				 .kind = WL_ofi_kind_ep);
		job_analyse(&job, NULL);
		assert_non_null(
			strstr(job.analysis->detours.why, "staged through the host, because"));
		assert_non_null(strstr(job.analysis->detours.why, cases[i].says));
		/* What it took to get ready, by call, costliest first. */
		assert_int_equal(job.analysis->setup_count, 2 + cases[i].forbidden);
		assert_int_equal(job.analysis->setup_ns,
				 JOB_CALL_NS * (uint64_t)(3 + cases[i].forbidden));
		assert_string_equal(job.analysis->setup[0].call, "fi_domain");
		assert_int_equal(job.analysis->setup[0].count, 2);
		if (cases[i].forbidden) {
			assert_string_equal(job.analysis->setup[2].call, "fi_setopt");
			assert_int_equal(job.analysis->setup[2].failed, 1);
		}
		job_done(&job);
	}
}

/* --- spans ------------------------------------------------------------------------------------- */

static uint64_t gone_bytes;
static void gone(void *user, const struct span *part)
{
	(void)user;
	gone_bytes += part->end - part->first;
}

/* Beside one cell a byte. */
static void spans_by_chance(void **state)
{
	struct spans spans = {.gone = gone};
	uint32_t cells[512] = {0};
	uint64_t filled = 0;

	(void)state;
	random_state = 7;
	gone_bytes = 0;
	for (uint32_t i = 1; i < 20000; i++) {
		unsigned first = below(511), end = first + 1 + below(512 - first);
		unsigned address = 0;

		if (below(3)) {
			assert_true(spans_fill(&spans, first, end, i, false));
			filled += end - first;
		} else {
			assert_true(spans_take(&spans, first, end));
		}
		for (unsigned k = first; k < end; k++)
			cells[k] = 0;
		if (spans_find(&spans, first, end, NULL))
			for (unsigned k = first; k < end; k++)
				cells[k] = i;
		for (const struct span *span = spans_find(&spans, 0, 512, NULL); span;
		     span = spans_find(&spans, 0, 512, span)) {
			assert_true(span->first >= address && span->first < span->end);
			for (; address < span->first; address++)
				assert_int_equal(cells[address], 0);
			for (; address < span->end; address++)
				assert_int_equal(cells[address], span->user);
		}
		for (; address < 512; address++)
			assert_int_equal(cells[address], 0);
	}
	spans_clear(&spans);
	assert_int_equal(gone_bytes, filled);
	spans_done(&spans);
}

/* More of them than are kept: the older ones are forgotten. */
static void spans_are_bounded(void **state)
{
	struct spans spans = {0};

	(void)state;
	for (uint32_t i = 0; i < 3 * SPANS_MAX; i++) {
		assert_true(spans_fill(&spans, 16ull * (i * 7919u % 65536u),
				       16ull * (i * 7919u % 65536u) + 8, i, false));
		assert_true(spans.count <= SPANS_MAX);
		assert_non_null(spans_find(&spans, 16ull * (i * 7919u % 65536u),
					   16ull * (i * 7919u % 65536u) + 8, NULL));
	}
	assert_true(spans.count >= SPANS_MAX / 4);
	spans_done(&spans);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(mixes_by_chance),
		cmocka_unit_test(mapped_memory),
		cmocka_unit_test(copies_inside_the_provider),
		cmocka_unit_test(the_path),
		cmocka_unit_test(the_reason),
		cmocka_unit_test(spans_by_chance),
		cmocka_unit_test(spans_are_bounded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
