/* SPDX-License-Identifier: Apache-2.0
 *
 * Packed recordings, written and read. Every length of a file that is read is checked against the file.
 */
#include "viewers/pack.h"

#include "tracer/spool/spool.h"
#include "viewers/viewers.h"

#include <errno.h>

#ifdef HAVE_ZSTD

#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#define MAGIC       "WAYPACK1"
#define MAGIC_END   "PACKEND1"
#define BLOCK_BYTES (1u << 20)
#define FILES_MAX   1000000u
#define NAME_MAX_   255
#define INDEX_MAX   (1u << 30)

/* Little endian, as a spool. */
struct pack_footer {
	uint64_t index_offset, index_bytes;
	uint32_t index_crc, file_count;
	char magic[8];
};
struct pack_file {
	uint64_t bytes; /* of the file as it was */
	uint32_t block_count, name_bytes;
	/* then its name, then its blocks */
};
struct pack_block {
	uint64_t offset; /* in the pack; one frame of zstd, with its own checksum */
	uint32_t packed, raw;
};

/* --- writing ---------------------------------------------------------------------------------- */

struct writing {
	int fd;
	uint64_t at;
	ZSTD_CCtx *zstd;
	uint8_t *packed; /* room for a block */
	size_t packed_size;
	uint8_t *index;
	size_t index_used, index_size;
};

static int put(struct writing *w, const void *what, size_t bytes)
{
	const uint8_t *from = what;

	while (bytes) {
		ssize_t n = write(w->fd, from, bytes);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n ? -errno : -ENOSPC;
		from += n;
		w->at += (uint64_t)n;
		bytes -= (size_t)n;
	}
	return 0;
}

static int index_put(struct writing *w, const void *what, size_t bytes)
{
	if (w->index_used + bytes > w->index_size) {
		size_t size = (w->index_used + bytes) * 2;
		uint8_t *index = realloc(w->index, size);

		if (!index)
			return -ENOMEM;
		w->index = index;
		w->index_size = size;
	}
	memcpy(w->index + w->index_used, what, bytes);
	w->index_used += bytes;
	return 0;
}

static int block_write(struct writing *w, const uint8_t *from, size_t bytes)
{
	struct pack_block block = {.offset = w->at, .raw = (uint32_t)bytes};
	size_t n = ZSTD_compress2(w->zstd, w->packed, w->packed_size, from, bytes);
	int rc;

	if (ZSTD_isError(n))
		return -EIO;
	block.packed = (uint32_t)n;
	rc = put(w, w->packed, n);
	return rc ? rc : index_put(w, &block, sizeof(block));
}

/* The file as it is now: what it grows by meanwhile is left out. */
static int file_write(struct writing *w, const char *path)
{
	const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
	struct pack_file file = {.name_bytes = (uint32_t)strlen(name)};
	int fd = open(path, O_RDONLY | O_CLOEXEC), rc;
	uint8_t *from = NULL;
	struct stat st;

	if (fd < 0)
		return -errno;
	rc = fstat(fd, &st) == 0 ? 0 : -errno;
	if (!rc && (!S_ISREG(st.st_mode) || file.name_bytes > NAME_MAX_))
		rc = -EINVAL;
	if (!rc) {
		file.bytes = (uint64_t)st.st_size;
		file.block_count = (uint32_t)((file.bytes + BLOCK_BYTES - 1) / BLOCK_BYTES);
		rc = index_put(w, &file, sizeof(file));
	}
	if (!rc)
		rc = index_put(w, name, file.name_bytes);
	if (!rc) {
		from = malloc(BLOCK_BYTES);
		rc = from ? 0 : -ENOMEM;
	}
	(void)posix_fadvise(fd, 0, 0, POSIX_FADV_SEQUENTIAL);
	for (uint64_t at = 0; at < file.bytes && !rc;) {
		size_t want = file.bytes - at < BLOCK_BYTES ? file.bytes - at : BLOCK_BYTES;
		ssize_t n = pread(fd, from, want, (off_t)at);

		if (n < 0 && errno == EINTR)
			continue;
		if (n != (ssize_t)want)
			rc = n < 0 ? -errno : -EIO; /* it became shorter */
		else
			rc = block_write(w, from, want);
		at += want;
	}
	free(from);
	(void)close(fd);
	return rc;
}

