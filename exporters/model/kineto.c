/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading Kineto's Chrome traces, plain or gzipped: one pass over the text, of which GPU rows and the
 * calls with a correlation are kept.
 */
#include "exporters/model/kineto.h"

#include "exporters/model/number_map.h"
#include "exporters/model/text.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#define NAME_MAX_BYTES 4096
#define DEPTH_MAX      64
#define TIME_MOST_NS   (INT64_MAX / 4) /* the year 2043: of these three can be added */

struct kineto_call {
	int64_t tid, begin_ns, end_ns;
	uint32_t correlation;
};

struct kineto {
	struct text_pool *texts;
	struct kineto_row *rows;
	struct kineto_call *calls; /* by thread and begin */
	unsigned row_count, row_capacity, call_count, call_capacity;
	int64_t base_ns, pid; /* pid: 0 unknown */
	int rank;             /* -1 unknown */
	int process;
};

/* --- text --------------------------------------------------------------------------------------- */

struct scanner {
	gzFile file;
	unsigned char buffer[1 << 16];
	int used, filled;
	uint64_t at;
	bool failed;
};

static int peek(struct scanner *scanner)
{
	if (scanner->used == scanner->filled) {
		scanner->filled = gzread(scanner->file, scanner->buffer, sizeof(scanner->buffer));
		scanner->used = 0;
		if (scanner->filled <= 0) {
			scanner->filled = 0;
			return -1;
		}
	}
	return scanner->buffer[scanner->used];
}

static int take(struct scanner *scanner)
{
	int byte = peek(scanner);

	if (byte >= 0) {
		scanner->used++;
		scanner->at++;
	}
	return byte;
}

static int next_token(struct scanner *scanner)
{
	while (peek(scanner) >= 0 && isspace(peek(scanner)))
		take(scanner);
	return peek(scanner);
}

static bool expect(struct scanner *scanner, int byte)
{
	if (next_token(scanner) != byte)
		scanner->failed = true;
	else
		take(scanner);
	return !scanner->failed;
}

/* The four digits after a \\u; -1 if they are not. */
static int scan_hex4(struct scanner *scanner)
{
	int value = 0;

	for (int i = 0; i < 4; i++) {
		int digit = isxdigit(peek(scanner)) ? take(scanner) : -1;

		if (digit < 0)
			return -1;
		value = value * 16 + (digit <= '9' ? digit - '0' : (digit | 0x20) - 'a' + 10);
	}
	return value;
}

static size_t put_utf8(char *to, uint32_t code)
{
	if (code < 0x80) {
		to[0] = (char)code;
		return 1;
	}
	if (code < 0x800) {
		to[0] = (char)(0xc0 | code >> 6);
		to[1] = (char)(0x80 | (code & 0x3f));
		return 2;
	}
	if (code < 0x10000) {
		to[0] = (char)(0xe0 | code >> 12);
		to[1] = (char)(0x80 | (code >> 6 & 0x3f));
		to[2] = (char)(0x80 | (code & 0x3f));
		return 3;
	}
	to[0] = (char)(0xf0 | code >> 18);
	to[1] = (char)(0x80 | (code >> 12 & 0x3f));
	to[2] = (char)(0x80 | (code >> 6 & 0x3f));
	to[3] = (char)(0x80 | (code & 0x3f));
	return 4;
}

