/* SPDX-License-Identifier: Apache-2.0
 *
 * What a preload adds to a program that does nothing: runs it again and again, in turn with and without,
 * so that the machine's moods meet both.
 *
 *   exec_cost LIBRARY COUNT PROGRAM [NAME=VALUE]
 *
 * prints "plain MIN MEDIAN preloaded MIN MEDIAN" in microseconds; the variable is for the preloaded ones.
 */
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>

static double once(const char *program, char **environment)
{
	char *argv[] = {(char *)(uintptr_t)program, NULL};
	struct timespec from, to;
	pid_t pid;
	int status;

	clock_gettime(CLOCK_MONOTONIC, &from);
	if (posix_spawn(&pid, program, NULL, NULL, argv, environment) ||
	    waitpid(pid, &status, 0) != pid || status) {
		fprintf(stderr, "exec_cost: %s could not be run\n", program);
		exit(1);
	}
	clock_gettime(CLOCK_MONOTONIC, &to);
	return (double)(to.tv_sec - from.tv_sec) * 1e6 + (double)(to.tv_nsec - from.tv_nsec) / 1e3;
}

static int ascending(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
	char path[] = "PATH=/usr/bin:/bin", preload[4096], *plain[] = {path, NULL};
	char *preloaded[] = {path, preload, argc == 5 ? argv[4] : NULL, NULL};
	int count = argc == 4 || argc == 5 ? atoi(argv[2]) : 0;
	double *times[2];

	if (count < 1) {
		fprintf(stderr, "usage: exec_cost LIBRARY COUNT PROGRAM [NAME=VALUE]\n");
		return 64;
	}
	snprintf(preload, sizeof(preload), "LD_PRELOAD=%s", argv[1]);
	for (int i = 0; i < 2; i++)
		times[i] = calloc((size_t)count, sizeof(double));
	for (int i = 0; i < count; i++) {
		times[0][i] = once(argv[3], plain);
		times[1][i] = once(argv[3], preloaded);
	}
	for (int i = 0; i < 2; i++)
		qsort(times[i], (size_t)count, sizeof(double), ascending);
	printf("plain %.0f %.0f preloaded %.0f %.0f\n", times[0][0], times[0][count / 2],
	       times[1][0], times[1][count / 2]);
	return 0;
}
