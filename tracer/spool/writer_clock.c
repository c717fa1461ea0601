/* SPDX-License-Identifier: Apache-2.0
 *
 * Clocks: which one records are stamped with, snapshots of all of them, and whether the processor's
 * counter still agrees with the kernel.
 */
#include "tracer/spool/writer.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

#define TRIES            5
#define CALIBRATION_NS   20000
#define COMPARE_LEAST_NS 200000000 /* snapshots nearer than this say too little about a rate */
#define DRIFT_MOST       1e-3      /* 1 ms/s; NTP slews by half of that at most */
#define FIRST_DRIFT_MOST 5e-2      /* against the calibration, which is rough */
#define UNCERTAIN_NS     20000     /* a snapshot that took longer was interrupted */

enum spool_clock spool_clock_used;

uint64_t spool_monotonic_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * SPOOL_SECOND_NS + (uint64_t)ts.tv_nsec;
}

static int64_t clock_ns(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return (int64_t)ts.tv_sec * SPOOL_SECOND_NS + ts.tv_nsec;
}

/* --- choice --- */

#if defined(__x86_64__)
/* Constant and non-stop by the processor's word, and not given up by the kernel. */
static bool counter_invariant(void)
{
	unsigned a, b, c, d;

	return __get_cpuid(0x80000000u, &a, &b, &c, &d) && a >= 0x80000007u &&
	       __get_cpuid(0x80000007u, &a, &b, &c, &d) && (d & (1u << 8));
}

static bool counter_trusted(void)
{
	static const char *const good[] = {"tsc", "kvm-clock", "hyperv_clocksource_tsc_page",
					   "xen"};
	int fd = open("/sys/devices/system/clocksource/clocksource0/current_clocksource",
		      O_RDONLY | O_CLOEXEC);
	char name[64];
	ssize_t n;

	if (fd < 0)
		return true; /* no word against it */
	n = read(fd, name, sizeof(name) - 1);
	close(fd);
	if (n <= 0)
		return true;
	name[n] = '\0';
	name[strcspn(name, "\n")] = '\0';
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
		if (strcmp(name, good[i]) == 0)
			return true;
	return false;
}
#elif defined(__aarch64__)
static bool counter_invariant(void)
{
	return true; /* the architecture's word */
}
static bool counter_trusted(void)
{
	return true;
}
#else
static bool counter_invariant(void)
{
	return false;
}
static bool counter_trusted(void)
{
	return false;
}
#endif

/* Runs forward, at between 1 MHz and 20 GHz. */
static bool counter_plausible(void)
{
	uint64_t t0 = spool_ticks(), m0 = spool_monotonic_ns(), t1, m1;

	do {
		t1 = spool_ticks();
		m1 = spool_monotonic_ns();
	} while (m1 - m0 < 2000);
	return t1 > t0 && (t1 - t0) * 1000 >= m1 - m0 && t1 - t0 <= (m1 - m0) * 20;
}

int spool_clock_choose(const char *wanted, enum spool_clock *clock)
{
	bool automatic = strcmp(wanted, "auto") == 0;
	int saved = errno;

	*clock = SPOOL_CLOCK_MONOTONIC;
	if (strcmp(wanted, "monotonic") == 0)
		return 0;
	if (!automatic && strcmp(wanted, "tsc") != 0)
		return -EINVAL;
	/* Asked for by name, it need not have the kernel's trust. */
	if (counter_invariant() && (!automatic || counter_trusted()) && counter_plausible())
		*clock = SPOOL_CLOCK_TSC;
	errno = saved;
	return automatic || *clock == SPOOL_CLOCK_TSC ? 0 : -ENOTSUP;
}

/* --- snapshots --- */

uint64_t spool_clock_read(struct spool_meta_clock *out)
{
	uint64_t best = UINT64_MAX;

	for (int i = 0; i < TRIES; i++) {
		int64_t boot = clock_ns(CLOCK_BOOTTIME);
		uint64_t t0 = spool_ticks();
		int64_t mono = clock_ns(CLOCK_MONOTONIC);
		uint64_t t1 = spool_ticks();
		int64_t real = clock_ns(CLOCK_REALTIME);
		uint64_t t2 = spool_ticks();

		/* The tightest of all: nothing came between. */
		if (best != UINT64_MAX && t2 - t0 >= best)
			continue;
		best = t2 - t0;
		out->tsc = t0 + (t1 - t0) / 2;
		out->monotonic_ns = mono;
		out->boottime_ns = boot;
		out->realtime_ns = real;
	}
	return best;
}

static void snapshot_write(struct spool_writer *w, struct spool_meta_clock *snapshot)
{
	if (w->header->clock == SPOOL_CLOCK_MONOTONIC)
		snapshot->tsc = 0;
	snapshot->reserved = 0;
	spool_meta_append(w, SPOOL_META_CLOCK, &snapshot->reserved,
			  sizeof(*snapshot) - sizeof(snapshot->head), NULL, 0);
}

/* Until the next snapshot, in the clock in use: soon after the start, so that even a short recording
 * tells the counter's rate well, then every second. */
static uint64_t interval(struct spool_writer *w)
{
	uint64_t part = 1;

	if (__atomic_load_n(&spool_clock_used, __ATOMIC_RELAXED) == SPOOL_CLOCK_MONOTONIC)
		return SPOOL_SECOND_NS;
	if (atomic_load(&w->snapshots) < 2)
		part = atomic_load(&w->snapshots) ? 10 : 100;
	return atomic_load(&w->ticks_per_second) / part;
}