/* What stands after a backslash, as bytes. Half a surrogate pair is left out. */
static size_t scan_escape(struct scanner *scanner, char to[4])
{
	static const char letters[] = "bfnrt", meant[] = "\b\f\n\r\t";
	int byte = take(scanner), code, low;
	const char *letter = byte > 0 ? strchr(letters, byte) : NULL;

	if (byte != 'u') {
		to[0] = letter ? meant[letter - letters] : (char)byte;
		scanner->failed |= byte < 0;
		return byte >= 0;
	}
	code = scan_hex4(scanner);
	if (code >= 0xd800 && code < 0xdc00 && peek(scanner) == '\\') {
		take(scanner);
		if (take(scanner) != 'u')
			code = -1;
		low = code < 0 ? -1 : scan_hex4(scanner);
		if (low < 0)
			code = -1;
		else if (low < 0xdc00 || low >= 0xe000)
			return put_utf8(to, (uint32_t)low);
		else
			return put_utf8(to, 0x10000 + ((uint32_t)(code & 0x3ff) << 10) +
						    (uint32_t)(low & 0x3ff));
	}
	scanner->failed |= code < 0;
	return code > 0 && (code < 0xd800 || code >= 0xe000) ? put_utf8(to, (uint32_t)code) : 0;
}

/* A text in quotes, cut to size between characters. */
static void scan_text(struct scanner *scanner, char *to, size_t size)
{
	size_t used = 0, bytes;
	char escaped[4];
	bool full = false;
	int byte;

	if (!expect(scanner, '"'))
		return;
	while (!scanner->failed && (byte = take(scanner)) != '"') {
		escaped[0] = (char)byte;
		bytes = 1;
		if (byte < 0)
			scanner->failed = true;
		else if (byte == '\\')
			bytes = scan_escape(scanner, escaped);
		full |= used + bytes >= size;
		if (!full) {
			memcpy(to + used, escaped, bytes);
			used += bytes;
		}
	}
	to[used] = 0;
}

/* Whatever a value is: of numbers, words and texts the text is kept. */
static void scan_scalar(struct scanner *scanner, char *to, size_t size)
{
	size_t used = 0;

	if (next_token(scanner) == '"') {
		scan_text(scanner, to, size);
		return;
	}
	while (peek(scanner) > ' ' && !strchr(",]}", peek(scanner))) {
		int byte = take(scanner);

		if (used + 1 < size)
			to[used++] = (char)byte;
	}
	to[used] = 0;
	scanner->failed |= !used;
}

static void skip_value(struct scanner *scanner, unsigned depth)
{
	int open = next_token(scanner);
	char unused[8];

	if (open != '{' && open != '[') {
		scan_scalar(scanner, unused, sizeof(unused));
		return;
	}
	take(scanner);
	if (depth > DEPTH_MAX)
		scanner->failed = true;
	while (!scanner->failed && next_token(scanner) != (open == '{' ? '}' : ']')) {
		if (open == '{') {
			scan_text(scanner, unused, sizeof(unused));
			expect(scanner, ':');
		}
		skip_value(scanner, depth + 1);
		if (next_token(scanner) == ',')
			take(scanner);
	}
	take(scanner);
}

/* A file may say any time; one that no run can have had is as good as the most. */
static int64_t bounded(int64_t ns)
{
	return ns > TIME_MOST_NS ? TIME_MOST_NS : ns < -TIME_MOST_NS ? -TIME_MOST_NS : ns;
}

/* Microseconds with any number of decimals, as nanoseconds. */
static int64_t parse_us(const char *text)
{
	bool minus = *text == '-';
	int64_t ns = 0;
	int decimals = -1;

	for (text += minus; isdigit((unsigned char)*text) || (*text == '.' && decimals < 0);
	     text++) {
		if (*text == '.') {
			decimals = 0;
		} else if (decimals < 3 && ns < INT64_MAX / 10 - 1) {
			ns = ns * 10 + (*text - '0');
			decimals += decimals >= 0;
		}
	}
	for (decimals = decimals < 0 ? 0 : decimals; decimals < 3 && ns < INT64_MAX / 10;
	     decimals++)
		ns *= 10;
	return bounded(minus ? -ns : ns);
}

/* --- events ------------------------------------------------------------------------------------- */

struct event {
	char phase[4], category[32], name[NAME_MAX_BYTES];
	int64_t ts_ns, dur_ns, pid, tid;
	struct kineto_row row;
	bool correlated;
};

