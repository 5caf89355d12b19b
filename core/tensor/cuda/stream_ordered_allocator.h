// Allocates GPU memory in the order of one stream.
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
#include "core/tensor/cuda/driver.h"

namespace dpipe::cuda {

// First-fit placement of blocks in a range of addresses.
//
// Places each block at the lowest offset where it fits, so the same requests in the same order get
// the same offsets. Each call is linear in the number of live blocks. Not thread-safe.
class Arena {
 public:
  // Returns the offset in bytes of a new block of size_bytes > 0 from the beginning of the range.
  int64_t Place(int64_t size_bytes);
  void Remove(int64_t place);

  bool empty() const { return blocks_.empty(); }
  // Returns the size in bytes of the smallest range that would have held all blocks placed so far.
  int64_t most_bytes() const { return most_bytes_; }

 private:
  std::map<int64_t, int64_t> blocks_;  // begin offset to end offset
  int64_t most_bytes_ = 0;
};

// An event that is destroyed together with its owner.
class OwnedEvent {
 public:
  // `driver` must outlive this object.
  OwnedEvent(Driver* driver, Event event) : driver_(driver), event_(event) {}
  ~OwnedEvent() { driver_->DestroyEvent(event_); }
  OwnedEvent(const OwnedEvent&) = delete;
  OwnedEvent& operator=(const OwnedEvent&) = delete;
  Event get() const { return event_; }

 private:
  Driver* const driver_;
  const Event event_;
};

// Allocates blocks from a pool of the driver. The pool keeps freed memory, so repeating the same
// step allocates nothing new from the system.
//
// Other streams: a block that other streams use (AddUse) returns to the pool only after they are
// done with it. This is checked at each allocation; nothing blocks unless memory is short.
//
// Memory pressure: memory that one allocator keeps is unavailable to all others. When the GPU has
// no more, all allocators of that GPU release their unused memory.
//
// Failed GPU: when every call to the GPU fails, blocks are addresses without memory, for work that
// will be refused. The error is kept, and the process goes on so that it can be reported.
//
// Captures: while the stream is captured, nothing can be allocated from the pool. The capturing
// thread gets parts of a *room*, a block that was allocated before. Other threads wait for the end
// of the capture, and blocks that they free are held until then.
class StreamOrderedAllocator : public Allocator, public MemoryKeeper {
 public:
  // `driver` and `stream` must outlive the allocator, which takes ownership of `pool`. The stream
  // belongs to `context`. `name` is the device's name. `keep` receives errors of the GPU; the
  // thread whose call failed calls it under the allocator's lock.
  StreamOrderedAllocator(Driver* driver, const Context& context, Pool pool, Stream stream,
                         std::string name, std::function<void(const absl::Status&)> keep);
  // Blocks that are still allocated stay valid: the pool lives on until they are freed.
  ~StreamOrderedAllocator() override;

  void* Allocate(int64_t size_bytes) override;
  void* AllocateIfRoom(int64_t size_bytes) override;
  void Free(void* data, int64_t size_bytes) override;
  MemoryStats stats() const override;
  void ResetPeak() override;
  void ReleaseCache() override;
  bool ReleaseUnused() override;
  void set_poison(bool poison) override { poison_ = poison; }

  // Marks the blocks as used by `user`, another stream, until it has reached its event `end`. None
  // of the blocks may have been freed yet.
  void AddUse(absl::Span<void* const> blocks, Stream user, std::shared_ptr<const OwnedEvent> end);

  // Measures how large a room the calling thread's requests between the two calls would have
  // needed, in bytes.
  void BeginMeasuring();
  int64_t EndMeasuring();