void spool_clock_begin(struct spool_writer *w)
{
	struct spool_meta_clock a, b;

	spool_clock_read(&a);
	if (__atomic_load_n(&spool_clock_used, __ATOMIC_RELAXED) == SPOOL_CLOCK_TSC) {
		do
			spool_clock_read(&b);
		while (b.monotonic_ns - a.monotonic_ns < CALIBRATION_NS);
		w->last_rate = (double)(b.monotonic_ns - a.monotonic_ns) / (double)(b.tsc - a.tsc);
		atomic_store(&w->ticks_per_second, (uint64_t)(SPOOL_SECOND_NS / w->last_rate));
		w->rate_rough = true;
	}
	w->last_tsc = a.tsc;
	w->last_monotonic_ns = a.monotonic_ns;
	snapshot_write(w, &a);
	if (w->rate_rough)
		snapshot_write(w, &b);
	atomic_store(&w->snapshot_next, spool_now() + interval(w));
}

static void slot_move(struct spool_writer *w, struct spool_thread *t)
{
	uint64_t since;

	(void)w;
	if (!atomic_load(&t->tid) || !t->slot)
		return;
	since = atomic_load(&t->slot->since);
	if (atomic_load(&t->slot->call))
		atomic_compare_exchange_strong(&t->slot->since, &since,
					       spool_clock_settle(since, SPOOL_CLOCK_MONOTONIC));
	atomic_store(&t->slot->clock, SPOOL_CLOCK_MONOTONIC);
}

/* Lets go of the counter. Every thread is first made to take the slow path, where times of either clock
 * are told apart; a fast append that has read the new clock therefore finds itself stopped. */
static void clock_switch(struct spool_writer *w)
{
	atomic_store(&w->clock_switched, 1);
	spool_threads_poke(w);
	__atomic_store_n(&spool_clock_used, SPOOL_CLOCK_MONOTONIC, __ATOMIC_SEQ_CST);
	spool_threads_visit(w, slot_move);
	atomic_store(&w->snapshot_next, spool_monotonic_ns() + SPOOL_SECOND_NS);
	spool_attribute("spool.clock", "changed from TSC to MONOTONIC: they no longer agreed");
}

/* Compares the counter's rate since the last snapshot with that before. */
static void clock_compare(struct spool_writer *w, const struct spool_meta_clock *now, uint64_t took)
{
	int64_t ns = now->monotonic_ns - w->last_monotonic_ns;
	uint64_t ticks = now->tsc - w->last_tsc;
	double rate, most = w->rate_rough ? FIRST_DRIFT_MOST : DRIFT_MOST;

	if (ns < COMPARE_LEAST_NS || took > UNCERTAIN_NS / w->last_rate)
		return;
	rate = now->tsc > w->last_tsc ? (double)ns / (double)ticks : 0;
	if (rate < w->last_rate * (1 - most) || rate > w->last_rate * (1 + most)) {
		clock_switch(w);
		return;
	}
	w->last_tsc = now->tsc;
	w->last_monotonic_ns = now->monotonic_ns;
	w->last_rate = rate;
	w->rate_rough = false;
	atomic_store(&w->ticks_per_second, (uint64_t)(SPOOL_SECOND_NS / rate));
}

void spool_clock_snapshot(struct spool_writer *w, bool now)
{
	uint64_t due = atomic_load(&w->snapshot_next), time = spool_now();
	struct spool_meta_clock snapshot;
	uint32_t idle = 0;
	uint64_t took;

	if (!now && time < due)
		return;
	if (!atomic_compare_exchange_strong(&w->snapshot_next, &due, UINT64_MAX) && !now)
		return;
	atomic_fetch_add(&w->snapshots, 1);
	atomic_store(&w->snapshot_next, time + interval(w));
	took = spool_clock_read(&snapshot);
	/* Before the switch that it may call for: it is what a reader converts by. */
	snapshot_write(w, &snapshot);
	if (__atomic_load_n(&spool_clock_used, __ATOMIC_RELAXED) == SPOOL_CLOCK_TSC &&
	    atomic_compare_exchange_strong(&w->clock_claim, &idle, 1)) {
		clock_compare(w, &snapshot, took);
		atomic_store(&w->clock_claim, 0);
	}
}

uint64_t spool_clock_due(struct spool_writer *w, uint64_t now)
{
	uint64_t next = atomic_load(&w->snapshot_next);

	/* Another thread's snapshot serves all. */
	return next > now ? next : now + interval(w);
}

uint64_t spool_clock_settle(uint64_t time, uint32_t clock)
{
	struct spool_writer *w = spool_writer;
	uint64_t ticks = spool_ticks(), ns = spool_monotonic_ns();
	uint64_t from_ticks = ticks > time ? ticks - time : time - ticks;
	uint64_t from_ns = ns > time ? ns - time : time - ns;
	double rate = (double)SPOOL_SECOND_NS / (double)atomic_load(&w->ticks_per_second);

	/* The nearer of the two presents is of the time's own clock. */
	if ((double)from_ticks * rate < (double)from_ns) {
		if (clock == SPOOL_CLOCK_TSC || time > ticks)
			return clock == SPOOL_CLOCK_TSC ? time : ns;
		return ns - (uint64_t)((double)(ticks - time) * rate);
	}
	if (clock == SPOOL_CLOCK_MONOTONIC || time > ns)
		return clock == SPOOL_CLOCK_MONOTONIC ? time : ticks;
	return ticks - (uint64_t)((double)(ns - time) / rate);
}
