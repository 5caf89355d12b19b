// A driver without a GPU, for tests.
#ifndef DPIPE_CORE_TENSOR_CUDA_TESTING_FAKE_DRIVER_H_
#define DPIPE_CORE_TENSOR_CUDA_TESTING_FAKE_DRIVER_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "core/base/philox.h"
#include "core/tensor/cuda/driver.h"
#include "core/tensor/cuda/host_queue.h"
#include "core/tensor/cuda/testing/fake_capture.h"
#include "core/tensor/cuda/testing/fake_contexts.h"
#include "core/tensor/cuda/testing/hidden_memory.h"

namespace dpipe::cuda {

// Simulates the driver in host memory, and reports incorrect use.
//
// Execution: enqueued work does not run by itself. Calls that wait or query run it, one piece at a
// time, each from a stream chosen at random among those that can proceed. So every order that
// streams and events allow can occur. Our own kernels run like any other work (EnqueueKernel).
//
// Memory: access to memory outside a live block, or to memory freed earlier in the stream's order,
// is a violation. Freed memory is filled with 0xdd and fresh memory with 0xcd, in large blocks only
// the first 64 MiB.
//
// Captures: captured work runs when its graph is launched, with the memory that it was given at the
// capture, in any order that the captured streams allow. Everything that CUDA forbids during a
// capture fails and spoils the capture. So do copies and fills of unallocated memory.
//
// Contexts: the rules are CUDA's.
// - A thread that calls EnqueueKernel must have the stream's context or its GPU's primary one
//   current.
// - Work on a stream uses memory of its own GPU, except copies that name both GPUs.
// - A green context is current to one thread at a time.
// - Events are recorded on their own GPU.
class FakeDriver : public Driver, public HostQueue {
 public:
  explicit FakeDriver(uint64_t seed = 1);
  ~FakeDriver() override;

  // Returns descriptions of all violations so far.
  std::vector<std::string> violations() const;
  // Runs everything that can run.
  void RunAll();
  int64_t live_bytes() const;    // allocated, and not freed by work that has run
  int num_live_handles() const;  // streams, events, pools, pinned buffers, graphs
  int64_t num_launches() const;  // of graphs
  // Returns how often the call of that name ("Copy", "Record", ...) has been made.
  int64_t num_calls(const std::string& call) const;
  // Makes an allocation fail if the GPU's pools would have to reserve more than `bytes` for it; 0:
  // no limit.
  void set_memory_limit(int64_t bytes);
  // Makes calls that enqueue work wait while `count` pieces of work are on the stream; 0: no limit.
  // On a real GPU, queues hold about a thousand launches.
  void set_queue_limit(size_t count);
  // True if `count` more pieces of work can be enqueued now without waiting.
  bool HasRoom(Stream stream, size_t count) const;
  // Returns the context that is current to the calling thread.
  std::optional<Context> current() const { return contexts_.Current(); }
  // Hides memory that is allocated from now on from the host, which crashes if it touches it.
  void HideMemory();
  // Makes the next call of that name ("Copy", "Record", ...) fail once.
  void FailNext(const std::string& call);
  // Simulates an illegal access by a kernel: no work runs any more, and every call fails with
  // `error`.
  void Break(const std::string& error);
  std::vector<Gpu>& gpus() { return gpus_; }
  // Sets the number of GPUs to `count`, all like the first, numbered from 0. Call this before any
  // is used.
  void SetNumGpus(int count);
  MultiprocessorRules& rules() { return rules_; }
  // If true, events get the real time at which they are reached, as traces require. Otherwise each
  // piece of work takes one simulated microsecond.
  bool by_the_clock = false;
  // Number of shares lost to the GPU's clusters, relative to the quotient.
  int lost_shares = 0;

