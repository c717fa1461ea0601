/* SPDX-License-Identifier: Apache-2.0
 *
 * The graph of libbabeltrace2's components that messages come from: a folder, its streams merged; or a
 * session that a relay daemon is receiving.
 */
#include "tracer/lttng/ctf_internal.h"

#include <string.h>
#include <time.h>

#define LIVE_SILENCE_MS 3000 /* without an event: what there was has been read */
#define LIVE_PAUSE_MS   50

static bt_graph_simple_sink_component_initialize_func_status begin(bt_message_iterator *iterator,
								   void *user)
{
	((struct ctf_decoding *)user)->iterator = iterator;
	return BT_GRAPH_SIMPLE_SINK_COMPONENT_INITIALIZE_FUNC_STATUS_OK;
}

/* The first messages tell what events there are; then a folder's packets may be read without messages,
 * ten times as fast. True when they were. */
static bool looked_at(struct ctf_decoding *d, bt_message_array_const messages, uint64_t count)
{
	int rc;

	if (d->looked || !d->folder || !count ||
	    bt_message_get_type(messages[0]) != BT_MESSAGE_TYPE_STREAM_BEGINNING)
		return false;
	d->looked = true;
	rc = ctf_packets_read(d, d->folder,
			      bt_message_stream_beginning_borrow_stream_const(messages[0]));
	if (rc < 0)
		d->error = rc;
	return rc == 1;
}

static bt_graph_simple_sink_component_consume_func_status consume(bt_message_iterator *iterator,
								  void *user)
{
	struct ctf_decoding *d = user;
	bt_message_array_const messages;
	uint64_t count = 0;
	bool done;

	switch (bt_message_iterator_next(iterator, &messages, &count)) {
	case BT_MESSAGE_ITERATOR_NEXT_STATUS_OK:
		break;
	case BT_MESSAGE_ITERATOR_NEXT_STATUS_END:
		return BT_GRAPH_SIMPLE_SINK_COMPONENT_CONSUME_FUNC_STATUS_END;
	case BT_MESSAGE_ITERATOR_NEXT_STATUS_AGAIN:
		return BT_GRAPH_SIMPLE_SINK_COMPONENT_CONSUME_FUNC_STATUS_AGAIN;
	default:
		return BT_GRAPH_SIMPLE_SINK_COMPONENT_CONSUME_FUNC_STATUS_ERROR;
	}
	done = looked_at(d, messages, count);
	for (uint64_t i = 0; i < count; i++) {
		if (!d->error && !done)
			d->error = ctf_message(d, messages[i]);
		bt_message_put_ref(messages[i]);
	}
	if (done)
		return BT_GRAPH_SIMPLE_SINK_COMPONENT_CONSUME_FUNC_STATUS_END;
	return d->error ? BT_GRAPH_SIMPLE_SINK_COMPONENT_CONSUME_FUNC_STATUS_ERROR
			: BT_GRAPH_SIMPLE_SINK_COMPONENT_CONSUME_FUNC_STATUS_OK;
}

/* --- plugins ---------------------------------------------------------------------------------- */

static const bt_plugin *plugin_find(const char *name)
{
	const bt_plugin *plugin = NULL;

	return bt_plugin_find(name, BT_TRUE, BT_TRUE, BT_TRUE, BT_TRUE, BT_FALSE, &plugin) ==
			       BT_PLUGIN_FIND_STATUS_OK
		       ? plugin
		       : NULL;
}

bool ctf_plugins_find(struct ctf_plugins *plugins)
{
	plugins->ctf = plugin_find("ctf");
	plugins->utils = plugin_find("utils");
	return plugins->ctf && plugins->utils;
}

void ctf_plugins_put(struct ctf_plugins *plugins)
{
	bt_plugin_put_ref(plugins->ctf);
	bt_plugin_put_ref(plugins->utils);
}

/* --- components ------------------------------------------------------------------------------- */

static bt_value *source_parameters(const char *path)
{
	bt_value *parameters = bt_value_map_create(), *inputs = NULL;

	if (parameters &&
	    bt_value_map_insert_empty_array_entry(parameters, "inputs", &inputs) ==
		    BT_VALUE_MAP_INSERT_ENTRY_STATUS_OK &&
	    bt_value_array_append_string_element(inputs, path) ==
		    BT_VALUE_ARRAY_APPEND_ELEMENT_STATUS_OK &&
	    (!ctf_is_live(path) ||
	     bt_value_map_insert_string_entry(parameters, "session-not-found-action", "fail") ==
		     BT_VALUE_MAP_INSERT_ENTRY_STATUS_OK))
		return parameters;
	bt_value_put_ref(parameters);
	return NULL;
}

