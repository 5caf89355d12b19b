// A GPU's memory, handed out in the order of one stream.
#ifndef DPIPE_CORE_TENSOR_CUDA_STREAM_ORDERED_ALLOCATOR_H_
#define DPIPE_CORE_TENSOR_CUDA_STREAM_ORDERED_ALLOCATOR_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "core/tensor/allocator.h"
#include "core/tensor/cuda/arena.h"
#include "core/tensor/cuda/driver.h"
#include "core/tensor/cuda/memory_keepers.h"
#include "core/tensor/cuda/owned_event.h"

namespace dpipe::cuda {

// Blocks come from a pool of the driver that keeps what is freed: the same step repeated takes
// nothing from the system. A block that other streams use (AddUse) goes back to the pool only when
// they are done with it, which is checked whenever memory is requested; nobody waits, unless
// memory is short. What one allocator keeps no other can use: where the GPU has no more, all that
// take from it give up what they keep. Where every call to the GPU fails, blocks are addresses of
// no memory, for work that will be refused: the error is kept, and the process goes on to tell it.
//
// While the stream is captured nothing can be allocated from the pool. The capturing thread gets
// parts of a *room*, a block that was allocated before; others wait for the end of the capture, and
// what they free stays until then.
class StreamOrderedAllocator : public Allocator, public MemoryKeeper {
 public:
  // `driver` and `stream`, which is of `context`, outlive the allocator, which owns `pool`. `name`
  // is the device's. `keep` takes errors of the GPU, by the thread whose call met them and under
  // the allocator's lock.
  StreamOrderedAllocator(Driver* driver, const Context& context, Pool pool, Stream stream,
                         std::string name, std::function<void(const absl::Status&)> keep);
  // What is still allocated is lost to the pool, which lives on until it is freed.
  ~StreamOrderedAllocator() override;

  void* Allocate(int64_t size_bytes) override;
  void* AllocateIfRoom(int64_t size_bytes) override;
  void Free(void* data, int64_t size_bytes) override;
  MemoryStats stats() const override;
  void ResetPeak() override;
  void ReleaseCache() override;
  bool ReleaseUnused() override;
  void set_poison(bool poison) override { poison_ = poison; }

  // The blocks are in use by `user`, another stream, until it has come to `end`, an event of it.
  // None has been freed yet.
  void AddUse(absl::Span<void* const> blocks, Stream user, std::shared_ptr<const OwnedEvent> end);

  // How large a room the calling thread's requests between the two calls would have needed.
  void BeginMeasuring();
  int64_t EndMeasuring();

  // A block of that size, 0 or more. ResourceExhausted where the GPU has no more.
  absl::StatusOr<void*> MakeRoom(int64_t size_bytes);
  // From now on the calling thread allocates in the room; between the two it captures the stream.
  void EnterRoom(void* room);
  // Where the room was too small, ResourceExhausted with both sizes was kept. What did not fit has
  // had addresses in the room, for calls that are checked when they are captured, and that must
  // never be run.
  void LeaveRoom();
  // Frees the room when nothing of what was allocated there is left.
  void DropRoom(void* room);

 private:
  // Of several blocks by another stream.
  struct Use {
    Stream user;
    std::shared_ptr<const OwnedEvent> end;  // null: it is done
    std::vector<void*> leaving = {};        // those of the blocks that are freed
  };
  // The uses by one stream that are not known to be done, in its order. Where two threads give back
  // at once, two may be the wrong way round: one then only waits for the other, too.
  struct User {
    std::deque<std::shared_ptr<Use>> uses;
    int64_t num_leaving = 0;  // blocks of them, each as often as it is in a use
  };

  struct Room {
    int64_t size_bytes = 0;
    Arena arena;
    int misfits = 0;  // live blocks that did not fit, all at the room's beginning
    bool dropped = false;

    bool empty() const { return arena.empty() && misfits == 0; }
  };
  struct Measurement {
    std::thread::id thread;
    Arena arena;
    std::unordered_map<void*, int64_t> places;  // of live blocks
  };

  absl::StatusOr<void*> AllocateBlock(int64_t size_bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void FreeBlock(void* data, int64_t size_bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void* AllocateInRoom(int64_t size_bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void EndRoom(std::map<char*, Room>::iterator room) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // False where the block is in no room.
  bool FreeInRoom(void* data) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Poison(void* data, int64_t size_bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // After no block was to be had: an address to go on with, or an end with this error.
  void* WithoutBlock(const absl::Status& status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // What is to be had of the pool: not while another thread captures.
  void AwaitPool() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool captured() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return room_ != nullptr; }
  // May let go of the lock meanwhile.
  absl::StatusOr<void*> TryAllocate(int64_t size_bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Frees the blocks whose uses are done; `wait`: all of them, when they are.
  void Collect(bool wait) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Ends the uses that the stream has come to the end of. A stream does things in order: what is
  // behind the first use that is not done is not done either, and is not asked about.
  void EndUses(User* user) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // It is done: blocks that wait for nothing else go to the pool.
  void End(Use* use) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // While the stream is captured, when that is over.
  void GiveToPool(void* data) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // Whether the stream has come to all that was freed on it, so that it can be trimmed.
  bool FreesDone() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void DropMark() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  Driver* const driver_;
  const Context context_;
  const Pool pool_;
  const Stream stream_;
  const std::string name_;
  const std::function<void(const absl::Status&)> keep_;
  mutable absl::Mutex mutex_;
  std::map<Stream, User> users_ ABSL_GUARDED_BY(mutex_);
  // Of live blocks; some may be done.
  std::unordered_map<void*, std::vector<std::shared_ptr<Use>>> uses_ ABSL_GUARDED_BY(mutex_);
  // Blocks that are freed, but still in use elsewhere, and in how many uses.
  std::unordered_map<void*, int> leaving_ ABSL_GUARDED_BY(mutex_);
  std::vector<void*> held_up_ ABSL_GUARDED_BY(mutex_);  // freed, during a capture
  bool freed_ ABSL_GUARDED_BY(mutex_) = false;          // something, since the last mark
  Event mark_ ABSL_GUARDED_BY(mutex_) = nullptr;        // after frees; null: nobody has asked
  MemoryStats stats_ ABSL_GUARDED_BY(mutex_);           // except reserved_bytes
  std::map<char*, Room> rooms_ ABSL_GUARDED_BY(mutex_);
  std::pair<char* const, Room>* room_ ABSL_GUARDED_BY(mutex_) = nullptr;  // that `inside_` is in
  std::thread::id inside_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<Measurement> measurement_ ABSL_GUARDED_BY(mutex_);
  bool poison_ = false;
};

}  // namespace dpipe::cuda

#endif  // DPIPE_CORE_TENSOR_CUDA_STREAM_ORDERED_ALLOCATOR_H_