  absl::StatusOr<std::vector<Gpu>> Gpus() override;
  absl::StatusOr<MultiprocessorRules> Rules(int gpu) override { return rules_; }
  absl::StatusOr<int> NumShares(int gpu, int multiprocessors) override;
  absl::StatusOr<std::vector<Context>> Divide(int gpu, int count, int multiprocessors) override;
  absl::Status MakeCurrent(const Context& context) override;
  void Within(const Context& context, const std::function<void()>& work) override;
  absl::StatusOr<Stream> CreateStream(const Context& context) override;
  void DestroyStream(Stream stream) override;
  absl::Status Synchronize(Stream stream) override;
  absl::StatusOr<Event> CreateEvent(const Context& context) override;
  void DestroyEvent(Event event) override;
  absl::Status Record(Event event, Stream stream) override;
  absl::Status Wait(Stream stream, Event event) override;
  absl::StatusOr<bool> Done(Event event) override;
  absl::Status Synchronize(Event event) override;
  absl::StatusOr<int64_t> ElapsedNs(Event begin, Event end) override;
  absl::StatusOr<Pool> CreatePool(const Context& context) override;
  void DestroyPool(Pool pool) override;
  absl::StatusOr<void*> Allocate(Pool pool, int64_t size_bytes, Stream stream) override;
  absl::Status Free(void* data, Stream stream) override;
  absl::Status Trim(Pool pool) override;
  absl::StatusOr<int64_t> ReservedBytes(Pool pool) override;
  absl::StatusOr<void*> AllocatePinned(const Context& context, int64_t size_bytes) override;
  void FreePinned(void* data) override;
  absl::Status Copy(void* to, const void* from, int64_t size_bytes, Stream stream) override;
  absl::Status CopyBetween(void* to, int to_gpu, const void* from, int from_gpu, int64_t size_bytes,
                           Stream stream) override;
  absl::Status Fill(void* data, int value, int64_t size_bytes, Stream stream) override;
  absl::Status Convert(void* to, DType to_dtype, const void* from, DType from_dtype, int64_t count,
                       Stream stream) override;
  absl::Status AddUp(absl::Span<const OrderedSum> sums, Stream stream) override;
  absl::Status Delay(int64_t duration_ns, Stream stream) override;
  absl::Status BeginCapture(Stream stream) override;
  absl::StatusOr<Graph> EndCapture(Stream stream) override;
  void DropCapture(Stream stream) override;
  absl::Status Launch(Graph graph, Stream stream) override;
  void DestroyGraph(Graph graph) override;
  HostQueue* host_queue() override { return this; }
  void EnqueueKernel(void* stream, std::function<void()> kernel, const void* arguments,
                     size_t size_bytes) override;
  // Enqueues any other work that reads and writes memory. It runs when it is first on its stream
  // and `ready` returns true (null: always). Both are called under the driver's lock.
  absl::Status Enqueue(Stream stream, std::function<void()> work,
                       std::function<bool()> ready = nullptr);
  // Call this when the result of some `ready` may have changed.
  void Poke();

 private:
  // The n-th recording of an event is done when `done` >= n.
  struct EventState {
    int64_t recorded = 0;
    int64_t done = 0;
    int64_t time_ns = 0;
    bool destroyed = false;
  };
  struct Work {
    std::function<void()> run = nullptr;
    std::function<bool()> ready = nullptr;
    Event waits_for = nullptr;  // null: none
    int64_t recording = 0;      // number of the recording of `waits_for` to wait for
    std::shared_ptr<FakeGraphRun> graph = nullptr;  // instead of `run`
  };
  // An event recorded on a captured stream: its capture, and the nodes it comes after.
  struct CapturedEvent {
    std::shared_ptr<FakeCapture> capture;
    std::vector<int> after;
  };
  // A pool reserves the maximum of its live bytes since it was last trimmed. Once destroyed, it
  // reserves only its live bytes.
  struct PoolState {
    int gpu = 0;
    int64_t live_bytes = 0;
    int64_t reserved_bytes = 0;
    bool destroyed = false;
  };
  struct Block {
    std::unique_ptr<char[]> data;  // null: hidden
    int64_t size_bytes = 0;
    Pool pool = nullptr;
    bool live = true;
  };

