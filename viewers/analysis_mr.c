/* SPDX-License-Identifier: Apache-2.0
 *
 * Which ranges of memory were registered before: churn that a registration cache would save.
 */
#include "viewers/analysis_internal.h"

#include <stdlib.h>
#include <string.h>

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
	/* The table goes first; what it held stays chained by hh.next. */
	entry = table->ranges;
	HASH_CLEAR(hh, table->ranges);
	for (; entry; entry = next) {
		next = entry->hh.next;
		free(entry);
	}
	free(table);
}

bool mr_add(struct mr_table *table, unsigned process, uint64_t address, uint64_t bytes,
	    bool *repeated)
{
	struct mr_entry *entry = NULL;
	struct mr_key key;

	memset(&key, 0, sizeof(key));
	key.process = process;
	key.first_page = address / PAGE;
	key.end_page = (address + bytes + PAGE - 1) / PAGE;

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
