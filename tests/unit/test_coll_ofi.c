/* SPDX-License-Identifier: Apache-2.0 */
/* The libfabric back end by itself: two endpoints of one process exchange messages and write into
 * each other's memory over every provider found here. Skipped where libfabric is missing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "collectives/transport.h"

#define LARGE 300007 /* beyond every provider's eager limit */

struct pair {
	struct transport *tp[2];
};

static char *providers;

static int setup(void **state)
{
	struct tp_config config = {.one_host = true, .bind_address = "127.0.0.1"};
	char error[TP_ERROR_BYTES];

	(void)state;
	if (tp_list_ofi(&config, &providers, error)) {
		print_message("%s\n", error);
		providers = NULL;
	}
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	free(providers);
	return 0;
}

static void open_pair(struct pair *p, const char *provider)
{
	struct tp_config config = {.provider = provider,
				   .bind_address = "127.0.0.1",
				   .one_host = true,
				   .timeout_ns = INT64_C(20000000000)};
	char addrs[2][TP_ADDRESS_BYTES] = {{0}};
	char error[TP_ERROR_BYTES];
	size_t bytes;

	for (int i = 0; i < 2; i++) {
		if (tp_open_ofi(&config, &p->tp[i], error))
			fail_msg("%s: %s", provider, error);
		assert_int_equal(tp_address(p->tp[i], addrs[i], &bytes), 0);
		assert_true(bytes > 0 && bytes <= TP_ADDRESS_BYTES);
	}
	for (int i = 0; i < 2; i++)
		assert_int_equal(tp_connect(p->tp[i], addrs, i, 2), 0);
}

static void close_pair(struct pair *p)
{
	tp_close(p->tp[0]);
	tp_close(p->tp[1]);
}

/* One thread drives both, so a post must not wait inside for the other endpoint. */
static int both_until(struct pair *p, const struct tp_req *req)
{
	while (req->state == TP_PENDING) {
		for (int i = 0; i < 2; i++) {
			int rc = tp_progress(p->tp[i]);

			if (rc) {
				print_error("%s\n", tp_error(p->tp[i]));
				return rc;
			}
		}
	}
	return req->state == TP_DONE ? 0 : -EIO;
}

static void post_send(struct pair *p, int from, uint64_t tag, const char *buf, size_t bytes,
		      const struct tp_region *region, struct tp_req *req)
{
	int rc;

	*req = (struct tp_req){.state = TP_PENDING, .peer = !from, .bytes = bytes};
	while ((rc = p->tp[from]->ops->send(p->tp[from], !from, tag, buf, bytes, region, req)) ==
	       -EAGAIN) {
		tp_progress(p->tp[0]);
		tp_progress(p->tp[1]);
	}
	assert_int_equal(rc, 0);
}

static struct tp_region *reg(struct transport *tp, void *addr, size_t bytes)
{
	struct tp_range range = {.addr = addr, .bytes = bytes, .dmabuf_fd = -1};
	struct tp_region *region;

	if (tp_register(tp, &range, &region))
		fail_msg("%s", tp_error(tp));
	return region;
}

static void check_messages(struct pair *p)
{
	static const size_t sizes[] = {0, 1, 63, 4099, LARGE};
	char *out = malloc(LARGE), *in = malloc(LARGE + 1);
	struct tp_region *out_region = reg(p->tp[0], out, LARGE);
	struct tp_region *in_region = reg(p->tp[1], in, LARGE);

	for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
		struct tp_req sends[2], recvs[2];
		size_t n = sizes[s], half = n / 2;

		for (size_t i = 0; i < n; i++)
			out[i] = (char)(i * 7 + s);
		memset(in, 0x55, LARGE + 1);
		/* Two messages, received in the other order: tags decide, not time. */
		assert_int_equal(tp_recv(p->tp[1], 0, 1000 + s, in, half, in_region, &recvs[0]), 0);
		post_send(p, 0, 2000 + s, out + half, n - half, out_region, &sends[1]);
		post_send(p, 0, 1000 + s, out, half, out_region, &sends[0]);
		assert_int_equal(
			tp_recv(p->tp[1], 0, 2000 + s, in + half, n - half, in_region, &recvs[1]),
			0);
		for (int i = 0; i < 2; i++) {
			assert_int_equal(both_until(p, &recvs[i]), 0);
			assert_int_equal(both_until(p, &sends[i]), 0);
		}
		assert_memory_equal(in, out, n);
		assert_int_equal(in[n], 0x55);
	}
	assert_int_equal(tp_deregister(p->tp[0], out_region), 0);
	assert_int_equal(tp_deregister(p->tp[1], in_region), 0);
	free(out);
	free(in);
}

