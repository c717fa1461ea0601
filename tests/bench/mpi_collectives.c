/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An MPI's collectives with nccl-tests' measure of them, to compare waylay-coll-perf with: the least
 * time of a few rounds, each the average of its calls on the slowest rank.
 *
 *   mpirun -n 2 mpi_collectives COLLECTIVE BYTES CALLS ROUNDS
 *
 * prints "COLLECTIVE BYTES TIME_US BUSBW_GBS" on rank 0. BYTES is the table's size as in nccl-tests:
 * for all_gather and reduce_scatter that of the larger buffer.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void call(const char *what, const float *send, float *recv, int count, int ranks)
{
	if (strcmp(what, "all_reduce") == 0)
		MPI_Allreduce(send, recv, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
	else if (strcmp(what, "all_gather") == 0)
		MPI_Allgather(send, count / ranks, MPI_FLOAT, recv, count / ranks, MPI_FLOAT,
			      MPI_COMM_WORLD);
	else
		MPI_Reduce_scatter_block(send, recv, count / ranks, MPI_FLOAT, MPI_SUM,
					 MPI_COMM_WORLD);
}

int main(int argc, char **argv)
{
	int rank, ranks, calls, rounds;
	double best = 1e30, factor;
	float *send, *recv;
	size_t bytes;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	if (argc != 5) {
		MPI_Finalize();
		return 64;
	}
	bytes = strtoull(argv[2], NULL, 10);
	calls = atoi(argv[3]);
	rounds = atoi(argv[4]);
	send = calloc(1, bytes);
	recv = calloc(1, bytes);
	if (!send || !recv) {
		MPI_Abort(MPI_COMM_WORLD, 1);
		return 1;
	}
	memset(send, 0, bytes); /* its pages are there */
	memset(recv, 0, bytes);
	call(argv[1], send, recv, (int)(bytes / sizeof(float)), ranks);
	for (int r = 0; r < rounds; r++) {
		double start, mine, slowest;

		MPI_Barrier(MPI_COMM_WORLD);
		start = MPI_Wtime();
		for (int i = 0; i < calls; i++)
			call(argv[1], send, recv, (int)(bytes / sizeof(float)), ranks);
		mine = (MPI_Wtime() - start) / calls;
		MPI_Allreduce(&mine, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
		if (slowest < best)
			best = slowest;
	}
	factor = (strcmp(argv[1], "all_reduce") == 0 ? 2.0 : 1.0) * (ranks - 1) / ranks;
	if (rank == 0)
		printf("%s %zu %.2f %.3f\n", argv[1], bytes, best * 1e6,
		       (double)bytes / best / 1e9 * factor);
	free(send);
	free(recv);
	MPI_Finalize();
	return 0;
}
