// The calls of the CUDA driver and runtime that CudaDevice needs: streams, events, memory and
// shares of a GPU's multiprocessors. This is an interface, so that allocation, ordering and
// partitioning can be tested on machines without a GPU (testing/fake_driver.h).
//
// Thread-safe. Handles are the driver's own. Any thread may make any call, regardless of its
// current context: each call makes a context of its GPU current for its duration.
#ifndef DPIPE_CORE_TENSOR_CUDA_DRIVER_H_
#define DPIPE_CORE_TENSOR_CUDA_DRIVER_H_

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "core/base/status.h"
#include "core/tensor/dtype.h"
#include "core/tensor/ordered_sum.h"

// Declared as in cuda.h. A Stream is a cudaStream_t, an Event a cudaEvent_t, a Graph a
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

// Constraints on the division of a GPU's multiprocessors.
struct MultiprocessorRules {
  int total = 0;
  int least = 1;        // minimum per share
  int multiple_of = 1;  // of each share
};

// A GPU, or a share of its multiprocessors (a green context). Streams created in it stay in it.
struct Context {
  int gpu = 0;
  int multiprocessors = 0;
  void* green = nullptr;  // CUgreenCtx; null: the whole GPU
};

// An owner of unused GPU memory that others could use.
class MemoryKeeper {
 public:
  virtual ~MemoryKeeper() = default;
  // Returns unused memory to the GPU without waiting. Any thread may call this. Returns true if
  // more memory will become free when the GPU has finished its enqueued work.
  virtual bool ReleaseUnused() = 0;
};

// Thread-safe.
class MemoryKeepers {
 public:
  void Add(int gpu, MemoryKeeper* keeper) ABSL_LOCKS_EXCLUDED(mutex_);
  // After this returns, no call of the keeper is in progress or will follow.
  void Remove(MemoryKeeper* keeper) ABSL_LOCKS_EXCLUDED(mutex_);
  // Calls ReleaseUnused of all keepers of that GPU, one after another. Returns true if any of them
  // will have more. The calling thread must hold no lock that a keeper takes.
  bool ReleaseUnused(int gpu) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  absl::Mutex mutex_;
  std::vector<std::pair<int, MemoryKeeper*>> keepers_ ABSL_GUARDED_BY(mutex_);  // GPU and keeper
};

class Driver {
 public:
  virtual ~Driver() = default;

  // Returns the GPUs that this process may use, at least one. FailedPrecondition, with the reason,
  // if there is none.
  virtual absl::StatusOr<std::vector<Gpu>> Gpus() = 0;
  virtual absl::StatusOr<MultiprocessorRules> Rules(int gpu) = 0;
  // Returns how many shares of `multiprocessors` each are possible. Because of the GPU's clusters,
  // this may be fewer than the quotient.
  virtual absl::StatusOr<int> NumShares(int gpu, int multiprocessors) = 0;
  // Creates `count` disjoint shares of `multiprocessors` each, which must satisfy Rules(). The
  // shares live as long as the process.
  virtual absl::StatusOr<std::vector<Context>> Divide(int gpu, int count, int multiprocessors) = 0;
  // Makes the context current to the calling thread.
  virtual absl::Status MakeCurrent(const Context& context) = 0;
  // Calls `work`, which uses or destroys objects of `context`. Any thread may call this. If
  // `context` is current to the calling thread, it stays so during the call. Otherwise the context
  // of the whole GPU is made current, because a share may be current to only one thread at a time.
  // Restores the thread's context afterwards.
  virtual void Within(const Context& context, const std::function<void()>& work) = 0;

  // Creates a stream that does not wait for the default stream.
  virtual absl::StatusOr<Stream> CreateStream(const Context& context) = 0;
  virtual void DestroyStream(Stream stream) = 0;  // enqueued work still runs
  virtual absl::Status Synchronize(Stream stream) = 0;

  virtual absl::StatusOr<Event> CreateEvent(const Context& context) = 0;
  virtual void DestroyEvent(Event event) = 0;
  virtual absl::Status Record(Event event, Stream stream) = 0;
  virtual absl::Status Wait(Stream stream, Event event) = 0;
  virtual absl::StatusOr<bool> Done(Event event) = 0;
  virtual absl::Status Synchronize(Event event) = 0;
  // Returns the time from `begin` to `end`, both of which must be done. It may be negative.
  virtual absl::StatusOr<int64_t> ElapsedNs(Event begin, Event end) = 0;

