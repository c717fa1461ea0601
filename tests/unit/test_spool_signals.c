/* SPDX-License-Identifier: Apache-2.0
 *
 * Spool: signal handlers that record while they interrupt a record being written, and that do not
 * return to it.
 */
#include "tests/unit/test_spool.h"
#include "tracer/spool/writer.h"

#include <pthread.h>
#include <signal.h>
#include <sys/time.h>

#define HANDLER 1
#define JUMPER  2
#define EVENTS  (TEST_SANITIZED ? 30011u : 300007u)

static struct shared {
	uint64_t recorded[3], refused[3];
	uint64_t nested; /* structs that handlers had to take */
} * shared;

/* Of each, in the only order there is: handlers do not interrupt each other. */
static volatile sig_atomic_t handled;

static void count_emit(unsigned who, uint64_t n)
{
	if (test_emit(who, n))
		shared->recorded[who]++;
	else
		shared->refused[who]++;
}

static void on_signal(int number)
{
	(void)number;
	count_emit(HANDLER, (uint64_t)handled);
	handled = handled + 1;
}

static void timer_start(void (*handler)(int), bool own_stack)
{
	static char stack[64 * 1024];
	struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};
	struct itimerval timer = {{0, 50}, {0, 50}};
	stack_t alternate = {.ss_sp = stack, .ss_size = sizeof(stack)};

	if (own_stack) {
		child_check(sigaltstack(&alternate, NULL) == 0);
		action.sa_flags |= SA_ONSTACK;
	}
	child_check(sigaction(SIGALRM, &action, NULL) == 0);
	child_check(setitimer(ITIMER_REAL, &timer, NULL) == 0);
}

static void timer_stop(void)
{
	struct itimerval off = {{0, 0}, {0, 0}};

	setitimer(ITIMER_REAL, &off, NULL);
}

/* Threads that send the signal as fast as it is taken: timers are too slow to hit a few ns often. */
static pthread_t target;
static _Atomic bool stop;

static void *sender(void *arg)
{
	/* ThreadSanitizer holds signals back, and would do nothing else: the timer's must do. */
	while (!atomic_load(&stop) && !TEST_SANITIZED)
		pthread_kill(target, SIGALRM);
	return arg;
}

/* With the signal blocked, so that the timer's go to the thread that is tested as well. */
static pthread_t sender_start(void)
{
	sigset_t alarm;
	pthread_t thread;

	target = pthread_self();
	sigemptyset(&alarm);
	sigaddset(&alarm, SIGALRM);
	pthread_sigmask(SIG_BLOCK, &alarm, NULL);
	child_check(pthread_create(&thread, NULL, sender, NULL) == 0);
	pthread_sigmask(SIG_UNBLOCK, &alarm, NULL);
	return thread;
}

static void write_interrupted(bool own_stack)
{
	struct spool_settings s = test_settings();
	pthread_t thread;

	s.max_bytes = 1u << 30;
	child_open(&s);
	timer_start(on_signal, own_stack);
	thread = sender_start();
	for (uint64_t n = 0; n < EVENTS; n++)
		count_emit(0, n);
	atomic_store(&stop, true);
	pthread_join(thread, NULL);
	timer_stop();
	for (struct spool_thread *t = spool_self->owner; t; t = atomic_load(&t->more))
		shared->nested++;
}

static void write_interrupted_same_stack(void)
{
	write_interrupted(false);
}

static void write_interrupted_own_stack(void)
{
	write_interrupted(true);
}

/* Every record that was acknowledged is there once, in the order of its own sequence. */
static void interrupted_check(void)
{
	struct trace_reader *reader = test_open_only();
	uint64_t next[3] = {0}, who = 0, n = 0;
	struct trace_event e;
	int error;
	struct trace_cursor *c = reader->ops->cursor_open(reader, 0, &error);

	assert_int_equal(reader->thread_count, 1);
	while (reader->ops->cursor_next(c, &e) == 1) {
		assert_true(test_event(&e, &who, &n));
		assert_true(who <= HANDLER && n >= next[who]);
		next[who] = n + 1;
		shared->recorded[who]--;
	}
	reader->ops->cursor_close(c);
	assert_int_equal(shared->recorded[0], 0);
	assert_int_equal(shared->recorded[HANDLER], 0);
	assert_int_equal(test_drops(reader->info.drops),
			 shared->refused[0] + shared->refused[HANDLER]);
	assert_string_equal(reader->info.damage, "");
	reader->ops->close(reader);
}

static void test_interrupted(void **state)
{
	(void)state;
	run_child(write_interrupted_same_stack);
	assert_true(shared->recorded[HANDLER] > (TEST_SANITIZED ? 3 : 97));
	interrupted_check();
}

