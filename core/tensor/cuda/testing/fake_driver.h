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

// Nothing that is enqueued runs by itself. Whoever waits or asks makes it run, one piece of work at
// a time, each time of a stream chosen at random among those that could go on: every order that
// streams and events allow can come up. Work that touches memory outside a live block, or that was
// freed in the stream's order before, is a violation; freed memory is filled with 0xdd, fresh
// memory with 0xcd, of large blocks the first 64 MiB. Our own kernels run as any other work
// (EnqueueKernel). What is captured runs when its graph is launched, with the memory that it was
// given then, in any order that the streams allow that were captured; everything that CUDA forbids
// during a capture fails and spoils it, as do copies and fills of memory that nobody has. Of
// contexts it wants what CUDA does: EnqueueKernel is called by threads that have made the stream's
// current, or its GPU's primary one; what a stream does uses its own GPU's memory, except copies
// that name both GPUs; a green one is current to one thread at a time; events are recorded on their
// own GPU.
class FakeDriver : public Driver, public HostQueue {
 public:
  explicit FakeDriver(uint64_t seed = 1);
  ~FakeDriver() override;

  // What was wrong so far, in words; empty: nothing.
  std::vector<std::string> violations() const;
  // Runs everything that can run.
  void RunAll();
  int64_t live_bytes() const;    // allocated, and not freed by work that has run
  int num_live_handles() const;  // streams, events, pools, pinned buffers, graphs
  int64_t num_launches() const;  // of graphs
  // How often a call of that name ("Copy", "Record", ...) has been made.
  int64_t num_calls(const std::string& call) const;
  // Lets allocations fail for which a GPU's pools would have to reserve more than `bytes`; 0: no
  // limit.
  void set_memory_limit(int64_t bytes);
  // Calls that enqueue something wait while `count` pieces of work are on the stream, as on a GPU,
  // whose queues hold about a thousand launches. 0: no limit.
  void set_queue_limit(size_t count);
  // Whether `count` more pieces of work can be enqueued now without waiting.
  bool HasRoom(Stream stream, size_t count) const;
  // What the calling thread has made current.
  std::optional<Context> current() const { return contexts_.Current(); }
  // From now on the host cannot touch what is allocated: it crashes where it tries.
  void HideMemory();
  // The next call of that name ("Copy", "Record", ...) fails once.
  void FailNext(const std::string& call);
  // What a kernel's illegal access does: nothing runs any more, and every call fails with `error`.
  void Break(const std::string& error);
  std::vector<Gpu>& gpus() { return gpus_; }
  // Has `count` GPUs like the first, numbered from 0. Before any is used.
  void SetNumGpus(int count);
  MultiprocessorRules& rules() { return rules_; }
  // Events are reached at the time that it is, as traces want it; else a microsecond passes for
  // each piece of work.
  bool by_the_clock = false;
  // Shares that the GPU's clusters cost beyond what division gives.
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
  // Anything else that reads and writes memory. Runs when its turn has come and `ready` (null: at
  // once) says so. Both are called under the driver's lock.
  absl::Status Enqueue(Stream stream, std::function<void()> work,
                       std::function<bool()> ready = nullptr);
  // What some `ready` depends on has changed.
  void Poke();

 private:
  // An event's n-th recording is done when `done` has reached n.
  struct EventState {
    int64_t recorded = 0;
    int64_t done = 0;
    int64_t time_ns = 0;
    bool destroyed = false;
  };
  struct Work {
    std::function<void()> run = nullptr;
    std::function<bool()> ready = nullptr;
    Event waits_for = nullptr;  // and for which recording
    int64_t recording = 0;
    std::shared_ptr<FakeGraphRun> graph = nullptr;  // instead of `run`
  };
  // Recorded on a stream that was being captured: in what, and after which of its nodes.
  struct CapturedEvent {
    std::shared_ptr<FakeCapture> capture;
    std::vector<int> after;
  };
  // It keeps what was live at most since it was trimmed; destroyed, what is live still.
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
  // The error of a call that FailNext or Break lets fail; else OK.
  absl::Status Failure(const std::string& call) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // A violation, unless it is empty.
  void Tell(const std::string& wrong) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Runs until there is nothing to wait for. What other threads may still bring is waited for too,
  // but not for ever.
  template <typename Reached>
  void RunUntil(const Reached& reached) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Whether anything has run.
  template <typename Wanted>
  bool RunWhile(const Wanted& wanted) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // False where nothing can go on.
  bool RunOne() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool IsDone(Event event, int64_t recording) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  int64_t ReservedOn(int gpu) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The pool of the memory, null for pinned and for unknown memory.
  Pool CheckAccess(const char* what, const void* data, int64_t size_bytes)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Also that the stream's GPU reaches it.
  void CheckAccess(const char* what, const void* data, int64_t size_bytes, Stream stream)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The capture that a stream takes part in; null: none.
  FakeCapture* CaptureOf(Stream stream) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The error of a call that must not be made by a thread that captures;
  absl::Status Unsafe(const char* call) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // nor for a stream, or an event, that is being captured.
  absl::Status Unsafe(const char* call, Stream stream) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status Unsafe(const char* call, Event event) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status CaptureWait(Stream stream, Event event) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Ends the capture that this thread has begun with this stream.
  absl::StatusOr<std::shared_ptr<FakeCapture>> TakeCapture(Stream stream)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The error of a copy or fill that is captured there, where part of its memory is nobody's.
  absl::Status Captured(const char* call, Stream stream, const void* data, int64_t size_bytes)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The block that has all of it; null: none.
  const Block* FindBlock(const void* data, int64_t size_bytes) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  std::vector<Gpu> gpus_;
  MultiprocessorRules rules_;
  FakeContexts contexts_;
  mutable absl::Mutex mutex_;
  std::unique_ptr<HiddenMemory> hidden_ ABSL_GUARDED_BY(mutex_);  // null: memory is the host's too
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
  std::vector<std::shared_ptr<FakeCapture>> captures_ ABSL_GUARDED_BY(mutex_);  // under way
  std::map<Event, CapturedEvent> captured_events_ ABSL_GUARDED_BY(mutex_);
  std::map<Graph, std::shared_ptr<const FakeGraph>> graphs_ ABSL_GUARDED_BY(mutex_);
  int64_t num_launches_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t live_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<const char*, Block> blocks_ ABSL_GUARDED_BY(mutex_);  // by first byte; also dead ones
  std::map<const char*, Block> pinned_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::string> violations_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace dpipe::cuda

#endif  // DPIPE_CORE_TENSOR_CUDA_TESTING_FAKE_DRIVER_H_
