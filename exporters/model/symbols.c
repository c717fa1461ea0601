/* SPDX-License-Identifier: Apache-2.0
 *
 * Addresses to functions and lines, asked of a helper process: debug information is the job's files,
 * read by a big library, and neither may bring the exporter down or bloat it. Answers are kept by
 * module (path and build-id) and address. A module at which the helper dies or hangs is not asked
 * about again.
 */
#include "exporters/model/internal.h"
#include "exporters/model/symbols.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define RESTARTS_MAX 16
#define WAIT_MS      60000 /* big libraries take seconds to index */
#define NAME_MAX_LEN 4096

struct answer {
	uint64_t offset;
	uint32_t module;       /* number of its identity among texts; 0 free */
	uint32_t first, count; /* in model_symbols.symbols */
};

struct model_symbols {
	pid_t pid; /* 0: none running */
	int socket;
	unsigned restarts;
	struct answer *answers;
	uint32_t answer_count, answer_mask;
	struct model_symbol *symbols;
	uint32_t symbol_count, symbol_capacity;
	uint32_t *bad; /* identities of modules that killed the helper */
	uint32_t bad_count;
};

static struct model_symbols *symbols_new(void)
{
	struct model_symbols *symbols = calloc(1, sizeof(*symbols));

	if (!symbols)
		return NULL;
	symbols->answer_mask = 1023;
	symbols->answers = calloc(symbols->answer_mask + 1u, sizeof(*symbols->answers));
	symbols->bad = calloc(RESTARTS_MAX + 1, sizeof(*symbols->bad));
	if (!symbols->answers || !symbols->bad) {
		model_symbols_free(symbols);
		return NULL;
	}
	return symbols;
}

/* --- the helper --------------------------------------------------------------------------------- */

static void helper_stop(struct model_symbols *symbols, bool kill_it)
{
	if (!symbols->pid)
		return;
	close(symbols->socket);
	if (kill_it)
		kill(symbols->pid, SIGKILL);
	while (waitpid(symbols->pid, NULL, 0) < 0 && errno == EINTR)
		;
	symbols->pid = 0;
}

static int helper_start(struct model_symbols *symbols)
{
	int pair[2];
	pid_t pid;

	if (symbols->restarts > RESTARTS_MAX)
		return -EPERM;
	symbols->restarts++;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair))
		return -errno;
	pid = fork();
	if (pid < 0) {
		int error = -errno;

		close(pair[0]);
		close(pair[1]);
		return error;
	}
	if (!pid) {
		struct rlimit none = {0, 0};

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		setrlimit(RLIMIT_CORE, &none);
		signal(SIGINT, SIG_IGN); /* ^C is the exporter's to handle; it ends us by closing */
		/* Nothing else of the parent's: another model's socket, kept open here, would keep
		 * that one's helper from ending. */
		if (dup2(pair[1], 3) == 3)
			close_range(4, ~0u, 0);
		symbol_helper_run(3, 3);
		_exit(0);
	}
	close(pair[1]);
	symbols->pid = pid;
	symbols->socket = pair[0];
	return 0;
}

static int send_all(int to, const void *data, size_t bytes)
{
	const char *at = data;

	while (bytes) {
		ssize_t sent = send(to, at, bytes, MSG_NOSIGNAL);

		if (sent < 0 && errno == EINTR)
			continue;
		if (sent <= 0)
			return -EPIPE;
		at += sent;
		bytes -= (size_t)sent;
	}
	return 0;
}

static int receive_all(int from, void *data, size_t bytes)
{
	char *at = data;

	while (bytes) {
		struct pollfd ready = {.fd = from, .events = POLLIN};
		int polled = poll(&ready, 1, WAIT_MS);
		ssize_t got;

		if (polled < 0 && errno == EINTR)
			continue;
		if (polled <= 0)
			return -ETIMEDOUT;
		got = recv(from, at, bytes, 0);
		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			return -EPIPE;
		at += got;
		bytes -= (size_t)got;
	}
	return 0;
}

static int ask(const struct model_symbols *symbols, const struct trace_frame *frame)
{
	struct symbol_request request = {.offset = frame->offset,
					 .build_id_bytes = frame->build_id_bytes,
					 .path_bytes = (uint32_t)strlen(frame->file)};
	int error;

	if (request.path_bytes > NAME_MAX_LEN)
		return -ENAMETOOLONG;
	memcpy(request.build_id, frame->build_id, sizeof(request.build_id));
	error = send_all(symbols->socket, &request, sizeof(request));
	return error ? error : send_all(symbols->socket, frame->file, request.path_bytes);
}

static const char *hear_text(struct model *model, uint32_t bytes, int *error)
{
	char text[SYMBOL_TEXT_MAX + 1];

	if (!bytes)
		return NULL;
	if (bytes > SYMBOL_TEXT_MAX)
		*error = -EPROTO;
	else
		*error = receive_all(model->symbols->socket, text, bytes);
	if (*error)
		return NULL;
	return text_pool_get(model->texts, text_pool_add(model->texts, text, bytes));
}