static void scan_triple(struct scanner *scanner, uint32_t values[3])
{
	char text[32];

	if (next_token(scanner) != '[') {
		skip_value(scanner, 0);
		return;
	}
	take(scanner);
	for (unsigned i = 0; !scanner->failed && next_token(scanner) != ']'; i++) {
		scan_scalar(scanner, text, sizeof(text));
		if (i < 3)
			values[i] = (uint32_t)strtoul(text, NULL, 10);
		if (next_token(scanner) == ',')
			take(scanner);
	}
	take(scanner);
}

static void scan_arg(struct scanner *scanner, struct event *event, const char *key)
{
	struct {
		const char *key;
		uint32_t *to;
	} numbers[] = {{"device", &event->row.device},
		       {"context", &event->row.context},
		       {"stream", &event->row.stream},
		       {"correlation", &event->row.correlation}};
	char text[64];

	if (!strcmp(key, "grid") || !strcmp(key, "block")) {
		scan_triple(scanner, *key == 'g' ? event->row.grid : event->row.block);
		return;
	}
	if (next_token(scanner) == '{' || next_token(scanner) == '[') {
		skip_value(scanner, 0);
		return;
	}
	scan_scalar(scanner, text, sizeof(text));
	for (unsigned i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
		if (strcmp(key, numbers[i].key) != 0)
			continue;
		*numbers[i].to = (uint32_t)strtoul(text, NULL, 10);
		event->correlated |= i == 3;
	}
	if (!strcmp(key, "bytes"))
		event->row.bytes = strtoull(text, NULL, 10);
}

static void scan_member(struct scanner *scanner, struct event *event, const char *key)
{
	char text[64];

	if (!strcmp(key, "name")) {
		scan_scalar(scanner, event->name, sizeof(event->name));
	} else if (!strcmp(key, "cat")) {
		scan_scalar(scanner, event->category, sizeof(event->category));
	} else if (!strcmp(key, "ph")) {
		scan_scalar(scanner, event->phase, sizeof(event->phase));
	} else if (!strcmp(key, "args") && next_token(scanner) == '{') {
		take(scanner);
		while (!scanner->failed && next_token(scanner) != '}') {
			scan_text(scanner, text, sizeof(text));
			if (expect(scanner, ':'))
				scan_arg(scanner, event, text);
			if (next_token(scanner) == ',')
				take(scanner);
		}
		take(scanner);
	} else if (next_token(scanner) == '{' || next_token(scanner) == '[') {
		skip_value(scanner, 0);
	} else {
		scan_scalar(scanner, text, sizeof(text));
		if (!strcmp(key, "ts"))
			event->ts_ns = parse_us(text);
		else if (!strcmp(key, "dur"))
			event->dur_ns = parse_us(text);
		else if (!strcmp(key, "pid"))
			event->pid = strtoll(text, NULL, 10);
		else if (!strcmp(key, "tid"))
			event->tid = strtoll(text, NULL, 10);
	}
}

static void *room_for_one(void *list, unsigned count, unsigned *capacity, size_t each)
{
	if (count < *capacity)
		return list;
	*capacity = *capacity ? *capacity * 2 : 1024;
	return realloc(list, *capacity * each);
}

/* Categories as they are called today; some had other names up to PyTorch 1.10. */
static const struct {
	const char *category, *before;
	enum { OF_GPU, OF_CALL, OF_PROCESS } what;
} categories[] = {
	{"kernel", "Kernel", OF_GPU},        {"gpu_memcpy", "Memcpy", OF_GPU},
	{"gpu_memset", "Memset", OF_GPU},    {"cuda_runtime", "Runtime", OF_CALL},
	{"cuda_driver", "", OF_CALL},        {"cpu_op", "Operator", OF_PROCESS},
	{"user_annotation", "", OF_PROCESS}, {"python_function", "", OF_PROCESS},
};
#define CATEGORY_COUNT (sizeof(categories) / sizeof(categories[0]))

