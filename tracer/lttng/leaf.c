/* SPDX-License-Identifier: Apache-2.0
 *
 * Trace folders, and what a killed daemon leaves of them: streams that end within a packet, metadata that
 * ends within a declaration. The reader of CTF refuses a whole trace for either.
 */
#include "tracer/lttng/leaf.h"

#include "tracer/lttng/ctf.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define DEPTH_MAX      8
#define LEAVES_MAX     100000
#define METADATA_MAX   (64u << 20)
#define METADATA_MAGIC 0x75d11d57u
#define STREAM_MAGIC   0xc1fc1fc1u
/* LTTng's packet of metadata: magic, uuid, checksum, content and packet size in bits, five bytes. */
#define METADATA_HEADER  37
#define METADATA_CONTENT 24
#define METADATA_PACKET  28
/* LTTng's packet of events, as far as its sizes (bits). */
#define STREAM_HEADER  64
#define STREAM_CONTENT 48
#define STREAM_PACKET  56

/* --- finding ---------------------------------------------------------------------------------- */

static int leaf_add(struct leaves *l, const char *path)
{
	if (l->count == l->capacity) {
		unsigned capacity = l->capacity ? l->capacity * 2 : 16;
		char **paths = realloc((void *)l->paths, capacity * sizeof(*paths));

		if (!paths)
			return -ENOMEM;
		l->paths = paths;
		l->capacity = capacity;
	}
	l->paths[l->count] = strdup(path);
	return l->paths[l->count++] ? 0 : -ENOMEM;
}

static bool is_file(const char *folder, const char *name)
{
	char path[PATH_MAX];
	struct stat st;

	return (size_t)snprintf(path, sizeof(path), "%s/%s", folder, name) < sizeof(path) &&
	       lstat(path, &st) == 0 && S_ISREG(st.st_mode);
}

static int find(struct leaves *l, const char *path, int depth)
{
	struct dirent **entries;
	int count, rc = 0;

	if (is_file(path, "metadata"))
		return leaf_add(l, path);
	if (depth == DEPTH_MAX || l->count >= LEAVES_MAX)
		return 0;
	count = scandir(path, &entries, NULL, alphasort);
	if (count < 0)
		return depth ? 0 : -errno;
	for (int i = 0; i < count; i++) {
		char below[PATH_MAX];
		struct stat st;

		if (!rc && entries[i]->d_name[0] != '.' &&
		    (size_t)snprintf(below, sizeof(below), "%s/%s", path, entries[i]->d_name) <
			    sizeof(below) &&
		    lstat(below, &st) == 0 && S_ISDIR(st.st_mode))
			rc = find(l, below, depth + 1);
		free(entries[i]);
	}
	free((void *)entries);
	return rc;
}

int leaves_find(struct leaves *leaves, const char *path)
{
	return find(leaves, path, 0);
}

void leaves_free(struct leaves *leaves)
{
	for (unsigned i = 0; i < leaves->count; i++)
		free(leaves->paths[i]);
	free((void *)leaves->paths);
}

bool ctf_is(const char *path)
{
	struct leaves leaves = {0};
	struct stat st;
	bool found = stat(path, &st) == 0 && S_ISDIR(st.st_mode) &&
		     leaves_find(&leaves, path) == 0 && leaves.count;

	leaves_free(&leaves);
	return found;
}

bool ctf_is_live(const char *path)
{
	return strncmp(path, "net://", 6) == 0 || strncmp(path, "net4://", 7) == 0 ||
	       strncmp(path, "net6://", 7) == 0;
}

/* --- metadata --------------------------------------------------------------------------------- */

static uint32_t word_at(const char *at)
{
	uint32_t word;

	memcpy(&word, at, sizeof(word));
	return word;
}

/* A whole file with a NUL behind it. NULL with *rc. */
static char *file_read(const char *path, size_t *size, int *rc)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat st = {0};
	char *text = NULL;
	ssize_t n = 1;

	*size = 0;
	*rc = fd < 0 || fstat(fd, &st) != 0 ? -errno : 0;
	if (!*rc && st.st_size > METADATA_MAX)
		*rc = -EFBIG;
	if (!*rc) {
		text = malloc((size_t)st.st_size + 1);
		*rc = text ? 0 : -ENOMEM;
	}
	while (text && n > 0 && *size < (size_t)st.st_size) {
		n = read(fd, text + *size, (size_t)st.st_size - *size);
		*size += n > 0 ? (size_t)n : 0;
	}
	if (text)
		text[*size] = '\0';
	if (fd >= 0)
		(void)close(fd);
	return text;
}

