/* SPDX-License-Identifier: Apache-2.0
 *
 * Which ranges of memory were registered before: churn that a registration cache would save.
 */
#include "viewers/analysis_internal.h"

#include <stdlib.h>

#define PAGE 4096u

/* A registration's identity: its page-rounded range, in one process. */
struct mr_key {
	uint64_t process, first_page, end_page;
};
struct mr_entry {
	struct mr_key key;
	UT_hash_handle hh;
};
struct mr_table {
	struct mr_entry *ranges;
};

struct mr_table *mr_table_new(void)
{
	return calloc(1, sizeof(struct mr_table));
}

void mr_table_free(struct mr_table *table)
{
	struct mr_entry *entry, *next;

	if (!table)
		return;
	HASH_ITER (hh, table->ranges, entry, next) {
		HASH_DEL(table->ranges, entry);
		free(entry);
	}
	free(table);
}

bool mr_add(struct mr_table *table, unsigned process, uint64_t address, uint64_t bytes,
	    bool *repeated)
{
	struct mr_key key = {process, address / PAGE, (address + bytes + PAGE - 1) / PAGE};
	struct mr_entry *entry = NULL;

	HASH_FIND(hh, table->ranges, &key, sizeof(key), entry);
	*repeated = entry != NULL;
	if (entry)
		return true;
	entry = calloc(1, sizeof(*entry));
	if (!entry)
		return false;
	entry->key = key;
	HASH_ADD(hh, table->ranges, key, sizeof(key), entry);
	return true;
}