static void check_write(struct pair *p)
{
	char *from = malloc(LARGE), *to = calloc(1, LARGE);
	struct tp_region *local = reg(p->tp[0], from, LARGE);
	struct tp_region *remote = reg(p->tp[1], to, LARGE);
	struct tp_req req = {.state = TP_PENDING, .peer = 1, .bytes = LARGE - 10};
	int rc;

	memset(from, 'w', LARGE);
	while ((rc = p->tp[0]->ops->write(p->tp[0], 1, from, LARGE - 10, local,
					  remote->remote_base + 5, remote->key, &req)) == -EAGAIN) {
		tp_progress(p->tp[0]);
		tp_progress(p->tp[1]);
	}
	assert_int_equal(rc, 0);
	assert_int_equal(both_until(p, &req), 0);
	/* Local completion may come before the data is there. */
	for (int64_t end = tp_now_ns() + INT64_C(10000000000);
	     *(volatile char *)(to + LARGE - 6) != 'w' && tp_now_ns() < end;)
		tp_progress(p->tp[1]);
	assert_memory_equal(to + 5, from, LARGE - 10);
	assert_int_equal(to[4], 0);
	assert_int_equal(to[LARGE - 5], 0);
	tp_deregister(p->tp[0], local);
	tp_deregister(p->tp[1], remote);
	free(from);
	free(to);
}

static void check_short(struct pair *p)
{
	char out[8] = "short", in[64];
	struct tp_req send, recv;

	post_send(p, 1, 77, out, sizeof(out), NULL, &send);
	assert_int_equal(tp_recv(p->tp[0], 1, 77, in, sizeof(in), NULL, &recv), 0);
	while (recv.state == TP_PENDING) {
		tp_progress(p->tp[0]);
		tp_progress(p->tp[1]);
	}
	assert_int_equal(recv.state, TP_FAILED);
	assert_non_null(strstr(tp_error(p->tp[0]), "expected 64 bytes from rank 1 but got 8"));
	assert_int_equal(tp_progress(p->tp[0]), -EPROTO);
}

static void test_providers(void **state)
{
	char *save = NULL;
	int tried = 0;

	(void)state;
	if (!providers)
		skip();
	for (char *name = strtok_r(providers, "\n", &save); name;
	     name = strtok_r(NULL, "\n", &save)) {
		struct pair p;

		print_message("provider %s\n", name);
		open_pair(&p, name);
		check_messages(&p);
		if (p.tp[0]->can_write)
			check_write(&p);
		if (!p.tp[0]->needs_regions)
			check_short(&p);
		close_pair(&p);
		tried++;
	}
	if (!tried)
		skip();
}

static void test_unknown(void **state)
{
	struct tp_config config = {.provider = "nosuch"};
	struct transport *tp;
	char error[TP_ERROR_BYTES];

	(void)state;
	if (!providers)
		skip();
	assert_int_equal(tp_open_ofi(&config, &tp, error), -ENODEV);
	assert_null(tp);
	assert_non_null(strstr(error, "offers no nosuch provider"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_unknown),
		cmocka_unit_test(test_providers),
	};

	return cmocka_run_group_tests_name("coll_ofi", tests, setup, teardown);
}