static const bt_component_source *source_add(bt_graph *graph, const struct ctf_plugins *plugins,
					     const char *path)
{
	const bt_component_class_source *class =
		bt_plugin_borrow_source_component_class_by_name_const(
			plugins->ctf, ctf_is_live(path) ? "lttng-live" : "fs");
	bt_value *parameters = source_parameters(path);
	const bt_component_source *source = NULL;

	if (class && parameters &&
	    bt_graph_add_source_component(graph, class, "source", parameters, BT_LOGGING_LEVEL_NONE,
					  &source) != BT_GRAPH_ADD_COMPONENT_STATUS_OK)
		source = NULL;
	bt_value_put_ref(parameters);
	return source;
}

static bool sink_connect(bt_graph *graph, const bt_port_output *from, const bt_component_sink *sink)
{
	return bt_graph_connect_ports(graph, from,
				      bt_component_sink_borrow_input_port_by_index_const(sink, 0),
				      NULL) == BT_GRAPH_CONNECT_PORTS_STATUS_OK;
}

/* Every stream into the muxer, which has a further input for each that is connected. */
static bool merged_connect(bt_graph *graph, const struct ctf_plugins *plugins,
			   const bt_component_source *source, const bt_component_sink *sink)
{
	uint64_t count = bt_component_source_get_output_port_count(source);
	const bt_component_class_filter *class =
		bt_plugin_borrow_filter_component_class_by_name_const(plugins->utils, "muxer");
	const bt_component_filter *muxer;
	bool ok = class &&
		  bt_graph_add_filter_component(graph, class, "muxer", NULL, BT_LOGGING_LEVEL_NONE,
						&muxer) == BT_GRAPH_ADD_COMPONENT_STATUS_OK;

	for (uint64_t i = 0; i < count && ok; i++)
		ok = bt_graph_connect_ports(
			     graph,
			     bt_component_source_borrow_output_port_by_index_const(source, i),
			     bt_component_filter_borrow_input_port_by_index_const(muxer, i),
			     NULL) == BT_GRAPH_CONNECT_PORTS_STATUS_OK;
	return ok &&
	       sink_connect(graph, bt_component_filter_borrow_output_port_by_index_const(muxer, 0),
			    sink);
}

static bool graph_fill(struct ctf_decoding *d, bt_graph *graph, const struct ctf_plugins *plugins,
		       const char *path)
{
	const bt_component_source *source = source_add(graph, plugins, path);
	const bt_component_sink *sink;

	if (!source ||
	    bt_graph_add_simple_sink_component(graph, "sink", begin, consume, NULL, d, &sink) !=
		    BT_GRAPH_ADD_COMPONENT_STATUS_OK)
		return false;
	/* One stream, and a live session, which merges for itself, need nobody between. */
	if (bt_component_source_get_output_port_count(source) == 1)
		return sink_connect(
			graph, bt_component_source_borrow_output_port_by_index_const(source, 0),
			sink);
	return merged_connect(graph, plugins, source, sink);
}

static int64_t now_ms(void)
{
	struct timespec ts;

	(void)clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

/* A live session has nothing at the moment: true when it is not waited for any longer. */
static bool silent(const struct ctf_decoding *d, uint64_t *events, int64_t *since_ms)
{
	const struct timespec pause = {.tv_nsec = LIVE_PAUSE_MS * 1000000L};
	int64_t now = now_ms();

	if (!*since_ms || d->events != *events) {
		*events = d->events;
		*since_ms = now;
	}
	if (now - *since_ms > LIVE_SILENCE_MS)
		return true;
	(void)nanosleep(&pause, NULL);
	return false;
}

bool ctf_graph_run(struct ctf_decoding *d, const struct ctf_plugins *plugins, const char *path,
		   const volatile sig_atomic_t *stop)
{
	bt_graph *graph = bt_graph_create(0);
	bt_graph_run_once_status status = BT_GRAPH_RUN_ONCE_STATUS_ERROR;
	uint64_t events = 0;
	int64_t since_ms = 0;

	d->looked = false;
	d->folder = ctf_is_live(path) || d->by_library ? NULL : path;
	if (graph && graph_fill(d, graph, plugins, path))
		do
			status = bt_graph_run_once(graph);
		while (!*stop && (status == BT_GRAPH_RUN_ONCE_STATUS_OK ||
				  (status == BT_GRAPH_RUN_ONCE_STATUS_AGAIN &&
				   !silent(d, &events, &since_ms))));
	bt_graph_put_ref(graph);
	/* Its words are for programmers. */
	bt_current_thread_clear_error();
	return status == BT_GRAPH_RUN_ONCE_STATUS_END || status == BT_GRAPH_RUN_ONCE_STATUS_OK ||
	       status == BT_GRAPH_RUN_ONCE_STATUS_AGAIN;
}
