/* SPDX-License-Identifier: Apache-2.0
 *
 * Transfers, registrations and ranges across threads as asynchronous pairs, the arrows from posts to
 * completions, and the counters.
 */
#include "exporters/chrome/chrome.h"
#include "exporters/model/walk.h"

#include <string.h>

struct network_export {
	struct chrome *chrome;
	int64_t bytes_in_flight, bytes_posted, registered_bytes, registrations;
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

static void put_counter(struct network_export *export, const char *name, int64_t monotonic_ns,
			int64_t value)
{
	struct chrome *chrome = export->chrome;

	/* Counters belong to the process; a tid is wanted all the same. */
	chrome_event(chrome, "C", name, "counter", chrome->process->unique_pid,
		     model_time(chrome->process, monotonic_ns));
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
		put_counter(export, "Receive bytes posted", monotonic_ns, export->bytes_posted);
	} else {
		export->bytes_in_flight += bytes;
		put_counter(export, "Bytes in flight", monotonic_ns, export->bytes_in_flight);
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

	if (transfer->how != MODEL_TRANSFER_COMPLETED || end - begin < 2 || completed <= begin + 1)
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

static void on_transfer(void *user, const struct model_transfer *transfer)
{
	struct network_export *export = user;
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
	if (transfer->counted)
		count_bytes(export, post, transfer->end_ns, -1);
}

static void count_registration(struct network_export *export, const struct trace_event *reg,
			       int64_t monotonic_ns, int sign)
{
	export->registered_bytes += counted_bytes(MODEL_ARG(reg, ofi_mr_reg, bytes)) * sign;
	export->registrations += sign;
	put_counter(export, "Registered bytes", monotonic_ns, export->registered_bytes);
	put_counter(export, "Live registrations", monotonic_ns, export->registrations);
}

static void on_registered(void *user, const struct model_registration *registration)
{
	count_registration(user, &registration->reg, registration->reg.end_ns, 1);
}

static void on_unregistered(void *user, const struct model_registration *registration)
{
	struct network_export *export = user;
	struct chrome *chrome = export->chrome;
	const struct trace_event *reg = &registration->reg;
	const char *name = chrome_name(chrome, reg);

	open_pair(export, name, "ofi_mr", reg->thread, reg->begin_ns);
	bool any = chrome_args(chrome, reg);

	chrome_member(chrome, &any, "closed");
	json_raw(&chrome->json, registration->closed ? "true" : "false");
	close_pair(export, name, "ofi_mr", reg->thread, registration->end_ns);
	chrome->result->registrations++;
	count_registration(export, reg, registration->end_ns, -1);
}

static void on_range_end(void *user, const struct model_range *range)
{
	struct network_export *export = user;
	const char *name = *range->name ? range->name : "nvtx_start";
	bool any = false;

	if (!range->across)
		return;
	open_pair(export, name, "nvtx", range->thread, range->begin_ns);
	if (*range->domain) {
		chrome_member(export->chrome, &any, "domain");
		json_text(&export->chrome->json, range->domain);
	}
	close_pair(export, name, "nvtx", range->thread, range->end_ns);
	export->chrome->result->ranges_across++;
}

static int on_stop(void *user)
{
	const struct network_export *export = user;

	return export->chrome->json.output.error;
}

static const struct model_match_ops callbacks = {
	.posted = on_posted,
	.transfer = on_transfer,
	.registered = on_registered,
	.unregistered = on_unregistered,
	.range_end = on_range_end,
};

int chrome_network(struct chrome *chrome)
{
	struct network_export export = {.chrome = chrome};

	return walk_merged(chrome->model, chrome->process->index, &callbacks, &export, on_stop,
			   &chrome->result->match);
}
