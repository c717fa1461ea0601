// SPDX-License-Identifier: Apache-2.0
//
// A program with the CUDA runtime linked in statically, as cuBLAS and NCCL have it: prime numbers of calls.
#include <cstdio>
#include <cstdlib>

__global__ void add(float *x, int n)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;
	if (i < n)
		x[i] += 1.0f;
}

#define CHECK(call)                                                                                \
	do {                                                                                       \
		cudaError_t error_ = (call);                                                       \
		if (error_ != cudaSuccess) {                                                       \
			std::fprintf(stderr, "%s: %s\n", #call, cudaGetErrorString(error_));       \
			std::exit(1);                                                              \
		}                                                                                  \
	} while (0)

int main()
{
	const int n = 1 << 16;
	float *device, *pageable = new float[n], *pinned;
	cudaStream_t stream;

	CHECK(cudaMalloc(&device, n * sizeof(float)));
	CHECK(cudaMallocHost(&pinned, n * sizeof(float)));
	CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
	CHECK(cudaMemsetAsync(device, 0, n * sizeof(float), stream));
	for (int i = 0; i < 13; i++)
		add<<<n / 256, 256, 0, stream>>>(device, n);
	for (int i = 0; i < 7; i++)
		CHECK(cudaStreamSynchronize(stream));
	for (int i = 0; i < 5; i++)
		CHECK(cudaMemcpyAsync(pageable, device, n * sizeof(float), cudaMemcpyDeviceToHost, stream));
	for (int i = 0; i < 3; i++)
		CHECK(cudaMemcpyAsync(pinned, device, n * sizeof(float), cudaMemcpyDeviceToHost, stream));
	CHECK(cudaDeviceSynchronize());
	std::printf("%.1f %.1f\n", pageable[0], pinned[n - 1]);
	CHECK(cudaFree(device));
	CHECK(cudaFreeHost(pinned));
	CHECK(cudaStreamDestroy(stream));
	delete[] pageable;
	return 0;
}