  template <typename Handle>
  Handle NewHandle() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return reinterpret_cast<Handle>(next_handle_++ << 4);
  }
  absl::Status Push(const char* call, Stream stream, Work work)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool HasRoomFor(size_t count, Stream stream) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Counts the call, and returns the error set by FailNext or Break, if any.
  absl::Status Failure(const std::string& call) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Adds a violation, unless it is empty.
  void Tell(const std::string& wrong) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Runs work until `reached` returns true. If no work can run, waits for other threads to enqueue
  // some, with a time limit.
  template <typename Reached>
  void RunUntil(const Reached& reached) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Runs work while `wanted` returns true and work can run. Returns true if anything has run.
  template <typename Wanted>
  bool RunWhile(const Wanted& wanted) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Runs one piece of work. Returns false if none can run.
  bool RunOne() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool IsDone(Event event, int64_t recording) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  int64_t ReservedOn(int gpu) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Checks that the memory is allocated and live. Returns its pool, or null for pinned and unknown
  // memory.
  Pool CheckAccess(const char* what, const void* data, int64_t size_bytes)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Also checks that the stream's GPU can reach the memory.
  void CheckAccess(const char* what, const void* data, int64_t size_bytes, Stream stream)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Returns the capture that the stream takes part in; null: none.
  FakeCapture* CaptureOf(Stream stream) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Returns the error of a call that a capturing thread must not make.
  absl::Status Unsafe(const char* call) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Also covers a stream or event that is being captured.
  absl::Status Unsafe(const char* call, Stream stream) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status Unsafe(const char* call, Event event) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status CaptureWait(Stream stream, Event event) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Ends and returns the capture that this thread has begun with this stream.
  absl::StatusOr<std::shared_ptr<FakeCapture>> TakeCapture(Stream stream)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Returns the error of a captured copy or fill if part of its memory is unallocated.
  absl::Status Captured(const char* call, Stream stream, const void* data, int64_t size_bytes)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Returns the block that contains the whole range; null: none.
  const Block* FindBlock(const void* data, int64_t size_bytes) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  std::vector<Gpu> gpus_;
  MultiprocessorRules rules_;
  FakeContexts contexts_;
  mutable absl::Mutex mutex_;
  std::unique_ptr<HiddenMemory> hidden_ ABSL_GUARDED_BY(mutex_);  // null: the host may touch it
  absl::CondVar changed_;
  RandomStream random_ ABSL_GUARDED_BY(mutex_);
  int64_t next_handle_ ABSL_GUARDED_BY(mutex_) = 1;
  int64_t clock_ns_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t memory_limit_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t queue_limit_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<std::string, int64_t> num_calls_ ABSL_GUARDED_BY(mutex_);
  std::string fail_next_ ABSL_GUARDED_BY(mutex_);
  absl::Status broken_ ABSL_GUARDED_BY(mutex_);
  std::map<Stream, std::deque<Work>> streams_ ABSL_GUARDED_BY(mutex_);
  std::map<Event, EventState> events_ ABSL_GUARDED_BY(mutex_);
  std::map<Pool, PoolState> pools_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::shared_ptr<FakeCapture>> captures_ ABSL_GUARDED_BY(mutex_);  // in progress
  std::map<Event, CapturedEvent> captured_events_ ABSL_GUARDED_BY(mutex_);
  std::map<Graph, std::shared_ptr<const FakeGraph>> graphs_ ABSL_GUARDED_BY(mutex_);
  int64_t num_launches_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t live_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<const char*, Block> blocks_ ABSL_GUARDED_BY(mutex_);  // by first byte; also freed ones
  std::map<const char*, Block> pinned_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::string> violations_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace dpipe::cuda

#endif  // DPIPE_CORE_TENSOR_CUDA_TESTING_FAKE_DRIVER_H_
