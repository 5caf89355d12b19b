// Captures and graphs of the runtime driver.
#include <cuda_runtime_api.h>

#include "core/tensor/cuda/runtime_driver.h"

namespace dpipe::cuda {

// Thread-local mode, because other threads of the process keep using their streams while this one
// records.
absl::Status RuntimeDriver::BeginCapture(Stream stream) {
  return WithContext(streams_.At(stream), [&] {
    return RuntimeStatus(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal),
                         "cudaStreamBeginCapture");
  });
}

// The stream executes work again after the end of the capture, so the graph can be uploaded on it.
absl::StatusOr<Graph> RuntimeDriver::EndCapture(Stream stream) {
  const Place place = streams_.At(stream);
  Graph graph = nullptr;
  const absl::Status status = WithContext(place, [&]() -> absl::Status {
    cudaGraph_t recorded = nullptr;
    DPIPE_RUNTIME(cudaStreamEndCapture(stream, &recorded));
    absl::Status made =
        RuntimeStatus(cudaGraphInstantiate(&graph, recorded, 0), "cudaGraphInstantiate");
    RuntimeStatus(cudaGraphDestroy(recorded), "cudaGraphDestroy").IgnoreError();
    DPIPE_RETURN_IF_ERROR(made);
    made = RuntimeStatus(cudaGraphUpload(graph, stream), "cudaGraphUpload");
    if (!made.ok()) RuntimeStatus(cudaGraphExecDestroy(graph), "").IgnoreError();
    return made;
  });
  // Clears the error that failed kernel launches during the capture left to the thread.
  cudaGetLastError();
  DPIPE_RETURN_IF_ERROR(status);
  graphs_.Put(graph, place);
  return graph;
}

void RuntimeDriver::DropCapture(Stream stream) {
  WithContext(streams_.At(stream), [&]() -> absl::Status {
    cudaGraph_t recorded = nullptr;
    DPIPE_RUNTIME(cudaStreamEndCapture(stream, &recorded));
    return RuntimeStatus(cudaGraphDestroy(recorded), "cudaGraphDestroy");
  }).IgnoreError();
  cudaGetLastError();
}

absl::Status RuntimeDriver::Launch(Graph graph, Stream stream) {
  return WithContext(streams_.At(stream), [&] {
    return RuntimeStatus(cudaGraphLaunch(graph, stream), "cudaGraphLaunch");
  });
}

void RuntimeDriver::DestroyGraph(Graph graph) {
  WithGpu(graphs_.Take(graph).gpu, [&] {
    return RuntimeStatus(cudaGraphExecDestroy(graph), "cudaGraphExecDestroy");
  }).IgnoreError();
}

}  // namespace dpipe::cuda
