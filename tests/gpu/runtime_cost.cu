// SPDX-License-Identifier: Apache-2.0
//
// What calls of the CUDA runtime cost, in ns: a line a call, the median of rounds. Run bare and under observers.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include <cuda_runtime.h>

static const int rounds = 15, calls = 1009;
static cudaStream_t stream;
static cudaEvent_t event;
static void *device, *pinned;

__global__ void nothing()
{
}

template <typename Call> static void measure(const char *name, Call call)
{
	double ns[rounds];

	for (double &round : ns) {
		// As a job that is not in calls all the time, so that observers' threads keep up.
		std::this_thread::sleep_for(std::chrono::milliseconds(15));
		auto begin = std::chrono::steady_clock::now();
		for (int i = 0; i < calls; i++)
			call();
		std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - begin;
		round = took.count() / calls;
		if (cudaStreamSynchronize(stream) != cudaSuccess)
			std::exit(1);
	}
	std::sort(ns, ns + rounds);
	std::printf("%s|%.1f\n", name, ns[rounds / 2]);
}

int main()
{
	if (cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) || cudaEventCreate(&event) ||
	    cudaMalloc(&device, 4096) || cudaMallocHost(&pinned, 4096) || cudaEventRecord(event, stream))
		return 1;
	nothing<<<1, 1, 0, stream>>>();
	measure("cudaStreamQuery, done", [] { cudaStreamQuery(stream); });
	measure("cudaEventQuery, done", [] { cudaEventQuery(event); });
	measure("cudaStreamSynchronize, idle", [] { cudaStreamSynchronize(stream); });
	measure("cudaEventSynchronize, done", [] { cudaEventSynchronize(event); });
	measure("cudaEventRecord", [] { cudaEventRecord(event, stream); });
	measure("kernel<<<>>>", [] { nothing<<<1, 1, 0, stream>>>(); });
	measure("cudaMemcpyAsync to device, 64 B", [] { cudaMemcpyAsync(device, pinned, 64, cudaMemcpyHostToDevice, stream); });
	measure("cudaMemcpyAsync to host + wait", [] {
		cudaMemcpyAsync(pinned, device, 64, cudaMemcpyDeviceToHost, stream);
		cudaStreamSynchronize(stream);
	});
	return 0;
}