static int writing_begin(struct writing *w, const char *path, int level)
{
	int rc;

	w->fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (w->fd < 0)
		return -errno;
	w->zstd = ZSTD_createCCtx();
	w->packed_size = ZSTD_compressBound(BLOCK_BYTES);
	w->packed = malloc(w->packed_size);
	if (!w->zstd || !w->packed)
		return -ENOMEM;
	(void)ZSTD_CCtx_setParameter(w->zstd, ZSTD_c_compressionLevel, level);
	(void)ZSTD_CCtx_setParameter(w->zstd, ZSTD_c_checksumFlag, 1);
	rc = put(w, MAGIC, 8);
	return rc;
}

static int writing_end(struct writing *w, unsigned count)
{
	struct pack_footer footer = {
		.index_offset = w->at, .index_bytes = w->index_used, .file_count = count};
	int rc;

	footer.index_crc = (uint32_t)crc32_z(0, w->index, w->index_used);
	memcpy(footer.magic, MAGIC_END, sizeof(footer.magic));
	rc = put(w, w->index, w->index_used);
	if (!rc)
		rc = put(w, &footer, sizeof(footer));
	if (!rc && fsync(w->fd) != 0 && errno != EINVAL && errno != EROFS)
		rc = -errno;
	return rc;
}

int pack_write(const char *to, const char *const *files, unsigned count, int level,
	       struct pack_counts *counts, char *err, size_t err_size)
{
	struct writing w = {.fd = -1};
	char part[PATH_MAX];
	const char *at = to;
	int rc;

	memset(counts, 0, sizeof(*counts));
	if (access(to, F_OK) == 0) {
		(void)snprintf(err, err_size, "%s is there already; give another name", to);
		return -EEXIST;
	}
	if ((size_t)snprintf(part, sizeof(part), "%s.part", to) >= sizeof(part))
		return -ENAMETOOLONG;
	rc = writing_begin(&w, part, level);
	for (unsigned i = 0; i < count && !rc; i++) {
		struct stat st;

		at = files[i];
		rc = file_write(&w, files[i]);
		counts->files++;
		counts->raw_bytes += stat(files[i], &st) == 0 ? (uint64_t)st.st_size : 0;
	}
	if (!rc) {
		at = to;
		rc = writing_end(&w, count);
	}
	counts->packed_bytes = w.at;
	if (w.fd >= 0 && close(w.fd) != 0 && !rc)
		rc = -errno;
	if (!rc && rename(part, to) != 0)
		rc = -errno;
	if (rc)
		(void)snprintf(err, err_size, "packing %s: %s", at, strerror(-rc));
	if (rc && w.fd >= 0)
		(void)unlink(part);
	ZSTD_freeCCtx(w.zstd);
	free(w.packed);
	free(w.index);
	return rc;
}

/* --- reading ---------------------------------------------------------------------------------- */

struct member {
	char name[NAME_MAX_ + 1];
	uint64_t bytes;
	uint32_t block_count;
	size_t blocks; /* offset in the index */
};

struct pack {
	int fd;
	uint64_t bytes; /* where blocks may lie */
	uint8_t *index;
	size_t index_bytes;
	struct member *members;
	unsigned count;
};

static int get(int fd, void *to, size_t bytes, uint64_t at)
{
	uint8_t *into = to;

	while (bytes) {
		ssize_t n = pread(fd, into, bytes, (off_t)at);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n ? -errno : -EINVAL;
		into += n;
		at += (uint64_t)n;
		bytes -= (size_t)n;
	}
	return 0;
}

/* A plain name: a pack from elsewhere must not write where it is not asked to. */
static bool name_good(const char *name)
{
	return *name && *name != '.' && !strchr(name, '/');
}

