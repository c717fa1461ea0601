/* SPDX-License-Identifier: Apache-2.0
 *
 * Verdicts: exceeded beats cannot-tell, "holds" needs a complete recording in which the range was
 * seen, a missing trailer alone is not incomplete.
 */
#include "tests/unit/analysis_job.h"
#include "viewers/gate.h"

#include <stdio.h>
#include <string.h>

enum flaw {
	FLAW_NONE,
	FLAW_DROPS,
	FLAW_NAMES,
	FLAW_OVERWRITTEN,
	FLAW_DAMAGED,
	FLAW_NO_TRAILER,
	FLAW_UNCLOSED,
	FLAW_CUDA_OFF,
	FLAW_UNRETURNED,
	FLAW_RANK_MISSING,
	FLAW_EMPTY,
};

struct verdict_case {
	const char *options; /* words */
	unsigned waits;      /* in each of 3 instances of "step", and one outside */
	enum flaw flaw;
	int status;
	const char *says; /* part of the output */
};

static const struct verdict_case cases[] = {
	{"--max-syncs 2 --range step", 2, FLAW_NONE, 0, "holds: 2 synchronizations in the worst"},
	{"--max-syncs 1 --range step", 2, FLAW_NONE, 1, "EXCEEDED: 2 synchronizations"},
	{"--max-syncs 1 --range step", 2, FLAW_NONE, 1, "6 in all instances"},
	{"--max-syncs 6 --range step --total", 2, FLAW_NONE, 0, "in all 3 instances of 'step'"},
	{"--max-syncs 5 --range step --total", 2, FLAW_NONE, 1, "EXCEEDED: 6"},
	{"--max-syncs 4 --range step --total --skip 1", 2, FLAW_NONE, 0, "all 2 instances"},
	{"--max-syncs 9 --range step --skip 3", 2, FLAW_NONE, 2, "every instance of 'step'"},
	{"--max-syncs 7", 2, FLAW_NONE, 0, "holds: 7 synchronizations in the whole run"},
	{"--max-syncs 6", 2, FLAW_NONE, 1, "EXCEEDED: 7"},
	{"--max-syncs 9 --range nowhere", 2, FLAW_NONE, 2, "no range 'nowhere'"},
	{"--max-staged 0 --range step", 2, FLAW_NONE, 0, "holds: 0 staged copies"},
	{"--max-syncs 0 --range step --allow train.py:11*", 2, FLAW_NONE, 0, "holds: 0"},
	{"--max-at train.py:*=1 --range step", 2, FLAW_NONE, 1, "at train.py:*"},
	{"--max-rule stream_wait=2 --range step", 2, FLAW_NONE, 0, "by stream_wait"},
	{"--max-held 25ns --range step", 2, FLAW_NONE, 1, "26 ns held"},
	{"--max-held 26ns --range step", 2, FLAW_NONE, 0, "26 ns held"},
	{"--max-syncs 9 --max-staged 0", 1, FLAW_NONE, 0, "staged copies in the whole run"},

	/* Missing data: no verdict, unless what is there is too much already. */
	{"--max-syncs 2 --range step", 2, FLAW_DROPS, 2, "5 records were lost"},
	{"--max-syncs 1 --range step", 2, FLAW_DROPS, 1, "besides, 5 records were lost"},
	{"--max-syncs 9", 2, FLAW_DROPS, 2, "CANNOT TELL: 5 records were lost"},
	{"--max-syncs 9", 2, FLAW_NAMES, 2, "3 records were lost"},
	{"--max-syncs 9", 2, FLAW_OVERWRITTEN, 2, "overwrote 11 records"},
	{"--max-syncs 1", 2, FLAW_OVERWRITTEN, 1, "EXCEEDED"},
	{"--max-syncs 9", 2, FLAW_DAMAGED, 2, "damaged"},
	{"--max-syncs 9", 2, FLAW_NO_TRAILER, 0, "holds"},
	{"--max-syncs 2 --range step", 2, FLAW_NO_TRAILER, 0, "holds"},
	{"--max-syncs 9 --range step", 2, FLAW_UNCLOSED, 2, "1 instance of 'step' did not end"},
	{"--max-syncs 1 --range step", 2, FLAW_UNCLOSED, 1, "EXCEEDED"},
	{"--max-syncs 99", 2, FLAW_UNCLOSED, 0, "holds"},
	{"--max-syncs 9 --range step --skip 3", 2, FLAW_UNCLOSED, 2, "did not end"},
	{"--max-syncs 9 --range step --skip 4", 2, FLAW_UNCLOSED, 2, "was skipped"},
	{"--max-syncs 9", 2, FLAW_CUDA_OFF, 2, "WAYLAY_CUDA=0"},
	{"--max-registrations 9", 2, FLAW_CUDA_OFF, 0, "holds: 0 registrations"},
	{"--max-syncs 9", 2, FLAW_UNRETURNED, 2, "1 call never returned"},
	{"--max-syncs 9 --range step", 2, FLAW_UNRETURNED, 0, "holds"},
	{"--max-syncs 9", 2, FLAW_RANK_MISSING, 2, "only 1 of 2 ranks"},
	{"--max-syncs 9", 0, FLAW_EMPTY, 2, "nothing was recorded"},
	{"--max-syncs 0 --range step", 0, FLAW_EMPTY, 2, "no range 'step'"},
};

