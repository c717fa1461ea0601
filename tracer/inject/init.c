/* SPDX-License-Identifier: Apache-2.0
 *
 * Life of the tracer in a process: a constructor that reads settings and does nothing else, the
 * beginning of a recording at the first CUDA or fabric object, the housekeeping thread, the
 * trailer. A process that never meets such an object pays for the constructor alone: no file, no
 * thread.
 */
#include "tracer/inject/attributes.h"
#include "tracer/inject/elf.h"
#include "tracer/inject/inject.h"
#include "tracer/inject/sink.h"
#include "tracer/inject/symbols.h"

#include <errno.h>
#include <execinfo.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__x86_64__)
#define PAGE_BYTES 4096
#else
#define PAGE_BYTES 65536 /* the largest page this processor's kernels use */
#endif

enum { LIFE_NONE, LIFE_BEGINNING, LIFE_RECORDING, LIFE_FAILED };

/* What a fork must forget: the kernel wipes this page in the child, also when the child came by a
 * bare clone() that runs no fork handlers. */
struct process_page {
	bool recording; /* wl_recording */
	_Atomic uint32_t life;
	uint8_t rest[PAGE_BYTES - 8];
};
struct process_page wl_process_page __attribute__((aligned(PAGE_BYTES)));
_Static_assert(sizeof(struct process_page) == PAGE_BYTES, "one page");
_Static_assert(offsetof(struct process_page, recording) == 0, "wl_recording is its first byte");

/* By name and not as an alias in C, which AddressSanitizer takes for a variable of one byte. */
__asm__(".globl wl_recording\n\t.hidden wl_recording\n\t.set wl_recording, wl_process_page");
bool wl_recorded_once;
struct wl_settings wl_settings;
__thread struct wl_depth wl_depth __attribute__((tls_model("initial-exec")));

/* What standard error was at the start: a job that closes it gives its number to something else. */
static dev_t words_device;
static ino_t words_inode;

/* Copies of what the environment said: the job may write over its environment later. */
static char directory_text[PATH_MAX + 4096], run_text[256], chain_text[4096],
	own_path[PATH_MAX + 4096], range_text[4096];

/* --- words ------------------------------------------------------------------------------------ */

static void words_start(void)
{
	struct stat st;

	if (fstat(STDERR_FILENO, &st) == 0) {
		words_device = st.st_dev;
		words_inode = st.st_ino;
	}
}

static bool words_heard(void)
{
	struct stat st;

	return words_inode && fstat(STDERR_FILENO, &st) == 0 && st.st_dev == words_device &&
	       st.st_ino == words_inode;
}

/* Never kills the job (a reader that has gone, a limit on file size) and never waits (a pipe that is
 * full): rather nothing is said. */
static void words_write(const char *line, size_t length)
{
	struct pollfd ready = {.fd = STDERR_FILENO, .events = POLLOUT};
	const struct timespec at_once = {0};
	sigset_t deadly, pending, before;

	if (!words_heard() || poll(&ready, 1, 0) != 1 || !(ready.revents & POLLOUT))
		return;
	sigemptyset(&deadly);
	sigaddset(&deadly, SIGPIPE);
	sigaddset(&deadly, SIGXFSZ);
	pthread_sigmask(SIG_BLOCK, &deadly, &before);
	sigpending(&pending);
	if (write(STDERR_FILENO, line, length) < 0 && !sigismember(&pending, SIGPIPE) &&
	    !sigismember(&pending, SIGXFSZ))
		while (sigtimedwait(&deadly, NULL, &at_once) > 0)
			;
	pthread_sigmask(SIG_SETMASK, &before, NULL);
}

__attribute__((format(printf, 1, 0))) static void say(const char *format, va_list args)
{
	int saved = errno;
	char line[1024];
	int used = snprintf(line, sizeof(line), "waylay[%d]: ", (int)getpid());
	int more = vsnprintf(line + used, sizeof(line) - (size_t)used - 1, format, args);
	size_t length = (size_t)used + (more < 0 ? 0 : (size_t)more);

	if (length > sizeof(line) - 2)
		length = sizeof(line) - 2;
	line[length++] = '\n';
	words_write(line, length);
	errno = saved;
}

void wl_debug(const char *format, ...)
{
	va_list args;

	if (!wl_settings.debug)
		return;
	va_start(args, format);
	say(format, args);
	va_end(args);
}