static int keep(struct kineto *kineto, const struct event *event)
{
	unsigned which = 0;
	bool gpu, call;

	while (which < CATEGORY_COUNT && strcmp(event->category, categories[which].category) != 0 &&
	       strcmp(event->category, categories[which].before) != 0)
		which++;
	if (which == CATEGORY_COUNT || !*event->category)
		return 0;
	gpu = categories[which].what == OF_GPU;
	call = categories[which].what == OF_CALL;
	/* Rows of GPUs stand under the number of the GPU. */
	if (!gpu && !kineto->pid && event->pid > 0)
		kineto->pid = event->pid;
	if (strcmp(event->phase, "X") != 0 || !(gpu || (call && event->correlated)))
		return 0;
	if (call) {
		struct kineto_call *more = room_for_one(kineto->calls, kineto->call_count,
							&kineto->call_capacity, sizeof(*more));

		if (!more)
			return -ENOMEM;
		kineto->calls = more;
		more[kineto->call_count++] = (struct kineto_call){
			event->tid, event->ts_ns, bounded(event->ts_ns + event->dur_ns),
			event->row.correlation};
		return 0;
	}

	struct kineto_row *more =
		room_for_one(kineto->rows, kineto->row_count, &kineto->row_capacity, sizeof(*more));

	if (!more)
		return -ENOMEM;
	kineto->rows = more;
	more += kineto->row_count++;
	*more = event->row;
	more->begin_ns = event->ts_ns;
	more->end_ns = bounded(event->ts_ns + (event->dur_ns > 0 ? event->dur_ns : 0));
	more->category = categories[which].category;
	more->name = text_keep(kineto->texts, *event->name ? event->name : more->category);
	return 0;
}

static int scan_events(struct scanner *scanner, struct kineto *kineto, struct event *event)
{
	char key[64];
	int error = 0;

	expect(scanner, '[');
	while (!scanner->failed && !error && next_token(scanner) == '{') {
		memset(event, 0, offsetof(struct event, name) + 1);
		memset(&event->ts_ns, 0, sizeof(*event) - offsetof(struct event, ts_ns));
		take(scanner);
		while (!scanner->failed && next_token(scanner) != '}') {
			scan_text(scanner, key, sizeof(key));
			if (expect(scanner, ':'))
				scan_member(scanner, event, key);
			if (next_token(scanner) == ',')
				take(scanner);
		}
		take(scanner);
		if (!scanner->failed)
			error = keep(kineto, event);
		if (next_token(scanner) == ',')
			take(scanner);
	}
	expect(scanner, ']');
	return error;
}

/* "distributedInfo": {"backend": "nccl", "rank": 3, ...} */
static void scan_distributed(struct scanner *scanner, struct kineto *kineto)
{
	char key[64], text[64];

	if (next_token(scanner) != '{') {
		skip_value(scanner, 0);
		return;
	}
	take(scanner);
	while (!scanner->failed && next_token(scanner) != '}') {
		scan_text(scanner, key, sizeof(key));
		expect(scanner, ':');
		if (!strcmp(key, "rank") && next_token(scanner) != '{' &&
		    next_token(scanner) != '[') {
			scan_scalar(scanner, text, sizeof(text));
			kineto->rank = (int)strtol(text, NULL, 10);
		} else if (!scanner->failed) {
			skip_value(scanner, 0);
		}
		if (next_token(scanner) == ',')
			take(scanner);
	}
	take(scanner);
}

