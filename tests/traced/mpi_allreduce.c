/* SPDX-License-Identifier: Apache-2.0
 *
 * An MPI job of thirteen all-reduces; rank 0 prints their sums.
 */
#include <mpi.h>

#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
	int rank;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	for (int round = 0; round < 13; round++) {
		int count = 4 << round;
		float *in = malloc((size_t)count * sizeof(float));
		float *out = malloc((size_t)count * sizeof(float));
		double sum = 0;

		if (!in || !out)
			MPI_Abort(MPI_COMM_WORLD, 1);
		for (int i = 0; i < count; i++)
			in[i] = (float)(i + rank);
		MPI_Allreduce(in, out, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
		for (int i = 0; i < count; i++)
			sum += out[i];
		if (rank == 0)
			(void)printf("%d %.1f\n", count, sum);
		free(in);
		free(out);
	}
	MPI_Finalize();
	return 0;
}