void wl_complain(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	say(format, args);
	va_end(args);
}

/* --- start ------------------------------------------------------------------------------------ */

static void text_copy(char *to, size_t size, const char *from)
{
	size_t length = strnlen(from, size - 1);

	memcpy(to, from, length);
	to[length] = '\0';
}

/* The job may change its folder before it meets its first object. */
static void path_absolute(char *to, size_t size, const char *path)
{
	char here[PATH_MAX];

	if (path[0] != '/' && syscall(SYS_getcwd, here, sizeof(here)) > 0 && here[0] == '/')
		snprintf(to, size, "%s/%s", here, path);
	else
		text_copy(to, size, path);
}

static void settings_start(void)
{
	char err[256];

	if (getauxval(AT_SECURE)) /* a setuid program: stay out of its way entirely */
		return;
	words_start();
	if (wl_settings_read(&wl_settings, environ, err, sizeof(err))) {
		wl_complain("%s; this process is not traced", err);
		memset(&wl_settings, 0, sizeof(wl_settings));
		return;
	}
	path_absolute(directory_text, sizeof(directory_text), wl_settings.directory);
	text_copy(run_text, sizeof(run_text), wl_settings.run);
	text_copy(chain_text, sizeof(chain_text), wl_settings.nvtx_chain);
	wl_settings.directory = directory_text;
	wl_settings.run = run_text;
	wl_settings.nvtx_chain = chain_text;
	text_copy(range_text, sizeof(range_text), wl_settings.only_range);
	wl_settings.only_range = range_text;
}

void wl_nvtx_chain_set(const char *path)
{
	text_copy(chain_text, sizeof(chain_text), path);
}

bool wl_started(void)
{
	static _Atomic uint32_t state; /* 0 not read, 1 being read, 2 read */
	uint32_t seen = atomic_load_explicit(&state, memory_order_acquire);

	if (seen == 2)
		return wl_settings.enabled;
	/* Another thread that comes while the settings are being read passes its call through. */
	if (seen == 1 || !atomic_compare_exchange_strong(&state, &seen, 1))
		return false;
	settings_start();
	/* Pairs with the acquire above: who sees 2 sees the settings. */
	atomic_store_explicit(&state, 2, memory_order_release);
	return wl_settings.enabled;
}

__attribute__((constructor)) static void constructor(void)
{
	const struct link_map *self;
	int saved = errno;

	wl_symbols_start();
	if (wl_started() && wl_settings.nvtx) {
		self = wl_map_self();
		if (self && self->l_name[0]) {
			path_absolute(own_path, sizeof(own_path), self->l_name);
			wl_nvtx_prepare(own_path);
		}
	}
	errno = saved;
}

/* --- housekeeping ----------------------------------------------------------------------------- */

static void *housekeeping(void *unused)
{
	const struct timespec pause = {.tv_nsec = 100 * 1000 * 1000};

	prctl(PR_SET_NAME, "waylay");
	for (;;) {
		spool_housekeep();
		wl_cupti_housekeep();
		wl_window_tick();
		wl_trigger_tick();
		syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, &pause, NULL);
	}
	return unused;
}

typedef int (*create_fn)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);

/* The C library's own, so that tools which count or wrap the job's threads do not see ours. Under a
 * sanitizer a thread that its runtime does not know would crash in its first call. */
static create_fn thread_create(void)
{
	void *real = NULL;

	if (!wl_symbol_find(NULL, "__tsan_init", NULL) &&
	    !wl_symbol_find(NULL, "__asan_init", NULL)) {
		real = wl_symbol_find("libc.so", "pthread_create", NULL);
		if (!real)
			real = wl_symbol_find("libpthread", "pthread_create", NULL);
	}
	return real ? (create_fn)real : pthread_create;
}

static void housekeeping_start(void)
{
	create_fn create = thread_create();
	uint64_t all = UINT64_MAX, before;
	pthread_attr_t attr;
	pthread_t thread;
	int error;

	if (!wl_settings.thread) {
		spool_attribute("housekeeping", "at chunk edges (WAYLAY_THREAD=0)");
		return;
	}
	/* The thread inherits the mask: no signal of the job's is ever delivered to it. */
	syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, &before, sizeof(all));
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	/* CUPTI's flush, which runs on it, says nowhere how much it needs. */
	pthread_attr_setstacksize(&attr, wl_settings.gpu ? 2 * 1024 * 1024 : 128 * 1024);
	error = create(&thread, &attr, housekeeping, NULL);
	if (error == EINVAL) { /* the job's thread-local data leaves no room in a small stack */
		pthread_attr_setstacksize(&attr, 8 * 1024 * 1024);
		error = create(&thread, &attr, housekeeping, NULL);
	}
	pthread_attr_destroy(&attr);
	syscall(SYS_rt_sigprocmask, SIG_SETMASK, &before, NULL, sizeof(before));
	spool_attribute("housekeeping",
			error ? "at chunk edges (no thread could be started)" : "thread");
}