static int members_read(struct pack *p, unsigned count)
{
	size_t at = 0;

	p->members = calloc(count + 1u, sizeof(*p->members));
	if (!p->members)
		return -ENOMEM;
	for (; p->count < count; p->count++) {
		struct member *m = &p->members[p->count];
		struct pack_file file;

		if (p->index_bytes - at < sizeof(file))
			return -EINVAL;
		memcpy(&file, p->index + at, sizeof(file));
		at += sizeof(file);
		if (file.name_bytes > NAME_MAX_ || file.name_bytes > p->index_bytes - at)
			return -EINVAL;
		memcpy(m->name, p->index + at, file.name_bytes);
		at += file.name_bytes;
		if (!name_good(m->name) || strlen(m->name) != file.name_bytes ||
		    file.block_count > (p->index_bytes - at) / sizeof(struct pack_block) ||
		    file.bytes > (uint64_t)file.block_count * BLOCK_BYTES)
			return -EINVAL;
		m->bytes = file.bytes;
		m->block_count = file.block_count;
		m->blocks = at;
		at += file.block_count * sizeof(struct pack_block);
	}
	return at == p->index_bytes ? 0 : -EINVAL;
}

static int index_read(struct pack *p)
{
	struct pack_footer footer;
	struct stat st;
	char magic[8];
	int rc;

	if (fstat(p->fd, &st) != 0)
		return -errno;
	if ((uint64_t)st.st_size < sizeof(magic) + sizeof(footer))
		return -EINVAL;
	p->bytes = (uint64_t)st.st_size - sizeof(footer);
	rc = get(p->fd, magic, sizeof(magic), 0);
	if (!rc)
		rc = get(p->fd, &footer, sizeof(footer), p->bytes);
	if (rc)
		return rc;
	if (memcmp(magic, MAGIC, 8) != 0 || memcmp(footer.magic, MAGIC_END, 8) != 0 ||
	    footer.index_offset > p->bytes ||
	    footer.index_bytes != p->bytes - footer.index_offset ||
	    footer.index_bytes > INDEX_MAX || footer.file_count > FILES_MAX)
		return -EINVAL;
	p->bytes = footer.index_offset;
	p->index_bytes = footer.index_bytes;
	p->index = malloc(p->index_bytes + 1);
	if (!p->index)
		return -ENOMEM;
	rc = get(p->fd, p->index, p->index_bytes, footer.index_offset);
	if (!rc && crc32_z(0, p->index, p->index_bytes) != footer.index_crc)
		rc = -EINVAL;
	return rc ? rc : members_read(p, footer.file_count);
}

int pack_open(const char *path, struct pack **pack, char *err, size_t err_size)
{
	struct pack *p = calloc(1, sizeof(*p));
	int rc = p ? 0 : -ENOMEM;

	if (p) {
		p->fd = open(path, O_RDONLY | O_CLOEXEC);
		rc = p->fd < 0 ? -errno : index_read(p);
	}
	if (!rc) {
		*pack = p;
		return 0;
	}
	(void)snprintf(err, err_size, "%s: %s", path,
		       rc == -EINVAL ? "not a packed recording, or one that is cut or damaged"
				     : strerror(-rc));
	pack_close(p);
	return rc;
}

void pack_close(struct pack *p)
{
	if (!p)
		return;
	if (p->fd >= 0)
		(void)close(p->fd);
	free(p->index);
	free(p->members);
	free(p);
}

unsigned pack_count(const struct pack *pack)
{
	return pack->count;
}

const char *pack_name(const struct pack *pack, unsigned index)
{
	return pack->members[index].name;
}

static int all_put(int to, const uint8_t *from, size_t bytes)
{
	while (bytes) {
		ssize_t n = write(to, from, bytes);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n ? -errno : -ENOSPC;
		from += n;
		bytes -= (size_t)n;
	}
	return 0;
}