  // A pool keeps freed memory until it is trimmed. Trim returns only memory that is known to be
  // free: something must have waited for the stream on which it was freed.
  virtual absl::StatusOr<Pool> CreatePool(const Context& context) = 0;
  virtual void DestroyPool(Pool pool) = 0;
  // Allocates in the stream's order. ResourceExhausted if the GPU has no more memory.
  virtual absl::StatusOr<void*> Allocate(Pool pool, int64_t size_bytes, Stream stream) = 0;
  virtual absl::Status Free(void* data, Stream stream) = 0;
  virtual absl::Status Trim(Pool pool) = 0;
  virtual absl::StatusOr<int64_t> ReservedBytes(Pool pool) = 0;

  // Allocates host memory that this GPU and all others can access directly.
  virtual absl::StatusOr<void*> AllocatePinned(const Context& context, int64_t size_bytes) = 0;
  virtual void FreePinned(void* data) = 0;

  // Enqueues a copy. Either side may be pinned host memory or memory of the stream's GPU.
  virtual absl::Status Copy(void* to, const void* from, int64_t size_bytes, Stream stream) = 0;
  // Enqueues a copy between the memory of two GPUs, on a stream of either.
  virtual absl::Status CopyBetween(void* to, int to_gpu, const void* from, int from_gpu,
                                   int64_t size_bytes, Stream stream) = 0;
  virtual absl::Status Fill(void* data, int value, int64_t size_bytes, Stream stream) = 0;
  virtual absl::Status Convert(void* to, DType to_dtype, const void* from, DType from_dtype,
                               int64_t count, Stream stream) = 0;
  // Enqueues sums; see Device::AddUp.
  virtual absl::Status AddUp(absl::Span<const OrderedSum> sums, Stream stream) = 0;

  // Enqueues a wait of about `duration_ns`, at most one second.
  virtual absl::Status Delay(int64_t duration_ns, Stream stream) = 0;

  // Starts a capture: work that is enqueued on `stream` from now on is recorded and not run. A
  // stream that waits for an event of a captured stream joins the capture, until `stream` has
  // waited for an event of it.
  //
  // Until the end of the capture, the calling thread must not wait for, query or allocate anything.
  // No thread may allocate on a captured stream, wait for it, or let it wait for an event from
  // outside the capture. Such calls fail, and EndCapture then fails too.
  virtual absl::Status BeginCapture(Stream stream) = 0;
  // Ends the capture and returns its graph. Must be called by the thread that began it. The capture
  // is over even if this fails. The graph keeps the addresses and numbers that the captured calls
  // were given: their memory must outlive it. The graph is uploaded to the GPU, so launches need no
  // more memory.
  virtual absl::StatusOr<Graph> EndCapture(Stream stream) = 0;
  // Like EndCapture, but discards the graph.
  virtual void DropCapture(Stream stream) = 0;
  // Enqueues all the work that the graph has recorded.
  virtual absl::Status Launch(Graph graph, Stream stream) = 0;
  // No launch of the graph may be in flight.
  virtual void DestroyGraph(Graph graph) = 0;

  // Returns the queue that emulates our own kernels, or null if they run on the GPU.
  virtual HostQueue* host_queue() { return nullptr; }

  // Returns the owners of pools that keep memory of this driver's GPUs. They are asked to release
  // memory when a GPU has no more.
  MemoryKeepers& memory_keepers() { return memory_keepers_; }

 private:
  MemoryKeepers memory_keepers_;
};

// Virtual GPUs: division of one GPU's multiprocessors.
//
// Returns the maximum number of multiprocessors that each of `count` equal shares of the GPU can
// have. The remainder stays unused, because unequal devices would make unequal stages.
// InvalidArgument if a share would be smaller than the GPU allows; the message names the GPU, both
// counts and the limit.
absl::StatusOr<int> MultiprocessorsOfShare(Driver* driver, const Gpu& gpu, int count);

// Describes the GPU, as in "GPU 0 (NVIDIA H200, compute capability 9.0, 132 multiprocessors, 139.8
// GiB)".
std::string DescribeGpu(const Gpu& gpu);

}  // namespace dpipe::cuda

#endif  // DPIPE_CORE_TENSOR_CUDA_DRIVER_H_
