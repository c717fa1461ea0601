/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests of the simulated CUDA driver; tests/fakecuda/test holds them by topic. With an argument the
 * program is one of the processes that the tests start.
 */
#include "tests/fakecuda/test/driver.h"

int main(int argc, char **argv)
{
	if (argc > 1)
		return process_mode(argc, argv);
	driver_start();
	int failed = run_api_tests();
	failed += run_streams_tests();
	failed += run_capture_tests();
	failed += run_memory_tests();
	failed += run_share_tests();
	failed += run_holds_tests();
	failed += run_process_tests("/proc/self/exe");
	return failed ? 1 : 0;
}