/* --- recording -------------------------------------------------------------------------------- */

static bool recording_open(void)
{
	struct spool_settings settings = {
		.directory = wl_settings.directory,
		.run = wl_settings.run,
		.max_bytes = wl_settings.max_bytes,
		.keep_free_percent = 10,
		.flight_recorder = wl_settings.flight_recorder,
		.rank = -1,
		.world_size = -1,
		.local_rank = -1,
	};
	int error = spool_clock_choose(wl_settings.clock, &settings.clock);
	char why[512] = "";

	if (error) {
		wl_complain(
			"WAYLAY_CLOCK=%s: this machine has no such clock (%s); this process is not "
			"traced; try WAYLAY_CLOCK=auto",
			wl_settings.clock, strerror(-error));
		return false;
	}
	wl_ranks_read(&settings.rank, &settings.world_size, &settings.local_rank);
	/* A child keeps its parent's. */
	if (wl_settings.sink == WL_SINK_LTTNG && !wl_recorded_once)
		settings.sink = wl_sink_open(why, sizeof(why));
	if (settings.sink)
		settings.clock = SPOOL_CLOCK_MONOTONIC;
	error = spool_writer_open(&settings);
	if (error && error != -EALREADY) {
		wl_complain("%s; this process is not traced", spool_error());
		return false;
	}
	if (*why)
		wl_complain("WAYLAY_SINK=lttng: %s; recording to %s instead", why,
			    spool_writer_path());
	if (spool_note()[0] && !wl_recorded_once)
		wl_complain("%s: recording to %s instead; set WAYLAY_DIR to choose another place",
			    spool_note(), spool_writer_path());
	return true;
}

static void recording_start(const char *why)
{
	wl_attributes_write(why);
	wl_stack_start();
	wl_nvtx_begin();
	atomic_store(&wl_process_page.life, LIFE_RECORDING);
	wl_recorded_once = true;
	wl_window_begin();
	wl_recording_apply();
	housekeeping_start();
	wl_debug("recording to %s (first object: %s)", spool_writer_path(), why);
}

void wl_recording_begin(const char *why)
{
	uint32_t none = LIFE_NONE;
	int saved = errno, cancel;

	if (wl_recording || !wl_started() ||
	    !atomic_compare_exchange_strong(&wl_process_page.life, &none, LIFE_BEGINNING))
		return;
	/* A thread that is to be cancelled is not cancelled here, where the job does not expect it. */
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	madvise(&wl_process_page, sizeof(wl_process_page), MADV_WIPEONFORK);
	if (recording_open())
		recording_start(why);
	else
		atomic_store(&wl_process_page.life, LIFE_FAILED);
	pthread_setcancelstate(cancel, &cancel);
	errno = saved;
}

void wl_recording_apply(void)
{
	uint32_t off;

	/* Again if another thread changed it meanwhile: the last word counts. */
	do {
		off = atomic_load(&wl_off);
		if (atomic_load(&wl_process_page.life) != LIFE_RECORDING)
			return;
		/* Without a thread of ours only threads that record can be told to go on: they stop at
		 * the writer's door instead of ours. */
		if (wl_settings.thread) {
			wl_recording = off == 0;
		} else {
			wl_recording = true;
			spool_writer_record(off == 0);
		}
	} while (off != atomic_load(&wl_off));
}

bool wl_recording_again(void)
{
	/* In the process that began, false means that no recording could be opened. */
	if (atomic_load_explicit(&wl_process_page.life, memory_order_relaxed) == LIFE_NONE)
		wl_recording_begin("fork");
	return wl_recording;
}

__attribute__((destructor)) static void destructor(void)
{
	int saved = errno;

	/* In a forked child that recorded nothing the open spool is its parent's. */
	if (atomic_load(&wl_process_page.life) == LIFE_RECORDING)
		spool_writer_end();
	errno = saved;
}