/* Reads one answer into the list of symbols; how many, or -errno. */
static int hear(struct model *model)
{
	struct model_symbols *symbols = model->symbols;
	struct symbol_answer head;
	int error = receive_all(symbols->socket, &head, sizeof(head));

	if (error || head.count > SYMBOL_COUNT_MAX)
		return error ? error : -EPROTO;
	if (symbols->symbol_count + head.count > symbols->symbol_capacity) {
		uint32_t capacity = symbols->symbol_capacity * 2 + 256;
		struct model_symbol *more = realloc(symbols->symbols, capacity * sizeof(*more));

		if (!more)
			return -ENOMEM;
		symbols->symbols = more;
		symbols->symbol_capacity = capacity;
	}
	for (uint32_t i = 0; i < head.count; i++) {
		struct symbol_line line;
		struct model_symbol symbol = {0};

		error = receive_all(symbols->socket, &line, sizeof(line));
		if (!error)
			symbol.function = hear_text(model, line.function_bytes, &error);
		if (!error)
			symbol.file = hear_text(model, line.file_bytes, &error);
		if (error)
			return error;
		symbol.line = line.line;
		symbols->symbols[symbols->symbol_count + i] = symbol;
	}
	symbols->symbol_count += head.count;
	return (int)head.count;
}

/* --- kept answers ------------------------------------------------------------------------------- */

static uint32_t answer_slot(const struct model_symbols *symbols, uint32_t module, uint64_t offset)
{
	uint32_t slot = (uint32_t)text_mix(offset + text_mix(module)) & symbols->answer_mask;

	while (symbols->answers[slot].module &&
	       (symbols->answers[slot].module != module || symbols->answers[slot].offset != offset))
		slot = (slot + 1) & symbols->answer_mask;
	return slot;
}

static int answers_grow(struct model_symbols *symbols)
{
	struct answer *old = symbols->answers;
	uint32_t old_mask = symbols->answer_mask;

	symbols->answers = calloc((size_t)old_mask * 2 + 2, sizeof(*old));
	if (!symbols->answers) {
		symbols->answers = old;
		return -ENOMEM;
	}
	symbols->answer_mask = old_mask * 2 + 1;
	for (uint32_t i = 0; i <= old_mask; i++) {
		if (old[i].module)
			symbols->answers[answer_slot(symbols, old[i].module, old[i].offset)] =
				old[i];
	}
	free(old);
	return 0;
}

/* Path and build-id as one text's number. */
static uint32_t identity_of(struct model *model, const struct trace_frame *frame)
{
	char identity[NAME_MAX_LEN + 64];
	size_t length = strnlen(frame->file, NAME_MAX_LEN);

	memcpy(identity, frame->file, length);
	identity[length] = 0;
	memcpy(identity + length + 1, frame->build_id, sizeof(frame->build_id));
	return text_pool_add(model->texts, identity, length + 1 + frame->build_id_bytes);
}

static bool is_bad(const struct model_symbols *symbols, uint32_t module)
{
	for (uint32_t i = 0; i < symbols->bad_count; i++) {
		if (symbols->bad[i] == module)
			return true;
	}
	return false;
}

/* Asks the helper; 0 symbols when it fails at this module. */
static int ask_helper(struct model *model, const struct trace_frame *frame, uint32_t module)
{
	struct model_symbols *symbols = model->symbols;
	int count;

	if (is_bad(symbols, module) || (!symbols->pid && helper_start(symbols)))
		return 0;
	count = ask(symbols, frame);
	if (!count)
		count = hear(model);
	if (count >= 0)
		return count;
	helper_stop(symbols, true);
	if (symbols->bad_count <= RESTARTS_MAX)
		symbols->bad[symbols->bad_count++] = module;
	model_add_note(model, "%s: reading its symbols failed (%s): its frames stay unnamed",
		       frame->file, strerror(-count));
	return 0;
}

unsigned model_symbols_find(struct model *model, const struct trace_frame *frame,
			    struct model_symbol *found, unsigned max)
{
	struct model_symbols *symbols = model->symbols;
	uint32_t module = identity_of(model, frame), slot;

	if (!symbols)
		symbols = model->symbols = symbols_new();
	if (!symbols || !module)
		return 0;
	if (symbols->answer_count > symbols->answer_mask / 2 && answers_grow(symbols))
		return 0;
	slot = answer_slot(symbols, module, frame->offset);
	if (!symbols->answers[slot].module) {
		uint32_t first = symbols->symbol_count;
		int count = ask_helper(model, frame, module);

		symbols->answers[slot] =
			(struct answer){frame->offset, module, first, (uint32_t)count};
		symbols->answer_count++;
	}
	const struct answer *answer = &symbols->answers[slot];
	unsigned count = answer->count < max ? answer->count : max;

	if (count)
		memcpy(found, symbols->symbols + answer->first, count * sizeof(*found));
	return count;
}

const char *model_plain_name(struct model *model, const char *name)
{
	struct trace_frame frame = {.file = name, .offset = SYMBOL_OF_NAME};
	struct model_symbol plain;

	if (strlen(name) >= SYMBOL_TEXT_MAX || !model_symbols_find(model, &frame, &plain, 1) ||
	    !plain.function)
		return name;
	return plain.function;
}

void model_symbols_free(struct model_symbols *symbols)
{
	if (!symbols)
		return;
	helper_stop(symbols, false);
	free(symbols->answers);
	free(symbols->symbols);
	free(symbols->bad);
	free(symbols);
}
