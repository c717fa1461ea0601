/* SPDX-License-Identifier: Apache-2.0
 *
 * A trace folder: a directory with a file `metadata`. Found, looked over, and where it is damaged, put
 * right in a temporary copy.
 */
#ifndef WAYLAY_TRACER_LTTNG_LEAF_H
#define WAYLAY_TRACER_LTTNG_LEAF_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

struct leaves {
	char **paths;
	unsigned count, capacity;
};

/* Adds the trace folders at and below path, sorted. 0 or -errno. */
int leaves_find(struct leaves *leaves, const char *path);
void leaves_free(struct leaves *leaves);

/* A folder's metadata as text, as far as it is whole; NULL when there is none. */
char *leaf_metadata(const char *folder);

struct leaf {
	char use[PATH_MAX]; /* the folder to be read */
	bool copied;        /* it is a temporary one */
	char damage[256];   /* what is wrong with the original, "" if nothing */
};
/* 0; -ENODATA when nothing of it can be read (damage says why); else -errno. */
int leaf_prepare(struct leaf *leaf, const char *path);
void leaf_done(struct leaf *leaf);

#endif