int pack_extract(const struct pack *p, unsigned index, int to, uint64_t *bytes)
{
	const struct member *m = &p->members[index];
	size_t room = ZSTD_compressBound(BLOCK_BYTES);
	uint8_t *packed = malloc(room), *raw = malloc(BLOCK_BYTES);
	ZSTD_DCtx *zstd = ZSTD_createDCtx();
	int rc = packed && raw && zstd ? 0 : -ENOMEM;

	*bytes = 0;
	for (uint32_t i = 0; i < m->block_count && !rc; i++) {
		struct pack_block block;
		size_t n;

		memcpy(&block, p->index + m->blocks + i * sizeof(block), sizeof(block));
		if (block.packed > room || block.raw > BLOCK_BYTES || block.offset > p->bytes ||
		    block.packed > p->bytes - block.offset)
			rc = -EBADMSG;
		else
			rc = get(p->fd, packed, block.packed, block.offset);
		if (rc)
			break;
		n = ZSTD_decompressDCtx(zstd, raw, BLOCK_BYTES, packed, block.packed);
		if (ZSTD_isError(n) || n != block.raw)
			rc = -EBADMSG;
		else if (to >= 0)
			rc = all_put(to, raw, n);
		*bytes += block.raw;
	}
	if (!rc && *bytes != m->bytes)
		rc = -EBADMSG;
	ZSTD_freeDCtx(zstd);
	free(packed);
	free(raw);
	return rc;
}

/* --- as recordings ---------------------------------------------------------------------------- */

/* Through a temporary file, which the reader maps and which goes with it. */
static int reader_open(const struct pack *p, unsigned index, struct trace_reader **reader,
		       char *err, size_t err_size)
{
	const char *tmp = getenv("TMPDIR");
	char path[PATH_MAX];
	uint64_t bytes;
	int fd, rc;

	if ((size_t)snprintf(path, sizeof(path), "%s/waylay-pack-XXXXXX",
			     tmp && *tmp ? tmp : "/tmp") >= sizeof(path))
		return -ENAMETOOLONG;
	fd = mkostemp(path, O_CLOEXEC);
	rc = fd < 0 ? -errno : pack_extract(p, index, fd, &bytes);
	if (rc)
		(void)snprintf(err, err_size, "unpacking %s: %s", pack_name(p, index),
			       strerror(-rc));
	else
		rc = spool_reader_open(path, reader, err, err_size);
	if (fd >= 0) {
		(void)close(fd);
		(void)unlink(path);
	}
	return rc;
}

int pack_readers(const char *path, struct trace_reader ***readers, unsigned *count, char *err,
		 size_t err_size)
{
	struct pack *p;
	int rc = pack_open(path, &p, err, err_size);
	char problem[512] = "";

	*count = 0;
	if (rc)
		return rc;
	*readers = calloc(p->count + 1u, sizeof(struct trace_reader *));
	for (unsigned i = 0; *readers && i < p->count; i++)
		if (reader_open(p, i, &(*readers)[*count], problem, sizeof(problem)) == 0)
			(*count)++;
	(void)snprintf(err, err_size, "%s", problem);
	rc = !*readers ? -ENOMEM : *count || !*problem ? 0 : -EINVAL;
	pack_close(p);
	return rc;
}

#else

#define NOT_BUILT "packed recordings need libzstd: install libzstd-dev and build Waylay again"

int pack_write(const char *to, const char *const *files, unsigned count, int level,
	       struct pack_counts *counts, char *err, size_t err_size)
{
	(void)to, (void)files, (void)count, (void)level, (void)counts;
	(void)snprintf(err, err_size, NOT_BUILT);
	return -ENOTSUP;
}

int pack_open(const char *path, struct pack **pack, char *err, size_t err_size)
{
	(void)path, (void)pack;
	(void)snprintf(err, err_size, NOT_BUILT);
	return -ENOTSUP;
}

void pack_close(struct pack *pack)
{
	(void)pack;
}

unsigned pack_count(const struct pack *pack)
{
	(void)pack;
	return 0;
}

const char *pack_name(const struct pack *pack, unsigned index)
{
	(void)pack, (void)index;
	return "";
}

int pack_extract(const struct pack *pack, unsigned index, int to, uint64_t *bytes)
{
	(void)pack, (void)index, (void)to, (void)bytes;
	return -ENOTSUP;
}

int pack_readers(const char *path, struct trace_reader ***readers, unsigned *count, char *err,
		 size_t err_size)
{
	(void)path, (void)readers, (void)count;
	(void)snprintf(err, err_size, NOT_BUILT);
	return -ENOTSUP;
}

#endif
