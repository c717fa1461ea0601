/* SPDX-License-Identifier: Apache-2.0
 *
 * A server for one file and one page: it gives the file once, to a page of one origin on this machine.
 */
#ifndef WAYLAY_VIEWERS_VIEW_SERVER_H
#define WAYLAY_VIEWERS_VIEW_SERVER_H

#include <stddef.h>
#include <stdint.h>

struct view_server;

struct view_offer {
	const char *file;   /* to be given */
	const char *path;   /* under which it is asked for: "/TOKEN/NAME" */
	const char *origin; /* of the page that may have it: "https://ui.perfetto.dev" */
	uint16_t port;      /* of 127.0.0.1; 0: any */
	/* Told of every request: what was asked, and the status of the answer. NULL: nobody. */
	void (*log)(const char *method, const char *path, const char *origin, unsigned status);
};

/* 0, or -errno with one line in err: -EADDRINUSE when the port is taken, -ENOSYS in a build without
 * libmicrohttpd. offer must outlive the server. */
int view_server_start(const struct view_offer *offer, struct view_server **server, char *err,
		      size_t err_size);
uint16_t view_server_port(const struct view_server *server);
/* A descriptor that can be read when the file was given whole. */
int view_server_done(const struct view_server *server);
void view_server_stop(struct view_server *server);

#endif
