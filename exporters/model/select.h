/* SPDX-License-Identifier: Apache-2.0
 *
 * Which records an export shows. Exporters ask; what is not shown is still read, since counters, matches
 * and nesting depend on it.
 */
#ifndef WAYLAY_EXPORTERS_SELECT_H
#define WAYLAY_EXPORTERS_SELECT_H

#include "exporters/exporters.h"
#include "exporters/model/nest.h"

/* Whether anything of a process is shown. */
bool select_process(const struct selection *selection, const struct model_process *process);
/* Whether something of a process is shown, by category and time alone. Times on the model's clock. */
bool select_shows(const struct selection *selection, unsigned process, enum wl_category category,
		  int64_t begin_ns, int64_t end_ns);
/* As select_shows, and it may be thinned out: calls, instants, transfers. Repeatable. */
bool select_keeps(const struct selection *selection, unsigned process, enum wl_category category,
		  int64_t begin_ns, int64_t end_ns);
/* As select_keeps, counting; asked once for each thing that may be shown. */
bool select_takes(struct selection *selection, unsigned process, enum wl_category category,
		  int64_t begin_ns, int64_t end_ns);
/* Whether a counter's value is shown; while thinning only now and then. *last_ns is the caller's,
 * INT64_MIN at first. */
bool select_counter(const struct selection *selection, unsigned process, enum wl_category category,
		    int64_t ts, int64_t *last_ns);

/* Between nest and an exporter: ranges that begin outside the time shown are told once something in
 * them is. */
struct select_nest {
	struct selection *selection; /* NULL: all is shown */
	const struct model_process *process;
	const struct nest_ops *ops;
	void *user;
	uint64_t slices, instants; /* told */
	struct select_pending {
		const struct nest_item *item;
		int64_t ts;
		bool continued;
	} * pending; /* outermost first */
	unsigned pending_count, pending_capacity;
};
extern const struct nest_ops select_nest_ops; /* user: a struct select_nest */
void select_nest_done(struct select_nest *nest);

#endif
