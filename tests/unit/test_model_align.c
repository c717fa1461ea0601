/* SPDX-License-Identifier: Apache-2.0
 *
 * Clocks of hosts that are set apart and drift, aligned by the messages between them: none arrives before
 * it was sent, and the error is within the bound that is told.
 */
#include "tests/unit/export_check.h"
#include "tests/unit/synthetic_reader.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HOSTS_MAX 3
#define MESSAGES  997
#define LENGTH_NS 20000000000.0
#define LEAST_NS  2000.0 /* the fastest message takes so long */
#define REALTIME  1700000000000000000
#define EP(host)  (0x1000u + (host))
#define AV        0x2000u

/* A host's MONOTONIC at a true time; REALTIME is off by its error. */
struct host {
	double offset_ns, drift, turn_ns, drift_after, realtime_error_ns;
	struct synthetic *recording;
	uint32_t sender, receiver; /* threads */
};

struct message {
	unsigned from, to;
	double sent, received;
};

struct job {
	struct host hosts[HOSTS_MAX];
	unsigned host_count;
	struct message messages[MESSAGES];
	unsigned message_count;
	struct model *model;
};

static int64_t clock_of(const struct host *host, double t)
{
	double late = host->turn_ns && t > host->turn_ns ? t - host->turn_ns : 0;

	return (int64_t)llround(host->offset_ns + t * (1 + host->drift) +
				late * (host->drift_after - host->drift));
}

static double chance(unsigned *state)
{
	*state = *state * 1664525u + 1013904223u;
	return (double)(*state >> 8) / (1 << 24);
}

static const char *address(unsigned host)
{
	static const char *const names[HOSTS_MAX] = {"10.0.0.1:7", "10.0.0.2:7", "10.0.0.3:7"};

	return names[host];
}

static void begin_host(struct job *job, unsigned index)
{
	struct host *host = &job->hosts[index];
	char name[16];
	int64_t at = clock_of(host, 0);

	snprintf(name, sizeof(name), "node%u", index);
	host->recording = synthetic_new(name, 100 + index, 5000 - at,
					REALTIME - at + (int64_t)host->realtime_error_ns);
	for (unsigned i = 1; i <= 10; i++) {
		double t = LENGTH_NS * i / 10;

		synthetic_clock(host->recording, clock_of(host, t), clock_of(host, t) + 5000 - at,
				REALTIME + (int64_t)t + (int64_t)host->realtime_error_ns);
	}
	host->sender = synthetic_thread(host->recording, 200 + index, "sender");
	host->receiver = synthetic_thread(host->recording, 300 + index, "receiver");
	for (uint32_t thread = host->sender; thread <= host->receiver; thread++) {
		uint32_t api = synthetic_string(host->recording, "fi_getname");
		uint32_t insert = synthetic_string(host->recording, "fi_av_insert");

		SYNTHETIC(host->recording, thread, ofi_bind, at, at + 1, .object = EP(index),
			  .bound = AV, .bound_kind = WL_ofi_kind_av);
		SYNTHETIC(host->recording, thread, ofi_control, at + 2, at + 3, .object = EP(index),
			  .api = api, .detail = synthetic_string(host->recording, address(index)));
		for (unsigned i = 0; i < job->host_count; i++)
			SYNTHETIC(host->recording, thread, ofi_av, at + 4, at + 5, .av = AV,
				  .addr = i, .count = 1, .api = insert,
				  .detail = synthetic_string(host->recording, address(i)));
	}
}

static int by_arrival(const void *left, const void *right)
{
	const struct message *a = left, *b = right;

	return a->received < b->received ? -1 : a->received > b->received;
}

static void record_messages(struct job *job)
{
	for (unsigned i = 0; i < job->message_count; i++) {
		const struct message *message = &job->messages[i];
		struct host *host = &job->hosts[message->from];
		int64_t at = clock_of(host, message->sent);

		SYNTHETIC(host->recording, host->sender, ofi_post, at, at + 200,
			  .ep = EP(message->from), .peer = message->to, .tag = 7, .bytes = 8,
			  .op = WL_ofi_op_tsend, .inject = 1);
	}
	qsort(job->messages, job->message_count, sizeof(job->messages[0]), by_arrival);
	for (unsigned i = 0; i < job->message_count; i++) {
		const struct message *message = &job->messages[i];
		struct host *host = &job->hosts[message->to];
		int64_t at = clock_of(host, message->received);

		SYNTHETIC(host->recording, host->receiver, ofi_post, at - 800, at - 700,
			  .ep = EP(message->to), .peer = message->from, .tag = 7, .bytes = 8,
			  .op = WL_ofi_op_trecv, .context = i + 1);
		SYNTHETIC(host->recording, host->receiver, ofi_completion, at, at, .context = i + 1,
			  .flags = 1ull << 10, .bytes = 8, .tag = 7, .src = UINT64_MAX);
	}
}

