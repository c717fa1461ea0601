/* SPDX-License-Identifier: Apache-2.0
 *
 * What events become, once the values of their members are known: the events of Waylay's provider
 * records again, calls that have begun, and facts about a process; others are carried along as instants.
 */
#include "tracer/lttng/ctf_internal.h"

#include <errno.h>
#include <string.h>

#define FOREIGN_TID 0

static uint64_t rule_number(const char *word)
{
	for (unsigned i = 1; i < WL_rule_MAX; i++)
		if (strcmp(wl_rule_info(i)->word, word) == 0)
			return i;
	return 0;
}

uint64_t ctf_text_value(struct ctf_decoding *d, struct ctf_field *f, const char *text,
			size_t length)
{
	uint32_t id;

	if (f->text && f->length == length && memcmp(f->text, text, length) == 0)
		return f->value;
	id = import_text(d->import, text, length);
	f->text = import_text_of(d->import, id);
	f->length = length;
	f->value = f->form == FORM_RULE ? rule_number(f->text) : id;
	/* Out of memory gives another text, which the next one must not be compared with. */
	if (strlen(f->text) != length)
		f->text = NULL;
	return f->value;
}

/* own: its own clocks are on their way; else LTTng's does for processes whose own words are lost. */
static struct import_process *process_get(struct ctf_decoding *d, const struct ctf_plan *plan,
					  int64_t pid, int64_t when_ns, bool own)
{
	struct import_process *p = import_process(d->import, plan->origin->host, pid);

	/* What joins a live session has missed a process's own words about itself. */
	if (p && !*import_info(p)->process_name && pid == plan->origin->env_pid)
		import_info(p)->process_name = plan->origin->name;
	if (p && !own && plan->has_clock && !import_info(p)->clock_count) {
		const struct trace_clock clock = {
			.monotonic_ns = when_ns,
			.boottime_ns = when_ns,
			.realtime_ns = when_ns + plan->clock_offset_ns,
		};

		import_clock(p, &clock);
	}
	return d->process = p;
}

/* --- records ---------------------------------------------------------------------------------- */

static int record(struct ctf_decoding *d, struct ctf_plan *plan, const uint64_t *values,
		  int64_t when_ns)
{
	struct trace_event event = {.type = plan->type};
	uint64_t of[ROLE_NONE] = {0};
	struct import_process *p;
	struct import_thread *t;

	for (unsigned i = 0; i < plan->count; i++) {
		const struct ctf_field *f = &plan->fields[i];

		if (f->role == ROLE_ARG)
			event.args[f->arg] = values[i];
		else
			of[f->role] = values[i];
	}
	event.flags = (uint32_t)of[ROLE_FLAGS];
	event.begin_ns = (int64_t)of[ROLE_BEGIN];
	event.end_ns = (int64_t)(of[ROLE_BEGIN] + of[ROLE_DURATION]);
	p = process_get(d, plan, (int64_t)of[ROLE_PID], when_ns, false);
	t = p ? import_thread(p, (int64_t)of[ROLE_TID]) : NULL;
	return t ? import_event(t, &event) : -ENOMEM;
}

static int foreign(struct ctf_decoding *d, struct ctf_plan *plan, const uint64_t *values,
		   const struct ctf_moment *moment)
{
	struct trace_event event = {
		.type = plan->type, .begin_ns = moment->ns, .end_ns = moment->ns};
	struct import_process *p;
	struct import_thread *t;

	if (!plan->type)
		return -ENOMEM;
	for (unsigned i = 0; i < plan->count; i++)
		event.args[plan->fields[i].arg] = values[i];
	p = process_get(d, plan, moment->pid ? moment->pid : plan->origin->env_pid, moment->ns,
			false);
	t = p ? import_thread(p, moment->tid ? moment->tid : FOREIGN_TID) : NULL;
	return t ? import_event(t, &event) : -ENOMEM;
}