static int scan_file(struct scanner *scanner, struct kineto *kineto)
{
	struct event *event = calloc(1, sizeof(*event));
	bool events = false;
	char key[64], text[64];
	int error = event ? 0 : -ENOMEM;

	if (!error)
		expect(scanner, '{');
	while (!error && !scanner->failed && next_token(scanner) != '}') {
		scan_text(scanner, key, sizeof(key));
		if (!expect(scanner, ':'))
			break;
		if (!strcmp(key, "traceEvents")) {
			error = scan_events(scanner, kineto, event);
			events = true;
		} else if (!strcmp(key, "baseTimeNanoseconds")) {
			scan_scalar(scanner, text, sizeof(text));
			kineto->base_ns = strtoll(text, NULL, 10);
		} else if (!strcmp(key, "distributedInfo")) {
			scan_distributed(scanner, kineto);
		} else {
			skip_value(scanner, 0);
		}
		if (next_token(scanner) == ',')
			take(scanner);
	}
	free(event);
	return error ? error : scanner->failed || !events ? -EINVAL : 0;
}

/* --- the whole ---------------------------------------------------------------------------------- */

static int compare_calls(const void *left, const void *right)
{
	const struct kineto_call *a = left, *b = right;

	if (a->tid != b->tid)
		return a->tid < b->tid ? -1 : 1;
	return a->begin_ns < b->begin_ns ? -1 : a->begin_ns > b->begin_ns;
}

static void widen(int64_t span[2], int64_t begin_ns, int64_t end_ns)
{
	span[0] = begin_ns < span[0] ? begin_ns : span[0];
	span[1] = end_ns > span[1] ? end_ns : span[1];
}

/* How long both lasted at once, at least 1 where they touch; 0 if they do not. */
static int64_t overlap(const int64_t span[2], const struct model_process *process)
{
	int64_t whole[2] = {INT64_MAX, INT64_MIN};

	for (unsigned i = 0; i < process->thread_count; i++) {
		const struct trace_thread *thread = &process->threads[i].info;

		if (thread->last_ns)
			widen(whole, model_time(process, thread->first_ns),
			      model_time(process, thread->last_ns));
	}
	whole[0] = whole[0] > span[0] ? whole[0] : span[0];
	whole[1] = whole[1] < span[1] ? whole[1] : span[1];
	return whole[1] < whole[0] ? 0 : whole[1] - whole[0] + 1;
}

/* Numbers of processes are given again, on other hosts and after a while: it is the one that ran then, of the
 * file's rank if that is known. */
static int find_process(const struct kineto *kineto, const struct model *model,
			const int64_t span[2])
{
	int64_t most = 0;
	int found = -1;

	for (unsigned i = 0; i < model_process_count(model); i++) {
		const struct model_process *process = model_process(model, i);
		int64_t together = overlap(span, process);

		if (!together || (kineto->pid && process->info.pid != kineto->pid))
			continue;
		if (kineto->rank >= 0 && process->info.rank == kineto->rank)
			together = INT64_MAX;
		if (together > most) {
			most = together;
			found = (int)i;
		}
	}
	return found;
}

/* From the file's clock (REALTIME) to the model's. -ESRCH with nothing in the recording to lay it beside. */
static int place(struct kineto *kineto, const struct model *model)
{
	struct trace_clock reference = model_reference(model);
	int64_t shift = bounded(bounded(kineto->base_ns) - bounded(reference.realtime_ns) +
				bounded(reference.boottime_ns));
	int64_t span[2] = {INT64_MAX, INT64_MIN};

	for (unsigned i = 0; i < kineto->row_count; i++) {
		kineto->rows[i].begin_ns += shift;
		kineto->rows[i].end_ns += shift;
		widen(span, kineto->rows[i].begin_ns, kineto->rows[i].end_ns);
	}
	for (unsigned i = 0; i < kineto->call_count; i++) {
		kineto->calls[i].begin_ns += shift;
		kineto->calls[i].end_ns += shift;
		widen(span, kineto->calls[i].begin_ns, kineto->calls[i].end_ns);
	}
	if (kineto->call_count)
		qsort(kineto->calls, kineto->call_count, sizeof(*kineto->calls), compare_calls);
	kineto->process = find_process(kineto, model, span);
	return kineto->process < 0 ? -ESRCH : 0;
}

