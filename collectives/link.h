/* SPDX-License-Identifier: Apache-2.0 */
/* One connection between two ranks and the frames on it. Private to the rendezvous. */
#ifndef WAYLAY_COLLECTIVES_LINK_H
#define WAYLAY_COLLECTIVES_LINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LINK_MAGIC 0x6c6c6f63u /* "coll" */

enum frame_kind { FRAME_HELLO = 1, FRAME_DATA, FRAME_ABORT, FRAME_BYE, FRAME_MAX };

struct frame {
	uint32_t magic, kind, bytes, reserved;
};

struct hello {
	uint32_t rank, size, pid, reserved;
	char host[64];
};

struct link {
	int fd;
	bool bye;
	struct frame head;
	size_t head_have;
	char *body;
	size_t body_have;
	struct hello peer;
};

int64_t link_now_ns(void);

/* Sends a frame, waiting until the deadline for the peer to take it. 0 or a negative errno. */
int link_send(struct link *l, enum frame_kind kind, const void *body, size_t bytes,
	      int64_t deadline);
/* Reads what is there. 1 with a whole frame in head and body (link_done() then frees it; the body
 * has room for a final NUL), 0 when there is none yet, -ECONNRESET at the end of the stream, or
 * another error. */
int link_recv(struct link *l, size_t max_bytes);
void link_done(struct link *l);
void link_close(struct link *l);

#endif
