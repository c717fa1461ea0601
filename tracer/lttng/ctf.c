/* SPDX-License-Identifier: Apache-2.0
 *
 * CTF by libbabeltrace2, one trace folder after the other, so that a damaged one loses itself alone; or a
 * live session of a relay daemon.
 */
#include "tracer/lttng/ctf_internal.h"
#include "tracer/lttng/leaf.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void source_begin(struct ctf_decoding *d)
{
	ctf_plans_clear(d);
	d->process = NULL;
	d->lost = 0;
	d->damage = NULL;
}

static void source_end(struct ctf_decoding *d, const char *damage)
{
	/* Of buffers that several processes share nobody knows whose they were. */
	if (d->process)
		import_info(d->process)->drops[TRACE_DROP_ENGINE] += d->lost;
	if (d->process && *damage)
		import_damage(d->process, damage);
}

/* A live session is read until somebody says stop. */
static volatile sig_atomic_t stop;

static void stop_set(int number)
{
	(void)number;
	stop = 1;
}

static int leaf_read(struct ctf_decoding *d, const struct ctf_plugins *plugins, const char *path,
		     char *problem, size_t size)
{
	struct leaf leaf;
	int rc = leaf_prepare(&leaf, path);

	source_begin(d);
	if (!rc && !ctf_graph_run(d, plugins, leaf.use, &stop) && !d->error && !*leaf.damage)
		(void)snprintf(leaf.damage, sizeof(leaf.damage), "it could not be read to its end");
	leaf_done(&leaf);
	if (d->damage && !*leaf.damage)
		(void)snprintf(leaf.damage, sizeof(leaf.damage), "%s", d->damage);
	if (rc || (*leaf.damage && !d->process))
		(void)snprintf(problem, size, "%s: %s", path,
			       *leaf.damage ? leaf.damage : strerror(-rc));
	source_end(d, leaf.damage);
	return d->error;
}

static int live_read(struct ctf_decoding *d, const struct ctf_plugins *plugins, const char *url,
		     char *problem, size_t size)
{
	struct sigaction action = {.sa_handler = stop_set}, before;
	bool read;

	source_begin(d);
	(void)sigemptyset(&action.sa_mask);
	(void)sigaction(SIGINT, &action, &before);
	read = ctf_graph_run(d, plugins, url, &stop);
	(void)sigaction(SIGINT, &before, NULL);
	stop = 0;
	if (!read && !d->error && !d->process)
		(void)snprintf(problem, size,
			       "%s: no relay daemon answers there, or it has no such session; "
			       "`babeltrace2 -i lttng-live net://HOST` lists what it has",
			       url);
	source_end(d, read ? "" : "the live session broke off");
	return d->error;
}

static int leaves_read(struct ctf_decoding *d, const struct ctf_plugins *plugins, const char *path,
		       char *problem, size_t size)
{
	struct leaves leaves = {0};
	int rc = leaves_find(&leaves, path);

	for (unsigned i = 0; i < leaves.count && !rc; i++)
		rc = leaf_read(d, plugins, leaves.paths[i], problem, size);
	leaves_free(&leaves);
	return rc;
}

static int readers_make(struct import *import, struct trace_reader ***readers, unsigned *count)
{
	unsigned processes = import_process_count(import);

	*readers = calloc(processes + 1u, sizeof(struct trace_reader *));
	if (!*readers)
		return -ENOMEM;
	for (*count = 0; *count < processes; (*count)++)
		(*readers)[*count] = import_reader(import_process_at(import, *count));
	return 0;
}

static int read_all(struct ctf_decoding *d, const char *path, char *problem, size_t size)
{
	struct ctf_plugins plugins;
	int rc = -ENOTSUP;

	if (ctf_plugins_find(&plugins))
		rc = ctf_is_live(path) ? live_read(d, &plugins, path, problem, size)
				       : leaves_read(d, &plugins, path, problem, size);
	ctf_plans_clear(d);
	ctf_plugins_put(&plugins);
	if (!rc)
		rc = import_finish(d->import);
	return rc || import_process_count(d->import) ? rc : *problem ? -ENODATA : -ENOMSG;
}

int ctf_open(const char *path, ctf_type_fn type_of, struct trace_reader ***readers, unsigned *count,
	     bool by_library, uint64_t *events, char *err, size_t err_size)
{
	struct ctf_decoding d = {.type_of = type_of, .by_library = by_library};
	char problem[PATH_MAX + 300] = "";
	int rc;

	*count = 0;
	*err = '\0';
	d.import = import_new(path, &rc);
	if (d.import)
		rc = read_all(&d, path, problem, sizeof(problem));
	if (!rc)
		rc = readers_make(d.import, readers, count);
	import_free(d.import);
	*events = d.events;
	if ((!rc || rc == -ENODATA) && *problem)
		(void)snprintf(err, err_size, "%s", problem);
	else if (rc)
		(void)snprintf(err, err_size, "reading the LTTng trace %s: %s", path,
			       rc == -ENOMSG    ? "there are no events in it"
			       : rc == -ENOTSUP ? "libbabeltrace2's plugins are not installed"
						: strerror(-rc));
	return rc;
}

__attribute__((visibility("default"))) int waylay_ctf_open(const char *path, ctf_type_fn type_of,
							   struct trace_reader ***readers,
							   unsigned *count, char *err,
							   size_t err_size);
int waylay_ctf_open(const char *path, ctf_type_fn type_of, struct trace_reader ***readers,
		    unsigned *count, char *err, size_t err_size)
{
	uint64_t events;

	return ctf_open(path, type_of, readers, count, false, &events, err, err_size);
}