static void test_interrupted_own_stack(void **state)
{
	(void)state;
	run_child(write_interrupted_own_stack);
	interrupted_check();
}

/* --- the same where it hurts: in the middle, for certain --- */

/* As spool_append(), stopped half way by a handler. */
static void write_in_the_middle(void)
{
	struct spool_settings s = test_settings();
	struct spool_thread *outer;
	uint64_t now = spool_now();

	child_open(&s);
	count_emit(0, 0);
	for (int round = 0; round < 29; round++) {
		outer = spool_self;
		child_check(!atomic_load(&outer->writing));
		atomic_store(&outer->writing, 1);
		/* the handler: fills more than a chunk */
		for (int i = 0; i < 3001; i++) {
			count_emit(HANDLER, (uint64_t)handled);
			handled = handled + 1;
		}
		child_check(spool_self != outer);
		if (round % 3 == 0)
			continue; /* it jumped away: this one never goes on */
		memcpy(spool_put(outer, SPOOL_RECORD_BYTES(sizeof(uint64_t)), WL_EV_nvtx_end, now,
				 now, (uint32_t)round) +
			       1,
		       &(uint64_t){1}, sizeof(uint64_t));
		spool_done(outer, sizeof(uint64_t));
		shared->recorded[JUMPER]++;
	}
}

static void test_in_the_middle(void **state)
{
	struct trace_reader *reader;
	struct trace_cursor *c;
	struct trace_event e;
	uint64_t who = 0, n = 0, next = 0, whole = 0;
	int error;

	(void)state;
	run_child(write_in_the_middle);
	reader = test_open_only();
	c = reader->ops->cursor_open(reader, 0, &error);
	while (reader->ops->cursor_next(c, &e) == 1) {
		if (e.type == wl_event_type(WL_EV_nvtx_end)) {
			shared->recorded[JUMPER]--;
			continue;
		}
		assert_true(test_event(&e, &who, &n));
		if (who == HANDLER)
			assert_int_equal(n, next++);
		whole++;
	}
	reader->ops->cursor_close(c);
	assert_int_equal(whole, shared->recorded[0] + shared->recorded[HANDLER]);
	assert_int_equal(shared->recorded[JUMPER], 0);
	assert_int_equal(test_drops(reader->info.drops),
			 shared->refused[0] + shared->refused[HANDLER]);
	assert_string_equal(reader->info.damage, "");
	reader->ops->close(reader);
}

/* --- handlers that jump away --- */

static sigjmp_buf place;

static void on_signal_jump(int number)
{
	(void)number;
	count_emit(JUMPER, (uint64_t)handled);
	handled = handled + 1;
	siglongjmp(place, 1);
}

static void write_jumping(void)
{
	struct spool_settings s = test_settings();
	static volatile uint64_t n;

	s.max_bytes = 1u << 30;
	child_open(&s);
	sigsetjmp(place, 1);
	timer_start(on_signal_jump, false);
	while (n < EVENTS) {
		uint64_t mine = n;

		n = mine + 1;
		count_emit(0, mine);
	}
	timer_stop();
}

/* An event that was jumped out of may be there or not; all others are. */
static void test_jumping(void **state)
{
	struct trace_reader *reader;
	uint64_t next[3] = {0}, count[3] = {0}, who = 0, n = 0;
	struct trace_event e;
	struct trace_cursor *c;
	int error;

	(void)state;
	run_child(write_jumping);
	reader = test_open_only();
	c = reader->ops->cursor_open(reader, 0, &error);
	while (reader->ops->cursor_next(c, &e) == 1) {
		assert_true(test_event(&e, &who, &n));
		assert_true(who <= JUMPER && n >= next[who]);
		next[who] = n + 1;
		count[who]++;
	}
	reader->ops->cursor_close(c);
	assert_true(count[0] >= shared->recorded[0]);
	assert_int_equal(count[JUMPER], shared->recorded[JUMPER]);
	assert_string_equal(reader->info.damage, "");
	reader->ops->close(reader);
}

static int shared_make(void **state)
{
	shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	return shared == MAP_FAILED ? -1 : test_dir_make(state);
}

static int shared_remove(void **state)
{
	munmap(shared, 4096);
	return test_dir_remove(state);
}

#define signal_test(name) cmocka_unit_test_setup_teardown(name, shared_make, shared_remove)

int main(void)
{
	const struct CMUnitTest tests[] = {
		signal_test(test_interrupted),
		signal_test(test_interrupted_own_stack),
		signal_test(test_in_the_middle),
		signal_test(test_jumping),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