/* The text of metadata that comes in packets, in place. False: the last one is not whole. */
static bool unpack(char *text, size_t *size)
{
	size_t at = 0, used = 0;
	bool whole = true;

	while (at + METADATA_HEADER <= *size && word_at(text + at) == METADATA_MAGIC) {
		size_t content = word_at(text + at + METADATA_CONTENT) / 8;
		size_t packet = word_at(text + at + METADATA_PACKET) / 8;

		if (content < METADATA_HEADER || packet < content)
			break;
		if (content > *size - at) {
			content = *size - at;
			whole = false;
		}
		memmove(text + used, text + at + METADATA_HEADER, content - METADATA_HEADER);
		used += content - METADATA_HEADER;
		if (packet > *size - at) {
			at = *size;
			break;
		}
		at += packet;
	}
	whole = whole && at == *size;
	text[used] = '\0';
	*size = used;
	return whole;
}

/* Where the last whole declaration ends: behind a ';' outside of braces, texts and comments. */
static size_t declarations_end(const char *text, size_t size)
{
	size_t end = 0;
	int depth = 0;

	for (size_t i = 0; i < size; i++) {
		if (text[i] == '"') {
			for (i++; i < size && text[i] != '"'; i++)
				i += text[i] == '\\';
		} else if (text[i] == '/' && text[i + 1] == '*') {
			const char *close = strstr(text + i + 2, "*/");

			if (!close)
				break;
			i = (size_t)(close + 1 - text);
			end = depth == 0 ? i + 1 : end;
		} else if (text[i] == '{') {
			depth++;
		} else if (text[i] == '}') {
			depth--;
		} else if (text[i] == ';' && depth == 0) {
			end = i + 1;
		}
	}
	return end;
}

static bool blank(const char *text)
{
	return text[strspn(text, " \t\n\r")] == '\0';
}

/* Metadata as text without what is not whole. NULL with *rc; *cut when something was. */
static char *metadata_text(const char *path, bool *cut, int *rc)
{
	size_t size, end;
	char *text = file_read(path, &size, rc);

	if (!text)
		return NULL;
	*cut = false;
	if (size >= 4 && word_at(text) == METADATA_MAGIC)
		*cut = !unpack(text, &size);
	end = declarations_end(text, size);
	*cut = *cut || !blank(text + end);
	text[end] = '\0';
	if (!strstr(text, "stream {")) {
		free(text);
		*rc = -ENODATA;
		return NULL;
	}
	return text;
}

char *leaf_metadata(const char *folder)
{
	char path[PATH_MAX];
	bool cut;
	int rc;

	if ((size_t)snprintf(path, sizeof(path), "%s/metadata", folder) >= sizeof(path))
		return NULL;
	return metadata_text(path, &cut, &rc);
}

/* --- streams ---------------------------------------------------------------------------------- */

/* The bytes of a stream's whole packets; its size for what is not LTTng's. */
static uint64_t whole_bytes(const char *path, uint64_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	uint64_t at = 0;

	while (fd >= 0 && at < size) {
		char header[STREAM_HEADER];
		uint64_t packet, content;

		if (pread(fd, header, sizeof(header), (off_t)at) != sizeof(header))
			break;
		memcpy(&packet, header + STREAM_PACKET, sizeof(packet));
		memcpy(&content, header + STREAM_CONTENT, sizeof(content));
		if (word_at(header) != STREAM_MAGIC) {
			at = at ? at : size;
			break;
		}
		if (packet % 8 || packet / 8 < sizeof(header) || packet / 8 > size - at ||
		    content > packet || content / 8 < sizeof(header))
			break;
		at += packet / 8;
	}
	if (fd >= 0)
		(void)close(fd);
	return at;
}

/* Names in a folder that are streams. */
static int is_stream(const struct dirent *entry)
{
	return entry->d_name[0] != '.' && strcmp(entry->d_name, "metadata") != 0 &&
	       strcmp(entry->d_name, "index") != 0;
}

struct stream {
	char path[PATH_MAX];
	const char *name;
	uint64_t size, whole;
};

/* Calls visit for each regular file. 0 or what it returned. */
static int streams_visit(const char *folder, int (*visit)(const struct stream *s, void *user),
			 void *user)
{
	struct dirent **entries;
	int count = scandir(folder, &entries, is_stream, alphasort), rc = 0;

	if (count < 0)
		return -errno;
	for (int i = 0; i < count; i++) {
		struct stream s = {.name = entries[i]->d_name};
		struct stat st;

		if (!rc &&
		    (size_t)snprintf(s.path, sizeof(s.path), "%s/%s", folder, s.name) <
			    sizeof(s.path) &&
		    lstat(s.path, &st) == 0 && S_ISREG(st.st_mode)) {
			s.size = (uint64_t)st.st_size;
			s.whole = whole_bytes(s.path, s.size);
			rc = visit(&s, user);
		}
		free(entries[i]);
	}
	free((void *)entries);
	return rc;
}

