// Streams, events, captures and graphs of the runtime driver.
#include <cuda_runtime_api.h>

#include <cmath>

#include "core/tensor/cuda/runtime_driver.h"

namespace dpipe::cuda {

absl::StatusOr<Stream> RuntimeDriver::CreateStream(const Context& context) {
  DPIPE_ASSIGN_OR_RETURN(const CUcontext own, Own(context));
  DPIPE_ASSIGN_OR_RETURN(const Stream stream, NewStream(context));
  streams_.Put(stream, {context.gpu, own});
  return stream;
}

void RuntimeDriver::DestroyStream(Stream stream) {
  WithGpu(streams_.Take(stream).gpu, [&] {
    return RuntimeStatus(cudaStreamDestroy(stream), "cudaStreamDestroy");
  }).IgnoreError();
}

absl::StatusOr<Stream> RuntimeDriver::NewStream(const Context& context) {
  Stream stream;
  if (context.green == nullptr) {
    DPIPE_RETURN_IF_ERROR(WithPrimary(context.gpu, [&]() -> absl::Status {
      DPIPE_RUNTIME(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
      return absl::OkStatus();
    }));
    return stream;
  }
  DPIPE_ASSIGN_OR_RETURN(const DriverApi* const api, LoadDriver());
  DPIPE_DRIVER(cuGreenCtxStreamCreate(&stream, static_cast<CUgreenCtx>(context.green),
                                      CU_STREAM_NON_BLOCKING, 0));
  return stream;
}

absl::Status RuntimeDriver::Synchronize(Stream stream) {
  return WithGpuOf(stream, [&] {
    return RuntimeStatus(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
  });
}

// An event and the streams that record it must be of the same context. For streams of green
// contexts this is the primary context that they share (cuEventRecord, cuGreenCtxRecordEvent,
// cuStreamGetCtx_v2). So the event is created in the primary context: the calling thread's context
// may be that of any share, and the context's own may be current to another thread.
absl::StatusOr<Event> RuntimeDriver::CreateEvent(const Context& context) {
  Event event;
  DPIPE_RETURN_IF_ERROR(WithPrimary(context.gpu, [&]() -> absl::Status {
    DPIPE_RUNTIME(cudaEventCreate(&event));
    return absl::OkStatus();
  }));
  events_.Put(event, {context.gpu});
  return event;
}

void RuntimeDriver::DestroyEvent(Event event) {
  WithGpu(events_.Take(event).gpu, [&] {
    return RuntimeStatus(cudaEventDestroy(event), "cudaEventDestroy");
  }).IgnoreError();
}

absl::Status RuntimeDriver::Record(Event event, Stream stream) {
  return WithGpuOf(
      stream, [&] { return RuntimeStatus(cudaEventRecord(event, stream), "cudaEventRecord"); });
}

absl::Status RuntimeDriver::Wait(Stream stream, Event event) {
  return WithGpuOf(stream, [&] {
    return RuntimeStatus(cudaStreamWaitEvent(stream, event, cudaEventWaitDefault),
                         "cudaStreamWaitEvent");
  });
}

absl::StatusOr<bool> RuntimeDriver::Done(Event event) {
  bool done = false;
  DPIPE_RETURN_IF_ERROR(WithGpu(events_.At(event).gpu, [&] {
    const cudaError_t error = cudaEventQuery(event);
    done = error != cudaErrorNotReady;
    const absl::Status status = RuntimeStatus(error, "cudaEventQuery");
    return done ? status : absl::OkStatus();
  }));
  return done;
}

absl::Status RuntimeDriver::Synchronize(Event event) {
  return WithGpu(events_.At(event).gpu, [&] {
    return RuntimeStatus(cudaEventSynchronize(event), "cudaEventSynchronize");
  });
}

absl::StatusOr<int64_t> RuntimeDriver::ElapsedNs(Event begin, Event end) {
  float milliseconds = 0;
  DPIPE_RETURN_IF_ERROR(WithGpu(events_.At(end).gpu, [&] {
    return RuntimeStatus(cudaEventElapsedTime(&milliseconds, begin, end), "cudaEventElapsedTime");
  }));
  return std::llround(double{milliseconds} * 1e6);
}

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
