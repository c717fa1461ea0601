/* SPDX-License-Identifier: Apache-2.0
 *
 * Which send a receive is the other end of: both get the same number, made of the names of the endpoints,
 * the tag and how many came before, so that nothing has to be kept for it.
 */
#ifndef WAYLAY_EXPORTERS_MESSAGES_H
#define WAYLAY_EXPORTERS_MESSAGES_H

#include "exporters/model/match.h"

/* Who sends under which tag to whom: the first sender of each, or that there are several. Of bounded
 * size: what falls together counts as several. */
struct message_senders;
struct message_senders *message_senders_new(void);
void message_senders_free(struct message_senders *senders);

/* One process's. senders: to be filled (fill), or to be asked. */
struct match_messages;
struct match_messages *match_messages_new(struct match_context *context,
					  struct message_senders *senders, bool fill);
void match_messages_free(struct match_messages *messages);
/* Address vectors, endpoints' names, bindings. */
void match_messages_feed(struct match_messages *messages, const struct trace_event *event);
/* The number of a message whose post was accepted, in order of post; 0: not known (yet). */
uint64_t match_messages_posted(struct match_messages *messages, const struct trace_event *post);
/* Of a receive whose number was not known at its post, by what its completion says (NULL: it has none). */
uint64_t match_messages_received(struct match_messages *messages, const struct trace_event *post,
				 const struct trace_event *completion);

#endif