static int stream_look(const struct stream *s, void *user)
{
	uint64_t *lost = user;

	*lost += s->size - s->whole;
	return 0;
}

/* --- a copy put right ------------------------------------------------------------------------- */

static int file_write(const char *folder, const char *name, const char *text)
{
	char path[PATH_MAX];
	size_t length = strlen(text), done = 0;
	int fd, rc = 0;

	if ((size_t)snprintf(path, sizeof(path), "%s/%s", folder, name) >= sizeof(path))
		return -ENAMETOOLONG;
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	while (done < length && !rc) {
		ssize_t n = write(fd, text + done, length - done);

		if (n <= 0)
			rc = n ? -errno : -ENOSPC;
		else
			done += (size_t)n;
	}
	(void)close(fd);
	return rc;
}

static int copy_bytes(int from, int to, uint64_t bytes)
{
	char buffer[65536];

	while (bytes) {
		ssize_t n =
			read(from, buffer, bytes < sizeof(buffer) ? (size_t)bytes : sizeof(buffer));

		if (n <= 0 || write(to, buffer, (size_t)n) != n)
			return errno ? -errno : -EIO;
		bytes -= (uint64_t)n;
	}
	return 0;
}

/* Whole streams by a link, others cut. */
static int stream_copy(const struct stream *s, void *user)
{
	const char *folder = user;
	char path[PATH_MAX], full[PATH_MAX];
	int from, to, rc;

	if ((size_t)snprintf(path, sizeof(path), "%s/%s", folder, s->name) >= sizeof(path))
		return -ENAMETOOLONG;
	if (s->whole == s->size && realpath(s->path, full))
		return symlink(full, path) == 0 ? 0 : -errno;
	if (!s->whole)
		return 0;
	from = open(s->path, O_RDONLY | O_CLOEXEC);
	to = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	rc = from < 0 || to < 0 ? -errno : copy_bytes(from, to, s->whole);
	if (from >= 0)
		(void)close(from);
	if (to >= 0)
		(void)close(to);
	return rc;
}

static int put_right(struct leaf *leaf, const char *path, const char *metadata)
{
	const char *tmp = getenv("TMPDIR");
	char *whole = NULL;
	int rc;

	if ((size_t)snprintf(leaf->use, sizeof(leaf->use), "%s/waylay-ctf-XXXXXX",
			     tmp && *tmp ? tmp : "/tmp") >= sizeof(leaf->use))
		return -ENAMETOOLONG;
	if (!mkdtemp(leaf->use))
		return -errno;
	leaf->copied = true;
	if (asprintf(&whole, "%s%s\n", strncmp(metadata, "/* CTF", 6) == 0 ? "" : "/* CTF 1.8 */\n",
		     metadata) < 0)
		return -ENOMEM;
	rc = file_write(leaf->use, "metadata", whole);
	free(whole);
	return rc ? rc : streams_visit(path, stream_copy, leaf->use);
}

int leaf_prepare(struct leaf *leaf, const char *path)
{
	char metadata[PATH_MAX], *text;
	uint64_t lost = 0;
	bool cut = false;
	int rc;

	memset(leaf, 0, sizeof(*leaf));
	if ((size_t)snprintf(metadata, sizeof(metadata), "%s/metadata", path) >= sizeof(metadata) ||
	    (size_t)snprintf(leaf->use, sizeof(leaf->use), "%s", path) >= sizeof(leaf->use))
		return -ENAMETOOLONG;
	text = metadata_text(metadata, &cut, &rc);
	if (rc == -ENODATA)
		(void)snprintf(leaf->damage, sizeof(leaf->damage),
			       "the metadata ends before it says how events are written");
	if (!text)
		return rc;
	rc = streams_visit(path, stream_look, &lost);
	if (!rc && (cut || lost)) {
		(void)snprintf(leaf->damage, sizeof(leaf->damage), "%s%s%.0llu%s",
			       cut ? "the metadata is not whole" : "", cut && lost ? ", and " : "",
			       (unsigned long long)lost,
			       lost ? " bytes of packets that are not whole were left out" : "");
		rc = put_right(leaf, path, text);
	}
	free(text);
	return rc;
}

void leaf_done(struct leaf *leaf)
{
	struct dirent **entries;
	int count;

	if (!leaf->copied)
		return;
	count = scandir(leaf->use, &entries, NULL, NULL);
	for (int i = 0; i < count; i++) {
		char path[PATH_MAX];

		if (entries[i]->d_name[0] != '.' &&
		    (size_t)snprintf(path, sizeof(path), "%s/%s", leaf->use, entries[i]->d_name) <
			    sizeof(path))
			(void)unlink(path);
		free(entries[i]);
	}
	if (count >= 0)
		free((void *)entries);
	(void)rmdir(leaf->use);
}