static void say_why(const struct kineto *kineto, const struct scanner *scanner, const char *path,
		    int error, char *err, size_t err_size)
{
	if (error == -EINVAL)
		(void)snprintf(err, err_size,
			       "%s: no trace of torch.profiler: not understood at byte %llu; give "
			       "what export_chrome_trace() wrote",
			       path, (unsigned long long)scanner->at);
	else if (error == -ENODATA)
		(void)snprintf(err, err_size,
			       "%s: holds nothing that a GPU did: profile with "
			       "ProfilerActivity.CUDA",
			       path);
	else if (error == -ESRCH)
		(void)snprintf(err, err_size,
			       "%s: of process %lld, which the recording does not hold at that "
			       "time: give the trace of the same run",
			       path, (long long)kineto->pid);
	else
		(void)snprintf(err, err_size, "reading %s: %s", path, strerror(-error));
}

struct kineto *kineto_open(const struct model *model, const char *path, int *error, char *err,
			   size_t err_size)
{
	struct kineto *kineto = calloc(1, sizeof(*kineto));
	struct scanner *scanner = calloc(1, sizeof(*scanner));

	*error = kineto && scanner ? 0 : -ENOMEM;
	if (!*error) {
		kineto->rank = -1;
		kineto->texts = text_pool_new();
		errno = 0;
		scanner->file = gzopen(path, "rb");
		*error = !kineto->texts ? -ENOMEM : scanner->file ? 0 : errno ? -errno : -ENOMEM;
	}
	if (!*error)
		*error = scan_file(scanner, kineto);
	if (!*error)
		*error = kineto->row_count ? place(kineto, model) : -ENODATA;
	if (*error)
		say_why(kineto, scanner, path, *error, err, err_size);
	if (scanner && scanner->file)
		gzclose(scanner->file);
	free(scanner);
	if (!*error)
		return kineto;
	kineto_close(kineto);
	return NULL;
}

void kineto_close(struct kineto *kineto)
{
	if (!kineto)
		return;
	if (kineto->texts)
		text_pool_free(kineto->texts);
	free(kineto->rows);
	free(kineto->calls);
	free(kineto);
}

unsigned kineto_row_count(const struct kineto *kineto)
{
	return kineto->row_count;
}

const struct kineto_row *kineto_row(const struct kineto *kineto, unsigned index)
{
	return &kineto->rows[index];
}

unsigned kineto_process(const struct kineto *kineto)
{
	return (unsigned)kineto->process;
}

static int64_t least(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

static int64_t most(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

uint32_t kineto_correlation(const struct kineto *kineto, int64_t tid, int64_t begin_ns,
			    int64_t end_ns)
{
	unsigned low = 0, high = kineto->call_count;
	int64_t longest = -1;
	uint32_t found = 0;

	/* The last call of the thread that began by then. */
	while (low < high) {
		unsigned middle = low + (high - low) / 2;
		const struct kineto_call *call = &kineto->calls[middle];

		if (call->tid < tid || (call->tid == tid && call->begin_ns <= begin_ns))
			low = middle + 1;
		else
			high = middle;
	}
	/* A runtime call is around ours, a driver's is seen by CUPTI inside the driver and so inside ours; the
	 * clocks differ by little, but calls follow each other closely: the one that shares most time with ours
	 * (and no less than half of the shorter), of those around it the innermost. */
	for (unsigned i = low < kineto->call_count ? low + 1 : low, tried = 0;
	     i-- > 0 && tried < 17; tried++) {
		const struct kineto_call *call = &kineto->calls[i];
		int64_t shared = least(call->end_ns, end_ns) - most(call->begin_ns, begin_ns);

		if (call->tid != tid && i < low)
			break;
		if (call->tid == tid && shared > longest &&
		    2 * shared >= least(call->end_ns - call->begin_ns, end_ns - begin_ns)) {
			longest = shared;
			found = call->correlation;
		}
	}
	return found;
}
