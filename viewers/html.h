/* SPDX-License-Identifier: Apache-2.0
 *
 * The report as a page that needs nothing but a browser.
 */
#ifndef WAYLAY_VIEWERS_HTML_H
#define WAYLAY_VIEWERS_HTML_H

#include "viewers/report_json.h"

/* Events of the timeline; the shortest are left out beyond. */
#define HTML_EVENTS_MAX 2000000u

struct html_timeline;
/* Reads the records for the timeline. NULL with *error = -errno. */
struct html_timeline *html_timeline_read(struct model *model, unsigned events_max, int *error);
void html_timeline_free(struct html_timeline *timeline);
/* Tracks and names, the caller's. */
json_t *html_timeline_json(const struct html_timeline *timeline);
/* The events, packed, deflated and as base64; *text is the caller's to free. 0 or -errno. */
int html_timeline_events(const struct html_timeline *timeline, char **text, size_t *length);

/* Writes the page to path ("-": standard output), whole or not at all. 0, or -errno with one line in err. */
int html_write(const char *path, struct model *model, const struct analysis *analysis, char *err,
	       size_t err_size);

#endif
