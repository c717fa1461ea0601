/* SPDX-License-Identifier: Apache-2.0
 *
 * A provider whose endpoints deliver to themselves, and what a flavour of it does with its tables.
 */
#ifndef WAYLAY_TESTS_MOCK_SELF_H
#define WAYLAY_TESTS_MOCK_SELF_H

#include "tests/mock/mock.h"

#include <stdbool.h>

#define SELF_DEPTH 64

struct self_cq {
	struct fid_cq cq;
	struct fi_cq_tagged_entry entries[SELF_DEPTH];
	unsigned head, tail;
	bool exchanged; /* efa: its table is the later one */
};

struct self_cntr {
	struct fid_cntr cntr;
	uint64_t value;
};

struct self_ep {
	struct fid_ep ep;
	struct fid_domain *domain;
	struct self_cq *tx, *rx;
	struct self_cntr *cntr;
	bool enabled;
	struct {
		void *buf, *context;
		size_t bytes;
	} posted[SELF_DEPTH];
	unsigned head, tail;
	struct fi_ops_msg *own; /* verbs: the table it was given */
};

/* What a flavour does at these moments. */
extern const char self_name[];
void self_ep_opened(struct self_ep *ep);
void self_ep_bound(struct self_ep *ep, struct fid *bound);
void self_ep_enabled(struct self_ep *ep);
void self_ep_closing(struct self_ep *ep);
extern struct fi_ops_cq *self_cq_first; /* table of a new queue */

/* --- self.c --------------------------------------------------------------------------------------- */

ssize_t self_recv(struct fid_ep *ep, void *buf, size_t len, void *desc, fi_addr_t peer,
		  void *context);
ssize_t self_send(struct fid_ep *ep, const void *buf, size_t len, void *desc, fi_addr_t peer,
		  void *context);
ssize_t self_cq_read(struct fid_cq *cq, void *buf, size_t count);
ssize_t self_cq_readfrom(struct fid_cq *cq, void *buf, size_t count, fi_addr_t *src);
const char *self_cq_strerror(struct fid_cq *cq, int error, const void *data, char *buf, size_t len);
ssize_t self_cq_readerr(struct fid_cq *cq, struct fi_cq_err_entry *buf, uint64_t flags);
/* Says what is wrong with an object's tables, and ends the process with status 99. */
_Noreturn void self_die(const char *what);
void self_domain_check(const struct fid_domain *domain);

#endif