/* pairs: who sends to whom, in turns. Messages of one pair never overtake each other. */
static void make_job(struct job *job, const unsigned (*pairs)[2], unsigned pair_count,
		     unsigned seed)
{
	struct synthetic *recordings[HOSTS_MAX];
	double last[HOSTS_MAX] = {0}; /* receivers take them one by one */

	for (unsigned i = 0; i < job->host_count; i++)
		begin_host(job, i);
	for (unsigned i = 0; i < MESSAGES; i++) {
		struct message *message = &job->messages[job->message_count++];
		double delay = LEAST_NS + 100000 * chance(&seed) * chance(&seed);

		message->from = pairs[i % pair_count][0];
		message->to = pairs[i % pair_count][1];
		message->sent = 10000 + (LENGTH_NS - 1e6) * i / MESSAGES;
		message->received = message->sent + delay;
		if (message->received < last[message->to] + 1000)
			message->received = last[message->to] + 1000;
		last[message->to] = message->received;
	}
	record_messages(job);
	for (unsigned i = 0; i < job->host_count; i++)
		recordings[i] = job->hosts[i].recording;
	job->model = model_of(recordings, job->host_count);
}

static const struct model_process *process_of(const struct job *job, unsigned host)
{
	for (unsigned i = 0; i < model_process_count(job->model); i++) {
		if (model_process(job->model, i)->info.pid == 100 + host)
			return model_process(job->model, i);
	}
	fail();
	return NULL;
}

static void check_order(const struct job *job)
{
	for (unsigned i = 0; i < job->message_count; i++) {
		const struct message *message = &job->messages[i];
		int64_t sent = model_time(process_of(job, message->from),
					  clock_of(&job->hosts[message->from], message->sent));
		int64_t received =
			model_time(process_of(job, message->to),
				   clock_of(&job->hosts[message->to], message->received));

		if (received < sent)
			fail_msg("message %u arrives %lld ns before it was sent", i,
				 (long long)(sent - received));
	}
}

/* The greatest error against the first host, which every bound told must cover. */
static void check_bounds(const struct job *job, double most_ns)
{
	for (unsigned host = 1; host < job->host_count; host++) {
		const struct model_process *process = process_of(job, host);
		double worst = 0;

		for (unsigned i = 0; i <= 100; i++) {
			double t = job->messages[job->message_count - 1].received * i / 100;
			double error =
				(double)(model_time(process, clock_of(&job->hosts[host], t)) -
					 model_time(process_of(job, 0),
						    clock_of(&job->hosts[0], t)));

			worst = fabs(error) > worst ? fabs(error) : worst;
		}
		print_message("host %u: error %.0f ns, bound %lld ns\n", host, worst,
			      (long long)process->clock_error_ns);
		assert_true(process->clock_error_ns >= 0);
		assert_true(worst <= (double)process->clock_error_ns);
		assert_true((double)process->clock_error_ns <= most_ns);
	}
}

static void two_hosts(void **state)
{
	static const double drifts[] = {0, 40e-6, -200e-6};
	static const unsigned pairs[][2] = {{0, 1}, {1, 0}};

	(void)state;
	for (unsigned i = 0; i < sizeof(drifts) / sizeof(drifts[0]); i++) {
		struct job job = {.host_count = 2,
				  .hosts = {{.offset_ns = 1e9},
					    {.offset_ns = 77e12,
					     .drift = drifts[i],
					     .realtime_error_ns = 30e6}}};

		make_job(&job, pairs, 2, i + 1);
		check_order(&job);
		check_bounds(&job, 60000);
		model_close(job.model);
	}
}

/* The third host talks to the second alone: its error adds up. */
static void chain(void **state)
{
	static const unsigned pairs[][2] = {{0, 1}, {1, 0}, {1, 2}, {2, 1}};
	struct job job = {
		.host_count = 3,
		.hosts = {{.offset_ns = 5e9, .drift = 10e-6},
			  {.offset_ns = 3e9, .drift = -10e-6, .realtime_error_ns = 5e6},
			  {.offset_ns = 900e9, .drift = 25e-6, .realtime_error_ns = 60e6}}};

	(void)state;
	make_job(&job, pairs, 4, 5);
	check_order(&job);
	for (unsigned host = 1; host < 3; host++)
		assert_true(process_of(&job, host)->clock_error_ns > 0);
	model_close(job.model);
}

/* A clock that changes its pace: no one line fits. */
static void changing_drift(void **state)
{
	static const unsigned pairs[][2] = {{0, 1}, {1, 0}};
	struct job job = {.host_count = 2,
			  .hosts = {{.offset_ns = 1e9},
				    {.offset_ns = 2e9,
				     .drift = 100e-6,
				     .turn_ns = LENGTH_NS / 2,
				     .drift_after = -100e-6,
				     .realtime_error_ns = 9e6}}};

	(void)state;
	make_job(&job, pairs, 2, 6);
	check_order(&job);
	model_close(job.model);
}

/* Messages one way: nothing is bounded, yet none arrives early. */
static void one_way(void **state)
{
	static const unsigned pairs[][2] = {{0, 1}};
	struct job job = {
		.host_count = 2,
		.hosts = {{.offset_ns = 1e9}, {.offset_ns = 2e9, .realtime_error_ns = -9e6}}};

	(void)state;
	make_job(&job, pairs, 1, 7);
	check_order(&job);
	/* The second host's clock, which runs behind, began the earliest recording: it is the reference. */
	assert_int_equal(process_of(&job, 1)->clock_error_ns, 0);
	assert_int_equal(process_of(&job, 0)->clock_error_ns, -1);
	model_close(job.model);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(two_hosts),
		cmocka_unit_test(chain),
		cmocka_unit_test(changing_drift),
		cmocka_unit_test(one_way),
	};

	return cmocka_run_group_tests_name("model_align", tests, NULL, NULL);
}
