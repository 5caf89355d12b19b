// What the CUDA side of a Device asks of the driver and the runtime: streams, events, memory,
// shares of a GPU's multiprocessors. An interface, so that allocation, ordering and partition are
// tested on machines without a GPU (fake_driver.h). Thread-safe; handles are the driver's own. Any
// thread may make any call, whatever context it has made current, if any: calls have their GPU's
// current for as long as they take.
#ifndef DPIPE_CORE_TENSOR_CUDA_DRIVER_H_
#define DPIPE_CORE_TENSOR_CUDA_DRIVER_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "core/base/status.h"
#include "core/tensor/cuda/memory_keepers.h"
#include "core/tensor/dtype.h"
#include "core/tensor/ordered_sum.h"

// As cuda.h declares them: a Stream is a cudaStream_t, an Event a cudaEvent_t, a Graph a
// cudaGraphExec_t.
struct CUstream_st;
struct CUevent_st;
struct CUmemPoolHandle_st;
struct CUgraphExec_st;

namespace dpipe::cuda {

class HostQueue;

using Stream = CUstream_st*;
using Event = CUevent_st*;
using Pool = CUmemPoolHandle_st*;
using Graph = CUgraphExec_st*;

struct Gpu {
  int index = 0;
  std::string name;  // "NVIDIA H200"
  int capability_major = 0, capability_minor = 0;
  int multiprocessors = 0;
  int64_t memory_bytes = 0;
  std::string pci_bus_id;  // "0000:01:00.0"
};

// In what numbers a GPU's multiprocessors can be divided.
struct MultiprocessorRules {
  int total = 0;
  int least = 1;        // in a share
  int multiple_of = 1;  // every share
};

// A GPU, or a share of its multiprocessors (a green context). Streams made in it stay in it.
struct Context {
  int gpu = 0;
  int multiprocessors = 0;
  void* green = nullptr;  // CUgreenCtx; null: the whole GPU
};

class Driver {
 public:
  virtual ~Driver() = default;

  // Those that this process may use; at least one. FailedPrecondition says why there is none.
  virtual absl::StatusOr<std::vector<Gpu>> Gpus() = 0;
  virtual absl::StatusOr<MultiprocessorRules> Rules(int gpu) = 0;
  // How many shares of `multiprocessors` there can be; the GPU's clusters may make it fewer
  // than what division gives.
  virtual absl::StatusOr<int> NumShares(int gpu, int multiprocessors) = 0;
  // `count` disjoint shares of `multiprocessors` each, which keeps the rules. They live as long as
  // the process.
  virtual absl::StatusOr<std::vector<Context>> Divide(int gpu, int count, int multiprocessors) = 0;
  // For the calling thread.
  virtual absl::Status MakeCurrent(const Context& context) = 0;
  // Calls `work`, which is about what lives in the context, by any thread: with that current, where
  // it is the calling thread's, or else the GPU as a whole, for a share is one thread's at a time.
  // Then the thread's is what it was.
  virtual void Within(const Context& context, const std::function<void()>& work) = 0;

  // Streams do not wait for the default stream.
  virtual absl::StatusOr<Stream> CreateStream(const Context& context) = 0;
  virtual void DestroyStream(Stream stream) = 0;  // what is enqueued still runs
  virtual absl::Status Synchronize(Stream stream) = 0;

  virtual absl::StatusOr<Event> CreateEvent(const Context& context) = 0;
  virtual void DestroyEvent(Event event) = 0;
  virtual absl::Status Record(Event event, Stream stream) = 0;
  virtual absl::Status Wait(Stream stream, Event event) = 0;
  virtual absl::StatusOr<bool> Done(Event event) = 0;
  virtual absl::Status Synchronize(Event event) = 0;
  // The time from `begin` to `end`, two events that are done; may be negative.
  virtual absl::StatusOr<int64_t> ElapsedNs(Event begin, Event end) = 0;

  // A pool keeps what is freed into it until it is trimmed. Trim gives back what is known to be
  // free: something must have waited for the stream that it was freed on.
  virtual absl::StatusOr<Pool> CreatePool(const Context& context) = 0;
  virtual void DestroyPool(Pool pool) = 0;
  // In the stream's order. ResourceExhausted where the GPU has no more.
  virtual absl::StatusOr<void*> Allocate(Pool pool, int64_t size_bytes, Stream stream) = 0;
  virtual absl::Status Free(void* data, Stream stream) = 0;
  virtual absl::Status Trim(Pool pool) = 0;
  virtual absl::StatusOr<int64_t> ReservedBytes(Pool pool) = 0;

  // Host memory that the GPU, and every other one, can reach by itself.
  virtual absl::StatusOr<void*> AllocatePinned(const Context& context, int64_t size_bytes) = 0;
  virtual void FreePinned(void* data) = 0;

  // Enqueued. Either side may be pinned host memory or memory of the stream's GPU.
  virtual absl::Status Copy(void* to, const void* from, int64_t size_bytes, Stream stream) = 0;
  // Between the memory of two GPUs, on a stream of either.
  virtual absl::Status CopyBetween(void* to, int to_gpu, const void* from, int from_gpu,
                                   int64_t size_bytes, Stream stream) = 0;
  virtual absl::Status Fill(void* data, int value, int64_t size_bytes, Stream stream) = 0;
  virtual absl::Status Convert(void* to, DType to_dtype, const void* from, DType from_dtype,
                               int64_t count, Stream stream) = 0;
  // As Device::AddUp.
  virtual absl::Status AddUp(absl::Span<const OrderedSum> sums, Stream stream) = 0;

  // Enqueues a wait of about that long, of at most a second.
  virtual absl::Status Delay(int64_t duration_ns, Stream stream) = 0;

  // What is enqueued on `stream` from now on is recorded instead of run; and what other streams do
  // after they have waited for an event of it, until it has waited for one of theirs. Until the end
  // the calling thread must not wait for, query or allocate anything, nor may anybody allocate on
  // such a stream, wait for it, or let it wait for an event from elsewhere: those calls fail, and
  // so does EndCapture.
  virtual absl::Status BeginCapture(Stream stream) = 0;
  // By the same thread; the capture is over whether or not this succeeds. The addresses and numbers
  // that calls were given are the graph's for good: their memory must outlive it. The graph has
  // what it needs on the GPU, so that launches want no more memory.
  virtual absl::StatusOr<Graph> EndCapture(Stream stream) = 0;
  // Likewise, where nobody wants the graph.
  virtual void DropCapture(Stream stream) = 0;
  // Enqueues all that the graph has recorded.
  virtual absl::Status Launch(Graph graph, Stream stream) = 0;
  // No launch of it is under way.
  virtual void DestroyGraph(Graph graph) = 0;

  // Where our own kernels are to be emulated; null: on the GPU.
  virtual HostQueue* host_queue() { return nullptr; }

  // Those whose pools keep memory of its GPUs: to be asked where a GPU has no more.
  MemoryKeepers& memory_keepers() { return memory_keepers_; }

 private:
  MemoryKeepers memory_keepers_;
};

}  // namespace dpipe::cuda

#endif  // DPIPE_CORE_TENSOR_CUDA_DRIVER_H_
