/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls that record, so many of them, for a machine that counts instructions:
 *
 *     record_calls WHICH COUNT DIRECTORY
 *
 * WHICH: bare, instant (one time stamp), interval (begin and end), waiting (an in-flight slot too), longer
 * (an instant and sixteen instructions that have no business there: what a gate must notice).
 */
#include "tests/bench/record_calls.h"
#include "tracer/spool/spool.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

CALL longer(uint64_t n)
{
	uint64_t now = spool_now();

	SPOOL_EMIT(ofi_counter, now, now, 0, .cntr = n, .value = n, .api = 1, .status = 0);
	__asm__ volatile("nop; nop; nop; nop; nop; nop; nop; nop; nop; nop"
			 "; nop; nop; nop; nop; nop; nop"
			 :
			 : "r"(n));
}

/* The tool is told to count inside of this function. */
void counted_calls(void (*call)(uint64_t n), uint64_t count);
__attribute__((noinline)) void counted_calls(void (*call)(uint64_t n), uint64_t count)
{
	for (uint64_t n = 0; n < count; n++)
		call(n);
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*call)(uint64_t n);
	} all[] = {{"bare", bare},
		   {"instant", instant},
		   {"interval", interval},
		   {"waiting", waiting},
		   {"longer", longer}};
	struct spool_settings s = {
		.max_bytes = 64u << 20, .rank = -1, .world_size = -1, .local_rank = -1};

	if (argc != 4) {
		(void)fprintf(stderr, "usage: record_calls WHICH COUNT DIRECTORY\n");
		return 64;
	}
	s.directory = argv[3];
	if (spool_clock_choose("tsc", &s.clock) != 0)
		return 77;
	if (spool_writer_open(&s) != 0) {
		(void)fprintf(stderr, "record_calls: %s\n", spool_error());
		return 1;
	}
	(void)unlink(spool_writer_path());
	waiting(0); /* the thread's first record */
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		if (strcmp(argv[1], all[i].name) == 0) {
			counted_calls(all[i].call, strtoull(argv[2], NULL, 0));
			return 0;
		}
	return 64;
}
