/* SPDX-License-Identifier: Apache-2.0
 *
 * For tests of exporters: a temporary directory, and the checkers of tests/perfetto run on what was
 * exported from a model, beside a dump of the model's records.
 */
#ifndef WAYLAY_TESTS_EXPORT_CHECK_H
#define WAYLAY_TESTS_EXPORT_CHECK_H

#include "exporters/exporters.h"

#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* cmocka setup and teardown: the directory is *state. */
int export_setup(void **state);
int export_teardown(void **state);

typedef int (*export_function)(struct model *model, const char *path,
			       const struct export_options *options, struct export_result *result,
			       char *err, size_t err_size);

/* Exports to DIRECTORY/trace.SUFFIX and has the checker (a script in tests/perfetto) compare it with
 * the records. Fails the test if it does not pass, skips it where the checker cannot run. */
void export_and_check(const char *directory, struct model *model, export_function export,
		      const char *checker, const char *suffix, const struct export_options *options,
		      struct export_result *result);

/* As export_and_check, for what cannot be compared with its records: the rules alone. */
void export_and_judge(const char *directory, struct model *model, export_function export,
		      const char *checker, const char *suffix, const struct export_options *options,
		      struct export_result *result);

struct synthetic;
/* The model of finished recordings. */
struct model *model_of(struct synthetic *const *recordings, unsigned count);

/* Fills a recording with trouble: random call trees, ties, instants, ranges (crossing calls if
 * `crossing`), on so many threads. */
void synthetic_trouble(struct synthetic *synthetic, unsigned threads, unsigned records,
		       unsigned seed, bool crossing);
/* One event of every type of the table. */
void synthetic_every_event(struct synthetic *synthetic);
/* Whatever a damaged recording may hold: any type, any arguments, any times, ends never falling. */
void synthetic_garbage(struct synthetic *synthetic, unsigned records, unsigned seed);
/* Calls of two threads on streams of their own, and what a device did for them, delivered late and in
 * heaps by a third: kernels, copies, memsets, graphs, waits; captured and failed calls, for which it did
 * nothing; copies over before their call returned; and in every round one kernel that nobody called. All
 * kernels have names and all copies sizes of their own. Returns how many pieces of work have a call. */
unsigned synthetic_devices(struct synthetic *synthetic, unsigned rounds);
/* A fabric's life: endpoints, transfers on both sides, registrations; so many rounds. */
void synthetic_fabric(struct synthetic *synthetic, unsigned rounds);

#endif
