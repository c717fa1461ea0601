/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inputs are functions of the seed and the position alone, so that a check needs no copy of them:
 * rows of tens of gigabytes are compared against the function that made them.
 */
#include "kernels/perf_data.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cuda.h"
#include "kernels/device/sampler_rule.h"

#define CHUNK_BYTES ((size_t)64 << 20)

static int say(struct perf_data *data, int err, const char *what)
{
	if (err)
		snprintf(data->error, sizeof(data->error), "%s: %s", what,
			 data->cuda && err != -ENOMEM ? data->cuda->error : strerror(-err));
	return err;
}

/* Eight bytes of the features; `at` counts words over the whole batch. */
static uint64_t row_word(const struct perf_data *data, uint64_t at)
{
	return sampler_mix64(at + data->config.seed * 0x9e3779b97f4a7c15ull);
}

static uint8_t kind_of(const struct perf_data *data, uint32_t sample, uint32_t item)
{
	uint64_t at = data->same ? item : (uint64_t)sample << 32 | item;
	double u = (double)(sampler_mix64(at ^ data->config.seed * 0xd1342543de82ef95ull) >> 11) *
		   0x1p-53;

	if (u < data->ignored)
		return 2;
	return u < data->ignored + data->positive;
}

void perf_data_kinds(const struct perf_data *data, uint32_t sample, uint8_t *kinds)
{
	for (uint32_t i = 0; i < data->config.n; i++)
		kinds[i] = kind_of(data, sample, i);
}

/* Labels of one sample in their type; ignored items get -1. */
static void make_labels(const struct perf_data *data, uint32_t sample, void *labels)
{
	for (uint32_t i = 0; i < data->config.n; i++) {
		int label = kind_of(data, sample, i);

		label = label == 2 ? -1 : label;
		switch (data->config.label) {
		case SAMPLER_I64:
			((int64_t *)labels)[i] = label;
			break;
		case SAMPLER_I32:
			((int32_t *)labels)[i] = label;
			break;
		default:
			((uint8_t *)labels)[i] = (uint8_t)label;
		}
	}
}

static int get_memory(struct perf_data *data, uint64_t *address, uint64_t bytes, const char *what)
{
	void *p = NULL;

	if (data->cuda) {
		int err = cuda_alloc(data->cuda, bytes, address, what);

		if (err)
			snprintf(data->error, sizeof(data->error),
				 "making room for inputs and results: %s", data->cuda->error);
		return err;
	}
	if (bytes && posix_memalign(&p, 64, bytes))
		return say(data, -ENOMEM, what);
	*address = (uintptr_t)p;
	return 0;
}

static int put(struct perf_data *data, uint64_t to, const void *from, size_t bytes)
{
	if (data->cuda)
		return say(data, cuda_upload(data->cuda, to, from, bytes), "filling the inputs");
	memcpy((void *)(uintptr_t)to, from, bytes);
	return 0;
}

int perf_data_read(struct perf_data *data, void *to, uint64_t from, size_t bytes)
{
	if (data->cuda)
		return say(data, cuda_download(data->cuda, to, from, bytes), "reading the results");
	memcpy(to, (const void *)(uintptr_t)from, bytes);
	return 0;
}

static int fill_labels(struct perf_data *data, uint64_t bytes)
{
	void *labels = malloc(bytes + 1);
	int err = labels ? 0 : say(data, -ENOMEM, "making labels");

	for (uint32_t s = 0; s < data->config.batch && !err; s++) {
		if (!s || !data->same)
			make_labels(data, s, labels);
		err = put(data, data->io.labels + s * bytes, labels, bytes);
	}
	free(labels);
	return err;
}

static int fill_rows(struct perf_data *data, uint64_t bytes)
{
	uint64_t *chunk = malloc(CHUNK_BYTES);
	int err = chunk ? 0 : say(data, -ENOMEM, "making features");

	for (uint64_t done = 0; done < bytes && !err; done += CHUNK_BYTES) {
		size_t now = bytes - done < CHUNK_BYTES ? bytes - done : CHUNK_BYTES;

		for (size_t w = 0; w < (now + 7) / 8; w++)
			chunk[w] = row_word(data, done / 8 + w);
		err = put(data, data->io.x + done, chunk, now);
	}
	free(chunk);
	return err;
}

int perf_data_open(struct perf_data *data)
{
	const struct sampler_config *c = &data->config;
	uint64_t label = sampler_label_bytes(c->label), items = (uint64_t)c->batch * c->n;
	uint64_t slots = (uint64_t)c->batch * c->k;
	int err;

	memset(&data->io, 0, sizeof(data->io));
	err = get_memory(data, &data->io.labels, items * label, "labels");
	err = err ? err : get_memory(data, &data->io.x, items * c->row_bytes, "features");
	err = err ? err : get_memory(data, &data->io.idx, slots * 8, "indices");
	err = err ? err : get_memory(data, &data->io.labels_out, slots * label, "drawn labels");
	err = err ? err : get_memory(data, &data->io.x_out, slots * c->row_bytes, "drawn features");
	err = err ? err : get_memory(data, &data->io.counts, (uint64_t)c->batch * 8, "counts");
	err = err ? err : fill_labels(data, c->n * label);
	return err ? err : fill_rows(data, items * c->row_bytes);
}

