/* SPDX-License-Identifier: Apache-2.0
 *
 * One file: the page's parts, the report as JSON, the lines of source that it speaks of, and the events of
 * the timeline.
 */
#include "viewers/html.h"

#include "exporters/exporters.h"
#include "viewers/viewers.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define SOURCES_MAX    400u
#define LINES_AROUND   6u
#define LINE_MAX_BYTES 240u
#define FILE_MAX_BYTES ((off_t)8 << 20)

#define PART(name) extern const char page_##name[], page_##name##_end[]
PART(css);
PART(html);
PART(script);

static void put(struct output *output, const char *text)
{
	output_write(output, text, strlen(text));
}

/* As the content of a script element: what could end it is written in another way. */
static int put_json(struct output *output, const char *id, json_t *object)
{
	char *text = object ? json_dumps(object, JSON_COMPACT) : NULL;

	if (!text)
		return -ENOMEM;
	put(output, "<script type=\"application/json\" id=\"");
	put(output, id);
	put(output, "\">");
	for (const char *from = text; *from;) {
		size_t plain = strcspn(from, "<");

		output_write(output, from, plain);
		from += plain;
		if (*from == '<') {
			put(output, "\\u003c");
			from++;
		}
	}
	put(output, "</script>\n");
	free(text);
	return 0;
}

/* --- source ----------------------------------------------------------------------------------- */

/* When the newest recording ended, in seconds of REALTIME. */
static time_t recorded_until(struct model *model)
{
	int64_t first, last, realtime;

	model_bounds(model, &first, &last, &realtime);
	return (time_t)((realtime + last - first) / 1000000000);
}

static json_t *lines_read(const char *path, uint32_t line, time_t recorded)
{
	uint32_t first = line > LINES_AROUND ? line - LINES_AROUND : 1, at = 1;
	json_t *texts = json_array();
	char *text = NULL, clean[LINE_MAX_BYTES + 1];
	struct stat info;
	size_t room = 0;
	ssize_t length;
	FILE *file;

	/* A recording is from elsewhere: nothing but plain files is opened for it. */
	if (stat(path, &info) != 0 || !S_ISREG(info.st_mode) || info.st_size > FILE_MAX_BYTES)
		file = NULL;
	else
		file = fopen(path, "re");
	for (; file && at <= line + LINES_AROUND && (length = getline(&text, &room, file)) >= 0;
	     at++) {
		while (length && (text[length - 1] == '\n' || text[length - 1] == '\r'))
			text[--length] = '\0';
		for (char *tab = text; (tab = strchr(tab, '\t'));)
			*tab = ' ';
		if (at >= first)
			json_array_append_new(
				texts, report_words(words_clean(text, clean, sizeof(clean))));
	}
	free(text);
	if (file)
		(void)fclose(file);
	if (at <= line || !json_array_size(texts)) {
		json_decref(texts);
		return NULL;
	}
	return json_pack("{s:i,s:b,s:o}", "first", (int)first, "newer", info.st_mtime > recorded,
			 "text", texts);
}

static void sources_add(json_t *sources, struct site *const *sites, unsigned count, time_t recorded)
{
	char key[4200];

	for (unsigned i = 0; i < count && json_object_size(sources) < SOURCES_MAX; i++) {
		json_t *lines;

		if (!sites[i]->file || !sites[i]->line)
			continue;
		(void)snprintf(key, sizeof(key), "%s:%u", sites[i]->file, sites[i]->line);
		if (json_object_get(sources, key))
			continue;
		lines = lines_read(sites[i]->file, sites[i]->line, recorded);
		if (lines)
			json_object_set_new(sources, key, lines);
	}
}

/* --- the page --------------------------------------------------------------------------------- */

static int put_data(struct output *output, struct model *model, const struct analysis *analysis,
		    const struct html_timeline *timeline)
{
	json_t *report = report_object(model, analysis), *extra = json_object();
	json_t *sources = json_object();
	time_t recorded = recorded_until(model);
	int error;

	sources_add(sources, analysis->sites, analysis->site_count, recorded);
	sources_add(sources, analysis->registration_sites, analysis->registration_site_count,
		    recorded);
	json_object_set_new(extra, "version", json_string(WAYLAY_VERSION));
	json_object_set_new(extra, "sources", sources);
	json_object_set_new(extra, "timeline", html_timeline_json(timeline));
	error = put_json(output, "report", report);
	if (!error)
		error = put_json(output, "extra", extra);
	json_decref(report);
	json_decref(extra);
	return error;
}

/* Last, so that the rest is shown while these are still read. */
static int put_events(struct output *output, const struct html_timeline *timeline)
{
	char *events = NULL;
	size_t length = 0;
	int error = html_timeline_events(timeline, &events, &length);

	if (error)
		return error;
	put(output, "<script type=\"text/plain\" id=\"events\">");
	output_write(output, events, length);
	put(output, "</script>\n");
	free(events);
	return 0;
}

static int put_page(struct output *output, struct model *model, const struct analysis *analysis,
		    const struct html_timeline *timeline)
{
	int error;

	/* Nothing is fetched, whatever a recording holds. */
	put(output, "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
		    "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
		    "style-src 'unsafe-inline'; script-src 'unsafe-inline'\">\n"
		    "<meta name=\"viewport\" content=\"width=device-width\">\n"
		    "<title>Waylay report</title>\n<style>\n");
	output_write(output, page_css, (size_t)(page_css_end - page_css));
	put(output, "</style>\n</head>\n<body>\n");
	output_write(output, page_html, (size_t)(page_html_end - page_html));
	error = put_data(output, model, analysis, timeline);
	put(output, "<script>\n");
	output_write(output, page_script, (size_t)(page_script_end - page_script));
	put(output, "</script>\n");
	if (!error)
		error = put_events(output, timeline);
	put(output, "</body>\n</html>\n");
	return error;
}

int html_write(const char *path, struct model *model, const struct analysis *analysis, char *err,
	       size_t err_size)
{
	struct html_timeline *timeline;
	struct output output;
	int error = 0;

	*err = '\0';
	timeline = html_timeline_read(model, HTML_EVENTS_MAX, &error);
	if (timeline) {
		error = output_open(&output, path, NULL, err, err_size);
		if (!error) {
			error = put_page(&output, model, analysis, timeline);
			error = output_close(&output, error, err, err_size);
		}
	}
	html_timeline_free(timeline);
	if (error && !*err)
		(void)snprintf(err, err_size, "writing the page %s: %s", path, strerror(-error));
	return error;
}
