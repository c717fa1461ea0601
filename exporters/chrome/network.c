/* SPDX-License-Identifier: Apache-2.0
 *
 * Transfers, registrations and ranges across threads as asynchronous pairs, the arrows from posts to
 * completions, and the counters.
 */
#include "exporters/chrome/chrome.h"
#include "exporters/model/walk.h"

#include <errno.h>
#include <string.h>

struct network_export {
	struct chrome *chrome;
	struct chrome_streams streams;
	int64_t bytes_in_flight, bytes_posted, registered_bytes, registrations;
	int64_t counter_ns[4]; /* of the newest value shown, by enum counter */
	unsigned records;      /* since it was asked whether to stop */
};

enum counter { BYTES_IN_FLIGHT, BYTES_POSTED, REGISTERED_BYTES, REGISTRATIONS };
static const struct {
	const char *name;
	enum wl_category category;
} counters[] = {
	[BYTES_IN_FLIGHT] = {"Bytes in flight", WL_CAT_ofi_xfer},
	[BYTES_POSTED] = {"Receive bytes posted", WL_CAT_ofi_xfer},
	[REGISTERED_BYTES] = {"Registered bytes", WL_CAT_ofi_mr},
	[REGISTRATIONS] = {"Live registrations", WL_CAT_ofi_mr},
};

static int64_t tid_of(const struct network_export *export, uint32_t thread)
{
	return export->chrome->process->threads[thread].unique_tid;
}

static bool is_receive(const struct trace_event *post)
{
	unsigned op = (unsigned)MODEL_ARG(post, ofi_post, op);

	return op == WL_ofi_op_recv || op == WL_ofi_op_trecv;
}

static void put_id(struct chrome *chrome, uint64_t id)
{
	json_raw(&chrome->json, ",\"id\":");
	json_hex(&chrome->json, id);
}

static void put_counter(struct network_export *export, enum counter counter, int64_t monotonic_ns,
			int64_t value)
{
	struct chrome *chrome = export->chrome;
	int64_t ts = model_time(chrome->process, monotonic_ns);

	if (!select_counter(chrome->options->selection, chrome->process->index,
			    counters[counter].category, ts, &export->counter_ns[counter]))
		return;
	/* Counters belong to the process; a tid is wanted all the same. */
	chrome_event(chrome, "C", counters[counter].name, "counter", chrome->process->unique_pid,
		     ts);
	json_raw(&chrome->json, ",\"args\":{\"value\":");
	json_int(&chrome->json, value);
	json_raw(&chrome->json, "}");
	chrome_end(chrome);
	chrome->result->counters++;
}

static void count_bytes(struct network_export *export, const struct trace_event *post,
			int64_t monotonic_ns, int sign)
{
	int64_t bytes = counted_bytes(MODEL_ARG(post, ofi_post, bytes)) * sign;

	if (!bytes)
		return;
	if (is_receive(post)) {
		export->bytes_posted += bytes;
		put_counter(export, BYTES_POSTED, monotonic_ns, export->bytes_posted);
	} else {
		export->bytes_in_flight += bytes;
		put_counter(export, BYTES_IN_FLIGHT, monotonic_ns, export->bytes_in_flight);
	}
}

static void on_posted(void *user, const struct trace_event *post)
{
	count_bytes(user, post, post->end_ns, 1);
}

/* The begin of an asynchronous pair, up to its open arguments. */
static void open_pair(struct network_export *export, const char *name, const char *category,
		      uint32_t thread, int64_t begin_ns)
{
	struct chrome *chrome = export->chrome;

	chrome_event(chrome, "b", name, category, tid_of(export, thread),
		     model_time(chrome->process, begin_ns));
	put_id(chrome, ++chrome->async);
	json_raw(&chrome->json, ",\"args\":{");
}

static void close_pair(struct network_export *export, const char *name, const char *category,
		       uint32_t thread, int64_t end_ns)
{
	struct chrome *chrome = export->chrome;

	json_raw(&chrome->json, "}");
	chrome_end(chrome);
	chrome_event(chrome, "e", name, category, tid_of(export, thread),
		     model_time(chrome->process, end_ns));
	put_id(chrome, chrome->async);
	json_raw(&chrome->json, ",\"args\":{}");
	chrome_end(chrome);
}

/* From inside the post's slice to its completion. A slice without an inside gets no arrow. */
static void put_arrow(struct network_export *export, const struct model_transfer *transfer)
{
	struct chrome *chrome = export->chrome;
	int64_t begin = model_time(chrome->process, transfer->post.begin_ns);
	int64_t end = model_time(chrome->process, transfer->post.end_ns);
	int64_t completed = model_time(chrome->process, transfer->end_ns);
	const struct selection *selection = chrome->options->selection;
	unsigned process = chrome->process->index;

	if (transfer->how != MODEL_TRANSFER_COMPLETED || end - begin < 2 ||
	    completed <= begin + 1 ||
	    !select_keeps(selection, process, WL_CAT_ofi_xfer, begin, end) ||
	    !select_keeps(selection, process, WL_CAT_ofi_cq, completed, completed))
		return;
	chrome_event(chrome, "s", "transfer", "flow", tid_of(export, transfer->post.thread),
		     begin + 1);
	put_id(chrome, chrome->async);
	chrome_end(chrome);
	chrome_event(chrome, "f", "transfer", "flow", tid_of(export, transfer->completion_thread),
		     completed);
	json_raw(&chrome->json, ",\"bp\":\"e\"");
	put_id(chrome, chrome->async);
	chrome_end(chrome);
	chrome->result->flows++;
}