void perf_data_close(struct perf_data *data)
{
	const uint64_t all[] = {data->io.labels,     data->io.x,     data->io.idx,
				data->io.labels_out, data->io.x_out, data->io.counts};

	for (unsigned i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		if (data->cuda)
			cuda_free(data->cuda, all[i]);
		else
			free((void *)(uintptr_t)all[i]);
	}
	memset(&data->io, 0, sizeof(data->io));
}

int perf_data_drawn(struct perf_data *data, uint64_t *drawn_ret)
{
	int32_t *counts = calloc(data->config.batch, 8);
	int err = counts ? perf_data_read(data, counts, data->io.counts,
					  (size_t)data->config.batch * 8)
			 : say(data, -ENOMEM, "reading the counts");

	*drawn_ret = 0;
	for (uint32_t s = 0; s < data->config.batch && !err; s++)
		*drawn_ret += (uint64_t)counts[2 * s];
	free(counts);
	return err;
}

/* Host copies of one sample's results, and what they should be. */
struct sample_check {
	void *labels; /* the inputs */
	int64_t *idx, *idx_want;
	unsigned char *labels_out, *labels_want;
	unsigned char *rows; /* as many as CHUNK_BYTES holds */
	int32_t counts[2], counts_want[2];
};

static int differ(struct perf_data *data, uint32_t sample, const char *what, uint64_t at,
		  long long got, long long want)
{
	snprintf(data->error, sizeof(data->error),
		 "sample %u: %s %llu is %lld, the oracle says %lld", sample, what,
		 (unsigned long long)at, got, want);
	return 1;
}

/* The features in slot s must be those of item idx[s], or zeros. */
static int check_rows(struct perf_data *data, uint32_t sample, struct sample_check *c)
{
	uint64_t row = data->config.row_bytes, k = data->config.k,
		 each = row ? CHUNK_BYTES / row : 1;

	for (uint64_t s = 0; row && s < k; s += each) {
		uint64_t now = k - s < each ? k - s : each;
		int err = perf_data_read(data, c->rows, data->io.x_out + (sample * k + s) * row,
					 now * row);

		if (err)
			return err;
		for (uint64_t r = 0; r < now; r++) {
			int64_t item = c->idx_want[s + r];
			uint64_t at = ((uint64_t)sample * data->config.n + (uint64_t)item) * row;

			for (uint64_t b = 0; b < row; b++, at++) {
				unsigned char want =
					item < 0 ? 0
						 : (unsigned char)(row_word(data, at / 8) >>
								   8 * (at % 8));

				if (c->rows[r * row + b] != want)
					return differ(data, sample, "the features' byte",
						      (s + r) * row + b, c->rows[r * row + b],
						      want);
			}
		}
	}
	return 0;
}

static int check_sample(struct perf_data *data, uint64_t call, uint32_t sample,
			struct sample_check *c)
{
	uint64_t k = data->config.k, label = sampler_label_bytes(data->config.label);
	struct sampler_config one = data->config;
	struct sampler_io io = {.labels = (uintptr_t)c->labels,
				.idx = (uintptr_t)c->idx_want,
				.labels_out = (uintptr_t)c->labels_want,
				.counts = (uintptr_t)c->counts_want};
	int err;

	one.batch = 1;
	one.row_bytes = 0; /* features are compared with the function that made them */
	make_labels(data, data->same ? 0 : sample, c->labels);
	err = say(data, sampler_oracle(&one, call, sample, &io), "running the oracle");
	err = err ? err : perf_data_read(data, c->counts, data->io.counts + sample * 8ull, 8);
	err = err ? err : perf_data_read(data, c->idx, data->io.idx + sample * k * 8, k * 8);
	err = err ? err
		  : perf_data_read(data, c->labels_out, data->io.labels_out + sample * k * label,
				   k * label);
	if (err)
		return err;
	for (unsigned i = 0; i < 2; i++)
		if (c->counts[i] != c->counts_want[i])
			return differ(data, sample,
				      i ? "the number of positives, count"
					: "the number drawn, count",
				      i, c->counts[i], c->counts_want[i]);
	for (uint64_t s = 0; s < k; s++)
		if (c->idx[s] != c->idx_want[s])
			return differ(data, sample, "the index in slot", s, c->idx[s],
				      c->idx_want[s]);
	for (uint64_t b = 0; b < k * label; b++)
		if (c->labels_out[b] != c->labels_want[b])
			return differ(data, sample, "the labels' byte", b, c->labels_out[b],
				      c->labels_want[b]);
	return check_rows(data, sample, c);
}

int perf_data_check(struct perf_data *data, uint64_t call, uint64_t *drawn_ret)
{
	uint64_t k = data->config.k, label = sampler_label_bytes(data->config.label);
	struct sample_check c = {
		.labels = malloc(data->config.n * label + 1),
		.idx = malloc(k * 8 + 1),
		.idx_want = malloc(k * 8 + 1),
		.labels_out = malloc(k * label + 1),
		.labels_want = malloc(k * label + 1),
		.rows = malloc(CHUNK_BYTES),
	};
	int err = perf_data_drawn(data, drawn_ret);

	if (!c.labels || !c.idx || !c.idx_want || !c.labels_out || !c.labels_want || !c.rows)
		err = say(data, -ENOMEM, "checking the results");
	for (uint32_t s = 0; s < data->config.batch && !err; s++)
		err = check_sample(data, call, s, &c);
	free(c.labels);
	free(c.idx);
	free(c.idx_want);
	free(c.labels_out);
	free(c.labels_want);
	free(c.rows);
	return err;
}
