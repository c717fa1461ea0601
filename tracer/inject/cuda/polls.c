/* SPDX-License-Identifier: Apache-2.0
 *
 * Queries of a stream or event. A loop of them on one object is one record and, when it ends with the
 * answer that the work is done, one wait. A loop that goes on for longer is recorded once a second,
 * and stands in the thread's in-flight slot like any other call that waits.
 */
#include "tracer/inject/cuda/hot.h"

#include <time.h>

#define RECORD_AT_LEAST_EVERY_NS 1000000000ll

__thread struct cu_poll_run cu_poll_run __attribute__((tls_model("initial-exec")));

/* Good to a few milliseconds, at a fraction of what the exact clock costs. */
static int64_t coarse_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC_COARSE, &ts);
	return ts.tv_sec * 1000000000ll + ts.tv_nsec;
}

static void emit(const struct cu_poll_run *run, CUresult status, uint32_t flags)
{
	struct cu_verdict verdict = cu_classify_queries(run->not_ready, status == CUDA_SUCCESS);
	struct wl_ev_cuda_poll ev = {
		.object = run->object,
		.stack = run->stack,
		.api = wl_name_id(&cu_names[run->entry]),
		.polls = run->polls,
		.status = status,
		.rule = cu_status_refused(status) ? WL_rule_none : verdict.rule,
		.cls = cu_status_refused(status) ? WL_call_class_none : verdict.cls,
	};

	if (run->not_ready >= 2)
		spool_leave();
	if (!run->polls)
		return; /* all that there was has been recorded */
	SPOOL_RECORD(cuda_poll, run->begin, run->last, flags, ev, );
}

void cu_poll_flush_slow(void)
{
	struct cu_poll_run *run = &cu_poll_run;

	run->open = false;
	/* In a forked child the run is the parent's. */
	if (run->generation == spool_generation())
		emit(run, CUDA_ERROR_NOT_READY, wl_flags_here());
}

static void run_start(struct cu_poll_run *run, const struct cu_poll *call, uint64_t end)
{
	*run = (struct cu_poll_run){
		.object = call->object,
		.entry = call->f.entry,
		.begin = call->f.begin,
		.last = end,
		.polls = 1,
	};
}

/* One more "not ready" of the same run. */
static void run_goes_on(struct cu_poll_run *run, const struct cu_poll *call, uint64_t end)
{
	int64_t now = coarse_now();

	run->polls++;
	run->last = end;
	if (++run->not_ready == 2) {
		run->stack = wl_stack(WL_STACK_FOR_SYNC);
		spool_enter(WL_EV_cuda_poll, wl_name_id(&cu_names[run->entry]), run->begin,
			    run->stack, run->object);
	}
	if (now - run->began_ns < RECORD_AT_LEAST_EVERY_NS)
		return;
	emit(run, CUDA_ERROR_NOT_READY, call->f.flags);
	run->begin = end;
	run->began_ns = now;
	run->polls = 0;
	spool_enter(WL_EV_cuda_poll, wl_name_id(&cu_names[run->entry]), run->begin, run->stack,
		    run->object);
}

void cu_poll_end_slow(struct cu_poll *call, CUresult status, uint64_t end)
{
	struct cu_poll_run *run = &cu_poll_run;
	int saved = errno;
	bool same;

	same = run->open && run->object == call->object && run->entry == call->f.entry &&
	       run->generation == spool_generation();
	if (!same)
		cu_poll_flush();
	if (status == CUDA_ERROR_NOT_READY && same) {
		run_goes_on(run, call, end);
	} else if (status == CUDA_ERROR_NOT_READY) {
		run_start(run, call, end);
		run->not_ready = 1;
		run->began_ns = coarse_now();
		run->generation = spool_generation();
		run->open = true;
	} else {
		if (!same)
			run_start(run, call, end);
		else
			run->polls++;
		run->last = end;
		run->open = false;
		emit(run, status, call->f.flags);
	}
	errno = saved;
}
