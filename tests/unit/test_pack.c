/* SPDX-License-Identifier: Apache-2.0
 *
 * Packed recordings: back bit for bit; and whatever is done to a pack, what is unpacked is right or refused.
 *
 * WAYLAY_TEST_DAMAGES: how many packs are damaged at random (300); WAYLAY_TEST_SEED: where it begins.
 */
#include "viewers/pack.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>
#include <zlib.h>

#define FILES 3

static char dir[200];
static uint64_t random_state;

static uint64_t random_next(void)
{
	random_state = random_state * 6364136223846793005ull + 1442695040888963407ull;
	return random_state >> 33;
}

/* Sizes around those of a block; half of it repeats. */
static const size_t sizes[FILES] = {0, 70001, (1u << 20) + 17};
static uint8_t *content[FILES];

static void file_put(const char *name, const uint8_t *bytes, size_t size)
{
	char path[300];
	FILE *f;

	(void)snprintf(path, sizeof(path), "%s/%s", dir, name);
	f = fopen(path, "wb");
	assert_non_null(f);
	assert_int_equal(fwrite(bytes, 1, size, f), size);
	assert_int_equal(fclose(f), 0);
}

static int make(void **state)
{
	const char *tmp = getenv("TMPDIR"), *seed = getenv("WAYLAY_TEST_SEED");

	(void)state;
	random_state = seed ? strtoull(seed, NULL, 0) : 8191;
	(void)snprintf(dir, sizeof(dir), "%s/waylay-pack-test-XXXXXX", tmp ? tmp : "/tmp");
	return mkdtemp(dir) ? 0 : -1;
}

static int clean(void **state)
{
	char command[300];

	(void)state;
	for (int i = 0; i < FILES; i++)
		free(content[i]);
	(void)snprintf(command, sizeof(command), "rm -rf '%s'", dir);
	return system(command) == 0 ? 0 : -1;
}

static int packed(char path[300])
{
	char names[FILES][300], err[600] = "";
	const char *files[FILES];
	struct pack_counts counts;
	int rc;

	for (int i = 0; i < FILES; i++) {
		char name[40];

		if (!content[i]) {
			content[i] = malloc(sizes[i] + 1);
			assert_non_null(content[i]);
			for (size_t k = 0; k < sizes[i]; k++)
				content[i][k] = k % 4096 < 2048 ? (uint8_t)(k >> 12)
								: (uint8_t)random_next();
		}
		(void)snprintf(name, sizeof(name), "host.%d.17.wspool", i);
		file_put(name, content[i], sizes[i]);
		(void)snprintf(names[i], sizeof(names[i]), "%s/%s", dir, name);
		files[i] = names[i];
	}
	(void)snprintf(path, 300, "%s/test.wpack", dir);
	(void)unlink(path);
	rc = pack_write(path, files, FILES, 1, &counts, err, sizeof(err));
	if (rc == -ENOTSUP)
		skip(); /* built without libzstd */
	assert_int_equal(rc, 0);
	assert_int_equal(counts.files, FILES);
	return 0;
}

/* What member i unpacks to: 1 what was packed, 0 refused; anything else is a failure. */
static int member_check(const struct pack *p, unsigned i)
{
	static uint8_t bytes[2u << 20];
	char path[300];
	uint64_t size = 0;
	unsigned which;
	ssize_t n;
	int fd, rc;

	if (sscanf(pack_name(p, i), "host.%u.17.wspool", &which) != 1 || which >= FILES)
		return 0; /* a name that was damaged can only be here when nothing protects it */
	(void)snprintf(path, sizeof(path), "%s/out", dir);
	fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	rc = pack_extract(p, i, fd, &size);
	n = rc ? 0 : pread(fd, bytes, sizeof(bytes), 0);
	(void)close(fd);
	if (rc)
		return 0;
	assert_int_equal(n, sizes[which]);
	assert_int_equal(size, sizes[which]);
	assert_memory_equal(bytes, content[which], sizes[which]);
	return 1;
}

static void test_back(void **state)
{
	char path[300], err[600];
	struct pack *p;

	(void)state;
	(void)packed(path);
	assert_int_equal(pack_open(path, &p, err, sizeof(err)), 0);
	assert_int_equal(pack_count(p), FILES);
	for (unsigned i = 0; i < FILES; i++)
		assert_int_equal(member_check(p, i), 1);
	pack_close(p);
}

/* --- damage ----------------------------------------------------------------------------------- */

struct bytes {
	uint8_t *at;
	size_t size;
};

static struct bytes pack_bytes(const char *path)
{
	struct bytes b;
	struct stat st = {0};
	FILE *f = fopen(path, "rb");

	assert_true(f && stat(path, &st) == 0);
	b.size = (size_t)st.st_size;
	b.at = malloc(b.size + 1);
	assert_non_null(b.at);
	assert_int_equal(fread(b.at, 1, b.size, f), b.size);
	(void)fclose(f);
	return b;
}

static void damage(uint8_t *bytes, size_t *size)
{
	uint64_t index;
	uint32_t crc;

	for (uint64_t i = 0; i <= random_next() % 3; i++) {
		size_t at = random_next() % *size;

		/* The index and the footer are the last few hundred bytes. */
		if (random_next() % 2)
			at = *size - 1 - random_next() % (*size < 300 ? *size : 300);
		bytes[at] ^= (uint8_t)(1u << random_next() % 8);
	}
	if (random_next() % 5 == 0)
		*size = random_next() % *size;
	if (*size < 40 || random_next() % 2)
		return;
	/* As by somebody who means it: the checksum of the index is right. */
	memcpy(&index, bytes + *size - 32, sizeof(index));
	if (index > *size - 32)
		return;
	crc = (uint32_t)crc32_z(0, bytes + index, *size - 32 - index);
	memcpy(bytes + *size - 16, &crc, sizeof(crc));
}

static void test_any_damage(void **state)
{
	const char *times = getenv("WAYLAY_TEST_DAMAGES");
	int all = times ? atoi(times) : 300, opened = 0, whole = 0, refused = 0;
	struct bytes good;
	char path[300];

	(void)state;
	(void)packed(path);
	good = pack_bytes(path);
	for (int i = 0; i < all; i++) {
		uint8_t *bytes = malloc(good.size);
		size_t size = good.size;
		char err[600] = "";
		struct pack *p;

		assert_non_null(bytes);
		memcpy(bytes, good.at, good.size);
		damage(bytes, &size);
		file_put("damaged.wpack", bytes, size);
		free(bytes);
		(void)snprintf(path, sizeof(path), "%s/damaged.wpack", dir);
		if (pack_open(path, &p, err, sizeof(err)) != 0) {
			assert_true(*err);
			continue;
		}
		opened++;
		for (unsigned k = 0; k < pack_count(p); k++) {
			assert_null(strchr(pack_name(p, k), '/'));
			if (member_check(p, k))
				whole++;
			else
				refused++;
		}
		pack_close(p);
	}
	free(good.at);
	print_message("%d damaged packs, %d opened; of their files %d whole, %d refused\n", all,
		      opened, whole, refused);
	assert_true(opened > 0 && opened < all && whole > 0 && refused > 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_back),
					   cmocka_unit_test(test_any_damage)};

	return cmocka_run_group_tests(tests, make, clean);
}