static void spoil(struct job *job, enum flaw flaw)
{
	static const char *const off[][2] = {{"setting.cuda", "0"}};
	struct trace_info *info = synthetic_info(job->processes[0].synthetic);

	switch (flaw) {
	case FLAW_DROPS:
		info->drops[TRACE_DROP_DISK] = 5;
		break;
	case FLAW_NAMES:
		info->drops[TRACE_DROP_INTERN] = 3;
		break;
	case FLAW_OVERWRITTEN:
		info->drops[TRACE_DROP_OVERWRITTEN] = 11;
		break;
	case FLAW_DAMAGED:
		info->damaged = true;
		info->damage = "chunk 3 is torn";
		break;
	case FLAW_NO_TRAILER:
		info->ended = false;
		break;
	case FLAW_UNCLOSED:
		JOB_PUSH(job, 0, "step");
		JOB_WAIT(job, 0, 7, LINE_A);
		break;
	case FLAW_CUDA_OFF:
		info->attributes = off;
		info->attribute_count = 1;
		break;
	case FLAW_UNRETURNED:
		synthetic_inflight(job->processes[0].synthetic, 0, WL_EV_cuda_wait,
				   "cuStreamSynchronize", 0, job->processes[0].now);
		break;
	case FLAW_RANK_MISSING:
		info->rank = 1;
		info->world_size = 2;
		break;
	case FLAW_NONE:
	case FLAW_EMPTY:
		break;
	}
}

/* The words of a case as a command line would take them. */
static void parse(struct gate *gate, const char *options, char *words)
{
	const struct command_line line = {.name = "waylay check",
					  .operands = "",
					  .what = "",
					  .no_operands = true,
					  .mistake_status = 99,
					  .group_count = 1,
					  .groups = {gate_options(gate)}};
	char *argv[16] = {(char *)"check"};
	int argc = 1;

	(void)snprintf(words, 256, "%s", options);
	for (char *word = strtok(words, " "); word; word = strtok(NULL, " "))
		argv[argc++] = word;
	(void)options_parse(&line, argc, argv);
	gate_options_check(&line, gate, true);
}

static void judge(const struct verdict_case *one, struct gate_verdict *verdict, char **said)
{
	struct gate gate = {0};
	struct job job = {0};
	char words[256];
	size_t size;
	FILE *out = open_memstream(said, &size);

	assert_non_null(out);
	parse(&gate, one->options, words);
	(void)job_process(&job, -1, -1);
	for (unsigned i = 0; i < 3 && one->flaw != FLAW_EMPTY; i++) {
		JOB_PUSH(&job, 0, "step");
		for (unsigned k = 0; k < one->waits; k++)
			JOB_WAIT(&job, 0, 7, LINE_A);
		JOB_POP(&job, 0);
	}
	if (one->flaw != FLAW_EMPTY)
		JOB_WAIT(&job, 0, 7, LINE_B);
	spoil(&job, one->flaw);
	const struct analysis_options how = gate_analysis(&gate);

	job_analyse(&job, &how);
	gate_decide(&gate, job.analysis, verdict);
	gate_print(out, &gate, job.model, job.analysis, verdict);
	(void)fclose(out);
	job_done(&job);
	gate_done(&gate);
}

static void verdicts(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct gate_verdict verdict;
		char *said = NULL;

		judge(&cases[i], &verdict, &said);
		if (verdict.status != cases[i].status || !strstr(said, cases[i].says))
			print_error("%s (flaw %d): status %d, wanted %d with '%s':\n%s",
				    cases[i].options, cases[i].flaw, verdict.status,
				    cases[i].status, cases[i].says, said);
		assert_int_equal(verdict.status, cases[i].status);
		assert_non_null(strstr(said, cases[i].says));
		free(said);
	}
}

static void nothing_recorded_is_no_verdict(void **state)
{
	struct gate gate = {0};
	struct gate_verdict verdict;
	char words[256], *said = NULL;
	size_t size;
	FILE *out = open_memstream(&said, &size);

	(void)state;
	assert_non_null(out);
	parse(&gate, "--max-syncs 3", words);
	gate_decide(&gate, NULL, &verdict);
	gate_print(out, &gate, NULL, NULL, &verdict);
	(void)fclose(out);
	assert_int_equal(verdict.status, EXIT_CANNOT_TELL);
	assert_string_equal(said, "check: CANNOT TELL: nothing was recorded\n");
	free(said);
	gate_done(&gate);
}

/* What a recording says must not drive the terminal that shows it. */
static void text_from_outside_is_cleaned(void **state)
{
	static const struct {
		const char *text, *shown;
		size_t size;
	} texts[] = {
		{"plain", "plain", 64},
		{"\033[31mred\a", "?[31mred?", 64},
		{"na\xc3\xafve \xe2\x82\xac \xf0\x9f\x98\x80",
		 "na\xc3\xafve \xe2\x82\xac \xf0\x9f\x98\x80", 64},
		{"\xc2\x9b"
		 "31m",
		 "?31m", 64}, /* CSI as one character */
		{"a\xe2\x80\xae"
		 "b",
		 "a?b", 64},                      /* right to left from here */
		{"\xc0\xaf", "??", 64},           /* over-long */
		{"\xed\xa0\x80", "???", 64},      /* half of a pair */
		{"\xf4\x90\x80\x80", "????", 64}, /* beyond the last */
		{"cut\xe2\x82", "cut??", 64},     /* ends inside a character */
		{"two\nlines\ttab", "two?lines?tab", 64},
		{"12\xe2\x82\xac", "12", 5}, /* cut before a character that does not fit */
		{"12\xe2\x82\xac", "12\xe2\x82\xac", 6},
	};
	char buf[64];

	(void)state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		assert_string_equal(words_clean(texts[i].text, buf, texts[i].size), texts[i].shown);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(verdicts),
		cmocka_unit_test(nothing_recorded_is_no_verdict),
		cmocka_unit_test(text_from_outside_is_cleaned),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
