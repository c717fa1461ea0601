/* SPDX-License-Identifier: Apache-2.0
 *
 * What the mock providers share: copying a table of operations, whatever its age.
 */
#ifndef WAYLAY_TESTS_MOCK_H
#define WAYLAY_TESTS_MOCK_H

#include <stdlib.h>
#include <string.h>

#include <rdma/fabric.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_collective.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>
#include <rdma/providers/fi_prov.h>

/* A copy that may be changed; the caller frees it. NULL gives NULL. */
static inline void *mock_table_copy(const void *table)
{
	size_t bytes = table ? *(const size_t *)table : 0;
	void *copy = bytes ? malloc(bytes) : NULL;

	if (copy)
		memcpy(copy, table, bytes);
	return copy;
}

#endif