  // Allocates a room of size_bytes >= 0. ResourceExhausted if the GPU has no more memory.
  absl::StatusOr<void*> MakeRoom(int64_t size_bytes);
  // From now on the calling thread allocates in the room. It captures the stream between EnterRoom
  // and LeaveRoom.
  void EnterRoom(void* room);
  // If the room was too small, ResourceExhausted with both sizes has been passed to `keep`. Blocks
  // that did not fit have had addresses in the room. This satisfies calls that are checked when
  // captured, but the captured work must never run.
  void LeaveRoom();
  // Frees the room as soon as none of the blocks allocated there is live.
  void DropRoom(void* room);

 private:
  // A use of several blocks by another stream.
  struct Use {
    Stream user;
    std::shared_ptr<const OwnedEvent> end;  // null: done
    std::vector<void*> leaving = {};        // the blocks that have been freed
  };
  // The uses by one stream that are not known to be done, in stream order. If two threads release
  // blocks at the same time, two uses may be swapped; one of them then only waits for the other as
  // well.
  struct User {
    std::deque<std::shared_ptr<Use>> uses;
    int64_t num_leaving = 0;  // freed blocks, counted once per use
  };

  struct Room {
    int64_t size_bytes = 0;
    Arena arena;
    int misfits = 0;  // live blocks that did not fit; all have the address of the room
    bool dropped = false;

    bool empty() const { return arena.empty() && misfits == 0; }
  };
  struct Measurement {
    std::thread::id thread;
    Arena arena;
    std::unordered_map<void*, int64_t> places;  // offsets of live blocks
  };

  absl::StatusOr<void*> AllocateBlock(int64_t size_bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void FreeBlock(void* data, int64_t size_bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void* AllocateInRoom(int64_t size_bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void EndRoom(std::map<char*, Room>::iterator room) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Returns false if the block is in no room.
  bool FreeInRoom(void* data) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Poison(void* data, int64_t size_bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Called after an allocation failed. Returns an address without memory if the GPU has failed;
  // otherwise ends the process with `status`.
  void* WithoutBlock(const absl::Status& status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Blocks while another thread captures, because the pool cannot be used then.
  void AwaitPool() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool captured() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return room_ != nullptr; }
  // May release and reacquire the lock.
  absl::StatusOr<void*> TryAllocate(int64_t size_bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Frees the blocks whose uses are done. If `wait`, waits until all uses are done.
  void Collect(bool wait) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Ends the uses whose end the stream has reached. A stream works in order: the uses after the
  // first unfinished one cannot be done either, and are not queried.
  void EndUses(User* user) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Ends a use that is done: its freed blocks go to the pool unless they wait for other uses.
  void End(Use* use) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Returns the block to the pool, or holds it until the end of the current capture.
  void GiveToPool(void* data) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // True if the stream has reached all frees on it, so that the pool can be trimmed.
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
  // The uses of live blocks; some may be done.
  std::unordered_map<void*, std::vector<std::shared_ptr<Use>>> uses_ ABSL_GUARDED_BY(mutex_);
  // Freed blocks that other streams still use, with the number of such uses.
  std::unordered_map<void*, int> leaving_ ABSL_GUARDED_BY(mutex_);
  std::vector<void*> held_up_ ABSL_GUARDED_BY(mutex_);  // freed during a capture
  bool freed_ ABSL_GUARDED_BY(mutex_) = false;          // since the last mark
  Event mark_ ABSL_GUARDED_BY(mutex_) = nullptr;        // recorded after the frees; null: none
  MemoryStats stats_ ABSL_GUARDED_BY(mutex_);           // except reserved_bytes
  std::map<char*, Room> rooms_ ABSL_GUARDED_BY(mutex_);
  std::pair<char* const, Room>* room_ ABSL_GUARDED_BY(mutex_) = nullptr;  // entered by `inside_`
  std::thread::id inside_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<Measurement> measurement_ ABSL_GUARDED_BY(mutex_);
  bool poison_ = false;
};

}  // namespace dpipe::cuda

#endif  // DPIPE_CORE_TENSOR_CUDA_STREAM_ORDERED_ALLOCATOR_H_
