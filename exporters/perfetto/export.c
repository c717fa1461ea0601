/* SPDX-License-Identifier: Apache-2.0
 *
 * A model as a Perfetto trace: process by process, thread by thread, in bounded memory. Perfetto
 * sorts by time itself, so the file needs no global order.
 */
#include "exporters/model/select.h"
#include "exporters/perfetto/trace.h"

#include <errno.h>
#include <string.h>

static int export_process(struct trace *trace, unsigned index)
{
	bool merged = false;
	int error;

	describe_process(trace, model_process(trace->model, index));
	error = export_threads(trace, index, &merged);
	if (!error && merged)
		error = export_network(trace, index);
	return error;
}

int perfetto_export(struct model *model, const char *path, const struct export_options *options,
		    struct export_result *result, char *err, size_t err_size)
{
	static const struct export_options defaults;
	struct export_result unused = {0};
	struct trace trace;
	int error;

	if (!result)
		result = &unused;
	memset(result, 0, sizeof(*result));
	if (err_size)
		*err = 0;
	error = trace_open(&trace, model, path, options ? options : &defaults, result, err,
			   err_size);
	if (error)
		return error;
	describe_trace(&trace);
	for (unsigned i = 0; i < model_process_count(model) && !error; i++)
		if (select_process(trace.options->selection, model_process(model, i)))
			error = export_process(&trace, i);
	if (!error && options && options->with)
		export_kineto(&trace, options->with);
	if (!error && options && options->progress && options->progress(options->user, 1000))
		error = -EINTR;
	return trace_close(&trace, error, err, err_size);
}