static const char *how_text(const struct model_transfer *transfer)
{
	static const char *const texts[MODEL_TRANSFER_END_MAX] = {
		"completion, first in first out", "at return, no completion entry",
		"not completed when the recording or the endpoint ended",
		"given up: too many operations outstanding"};

	return transfer->how == MODEL_TRANSFER_COMPLETED && transfer->exact ? "completion, exact"
									    : texts[transfer->how];
}

static void put_transfer(struct network_export *export, const struct model_transfer *transfer)
{
	struct chrome *chrome = export->chrome;
	const struct trace_event *post = &transfer->post;
	const char *name = chrome_name(chrome, post);
	bool any = false;

	open_pair(export, name, "ofi_xfer", post->thread, post->begin_ns);
	if (!chrome->options->no_args) {
		chrome_member(chrome, &any, "endpoint");
		json_hex(&chrome->json, MODEL_ARG(post, ofi_post, ep));
		chrome_member(chrome, &any, "moved_bytes");
		json_safe_uint(&chrome->json, transfer->bytes);
		chrome_member(chrome, &any, "matched");
		json_text(&chrome->json, how_text(transfer));
		if (transfer->failed) {
			chrome_member(chrome, &any, "error");
			json_int(&chrome->json, transfer->status);
		}
	}
	close_pair(export, name, "ofi_xfer", post->thread, transfer->end_ns);
	put_arrow(export, transfer);
	chrome->result->transfers++;
}

static bool taken(const struct network_export *export, enum wl_category category, int64_t begin_ns,
		  int64_t end_ns)
{
	const struct chrome *chrome = export->chrome;

	return (category == WL_CAT_ofi_xfer
			? select_takes(chrome->options->selection, chrome->process->index, category,
				       model_time(chrome->process, begin_ns),
				       model_time(chrome->process, end_ns))
			: select_shows(chrome->options->selection, chrome->process->index, category,
				       model_time(chrome->process, begin_ns),
				       model_time(chrome->process, end_ns)));
}

static void on_transfer(void *user, const struct model_transfer *transfer)
{
	if (taken(user, WL_CAT_ofi_xfer, transfer->post.begin_ns, transfer->end_ns))
		put_transfer(user, transfer);
	if (transfer->counted)
		count_bytes(user, &transfer->post, transfer->end_ns, -1);
}

static void count_registration(struct network_export *export, const struct trace_event *reg,
			       int64_t monotonic_ns, int sign)
{
	export->registered_bytes += counted_bytes(MODEL_ARG(reg, ofi_mr_reg, bytes)) * sign;
	export->registrations += sign;
	put_counter(export, REGISTERED_BYTES, monotonic_ns, export->registered_bytes);
	put_counter(export, REGISTRATIONS, monotonic_ns, export->registrations);
}

static void on_registered(void *user, const struct model_registration *registration)
{
	count_registration(user, &registration->reg, registration->reg.end_ns, 1);
}

static void put_registration(struct network_export *export,
			     const struct model_registration *registration)
{
	struct chrome *chrome = export->chrome;
	const struct trace_event *reg = &registration->reg;
	const char *name = chrome_name(chrome, reg);

	open_pair(export, name, "ofi_mr", reg->thread, reg->begin_ns);
	bool any = chrome_args(chrome, reg);

	chrome_member(chrome, &any, "closed");
	json_raw(&chrome->json, registration->closed ? "true" : "false");
	close_pair(export, name, "ofi_mr", reg->thread, registration->end_ns);
	chrome->result->registrations++;
}

static void on_unregistered(void *user, const struct model_registration *registration)
{
	if (taken(user, WL_CAT_ofi_mr, registration->reg.begin_ns, registration->end_ns))
		put_registration(user, registration);
	count_registration(user, &registration->reg, registration->end_ns, -1);
}

static void on_range_end(void *user, const struct model_range *range)
{
	struct network_export *export = user;
	const char *name = *range->name ? range->name : "nvtx_start";
	bool any = false;

	if (!range->across || !taken(export, WL_CAT_nvtx, range->begin_ns, range->end_ns))
		return;
	open_pair(export, name, "nvtx", range->thread, range->begin_ns);
	if (*range->domain) {
		chrome_member(export->chrome, &any, "domain");
		json_text(&export->chrome->json, range->domain);
	}
	close_pair(export, name, "nvtx", range->thread, range->end_ns);
	export->chrome->result->ranges_across++;
}

static void on_activity(void *user, const struct model_activity *activity)
{
	struct network_export *export = user;

	chrome_activity(export->chrome, &export->streams, activity);
}

static int on_stop(void *user)
{
	struct network_export *export = user;
	const struct output *output = &export->chrome->json.output;

	if (++export->records % WALK_CHECK_EVERY == 0 && output_stopped(output))
		return -EINTR;
	return output->error;
}

static const struct model_match_ops callbacks = {
	.posted = on_posted,
	.transfer = on_transfer,
	.registered = on_registered,
	.unregistered = on_unregistered,
	.range_end = on_range_end,
	.activity = on_activity,
};

int chrome_network(struct chrome *chrome)
{
	struct network_export export = {.chrome = chrome,
					.counter_ns = {INT64_MIN, INT64_MIN, INT64_MIN, INT64_MIN}};
	int error = walk_merged(chrome->model, chrome->process->index, &callbacks, &export, on_stop,
				&chrome->result->match);

	chrome_streams_done(&export.streams);
	return error;
}