/* Nearly as many as records. */
static int entry(struct ctf_decoding *d, struct ctf_plan *plan, const uint64_t *values)
{
	const char *name = plan->fields[ENTRY_EVENT].text;
	struct import_process *p = process_get(d, plan, (int64_t)values[ENTRY_PID], 0, true);
	struct import_thread *t = p ? import_thread(p, (int64_t)values[ENTRY_TID]) : NULL;

	if (!t)
		return -ENOMEM;
	/* Interned: the same text lies in the same place. */
	if (name != plan->entry_name) {
		plan->entry_name = name;
		plan->type = name ? ctf_type_named(d, name) : NULL;
	}
	if (plan->type)
		import_entry(t, plan->type, (uint32_t)values[ENTRY_API],
			     (uint32_t)values[ENTRY_STACK], (int64_t)values[ENTRY_SINCE]);
	return 0;
}

/* --- facts about a process -------------------------------------------------------------------- */

static void fact_process(struct ctf_decoding *d, struct import_process *p, const uint64_t *of)
{
	struct trace_info *info = import_info(p);

	info->ppid = (int64_t)of[FACT_ppid];
	info->rank = (int)of[FACT_rank];
	info->world_size = (int)of[FACT_world_size];
	info->local_rank = (int)of[FACT_local_rank];
	info->run = import_text_of(d->import, (uint32_t)of[FACT_run]);
	info->process_name = import_text_of(d->import, (uint32_t)of[FACT_name]);
}

static int fact(struct ctf_decoding *d, const struct ctf_plan *plan, const uint64_t *values)
{
	const char *what = bt_event_class_get_name(plan->class) + sizeof(CTF_PROVIDER) - 1;
	uint64_t of[FACT_MAX] = {0};
	struct import_process *p;
	struct import_thread *t;

	for (unsigned i = 0; i < plan->count; i++)
		of[plan->fields[i].arg] = values[i];
	p = process_get(d, plan, (int64_t)of[FACT_pid], 0, true);
	if (!p)
		return -ENOMEM;
	if (strcmp(what, "process") == 0) {
		fact_process(d, p, of);
	} else if (strcmp(what, "clock") == 0) {
		const struct trace_clock clock = {
			.monotonic_ns = (int64_t)of[FACT_monotonic_ns],
			.boottime_ns = (int64_t)of[FACT_boottime_ns],
			.realtime_ns = (int64_t)of[FACT_realtime_ns],
		};

		import_clock(p, &clock);
	} else if (strcmp(what, "attribute") == 0) {
		import_attribute(p, (uint32_t)of[FACT_key], (uint32_t)of[FACT_value]);
	} else if (strcmp(what, "lost") == 0) {
		if (of[FACT_reason] < TRACE_DROP_MAX)
			import_info(p)->drops[of[FACT_reason]] += of[FACT_count];
	} else if (strcmp(what, "end") == 0) {
		import_info(p)->ended = true;
	} else if (strcmp(what, "thread") == 0) {
		t = import_thread(p, (int64_t)of[FACT_tid]);
		if (!t)
			return -ENOMEM;
		import_thread_name(t, (uint32_t)of[FACT_name]);
	}
	return 0;
}

/* --- all of them ------------------------------------------------------------------------------ */

int ctf_take(struct ctf_decoding *d, struct ctf_plan *plan, const uint64_t *values,
	     const struct ctf_moment *moment)
{
	d->events++;
	switch (plan->kind) {
	case CTF_RECORD:
		return record(d, plan, values, moment->ns);
	case CTF_FOREIGN:
		return foreign(d, plan, values, moment);
	case CTF_ENTRY:
		return entry(d, plan, values);
	case CTF_FACT:
		return fact(d, plan, values);
	}
	return 0;
}

int ctf_lost(struct ctf_decoding *d, const struct ctf_origin *origin, uint64_t count)
{
	struct import_process *p;

	if (!origin)
		return -ENOMEM;
	if (!origin->env_pid) {
		d->lost += count;
		return 0;
	}
	p = import_process(d->import, origin->host, origin->env_pid);
	if (!p)
		return -ENOMEM;
	import_info(p)->drops[TRACE_DROP_ENGINE] += count;
	return 0;
}
