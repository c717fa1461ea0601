/* SPDX-License-Identifier: Apache-2.0
 *
 * A trace folder as LTTng-UST 2.13 writes one, made by the test that reads it.
 */
#ifndef WAYLAY_TESTS_CTF_WRITE_H
#define WAYLAY_TESTS_CTF_WRITE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ctf_write {
	bool large;   /* headers of events: 16 and 32 bits in place of 5 and 27 */
	bool context; /* vpid and vtid in front of every event */
	bool plain; /* no float among the events: else the reader of packets leaves the folder alone */
	bool packed;                       /* metadata in packets, as it comes from LTTng */
	unsigned streams, packets, events; /* packets a stream, events a packet */
	uint64_t step_ns;                  /* between events */
	uint64_t discarded;                /* more in each packet */
	uint64_t missing;                  /* packets left out between any two */
};

/* Writes metadata and streams into an empty folder. Returns the number of events. */
uint64_t ctf_write(const char *folder, const struct ctf_write *how);

#endif
