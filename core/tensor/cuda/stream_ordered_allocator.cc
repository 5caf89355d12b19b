#include "core/tensor/cuda/stream_ordered_allocator.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "core/base/bytes.h"
#include "core/base/check.h"

namespace dpipe::cuda {
namespace {

constexpr int64_t kGranule = 512;  // the driver's alignment

// Minimum number of times that the other allocators of the GPU are asked to release their unused
// memory: after one sweep, another thread may be the first to take it. The sweeps continue while
// the GPU has not yet reached some of the frees, but not forever, because the other streams may be
// waiting for a message that this thread is to send.
constexpr int kSweeps = 3;
constexpr absl::Duration kMaxWait = absl::Seconds(10);
constexpr absl::Duration kPoll = absl::Microseconds(50);

// An address without memory, with the usual alignment.
constexpr uintptr_t kNowhere = uintptr_t{1} << 60;

int64_t RoundUp(int64_t size_bytes) {
  return std::max(kGranule, (size_bytes + kGranule - 1) / kGranule * kGranule);
}

}  // namespace

StreamOrderedAllocator::StreamOrderedAllocator(Driver* driver, const Context& context, Pool pool,
                                               Stream stream, std::string name,
                                               std::function<void(const absl::Status&)> keep)
    : driver_(driver),
      context_(context),
      pool_(pool),
      stream_(stream),
      name_(std::move(name)),
      keep_(std::move(keep)) {
  driver_->memory_keepers().Add(context_.gpu, this);
}

StreamOrderedAllocator::~StreamOrderedAllocator() {
  driver_->memory_keepers().Remove(this);
  absl::MutexLock lock(&mutex_);
  Collect(/*wait=*/true);
  DropMark();
  driver_->DestroyPool(pool_);
}

absl::StatusOr<void*> StreamOrderedAllocator::TryAllocate(int64_t size_bytes) {
  AwaitPool();
  Collect(/*wait=*/false);
  absl::StatusOr<void*> data = driver_->Allocate(pool_, size_bytes, stream_);
  if (data.status().code() != absl::StatusCode::kResourceExhausted) return data;
  // Blocks held by other streams return when those are done. Blocks freed on this stream return
  // when it reaches the frees.
  Collect(/*wait=*/true);
  DPIPE_RETURN_IF_ERROR(driver_->Synchronize(stream_));
  DPIPE_RETURN_IF_ERROR(driver_->Trim(pool_));
  data = driver_->Allocate(pool_, size_bytes, stream_);
  const absl::Time until = absl::Now() + kMaxWait;
  bool more = true;
  for (int i = 0; i < kSweeps || (more && absl::Now() < until); ++i) {
    if (data.status().code() != absl::StatusCode::kResourceExhausted) return data;
    // Asks the GPU's other pools to release their memory. Unlocks first, because they may be about
    // to ask this one.
    mutex_.Unlock();
    if (i > 0) absl::SleepFor(kPoll);
    more = driver_->memory_keepers().ReleaseUnused(context_.gpu);
    mutex_.Lock();
    AwaitPool();
    data = driver_->Allocate(pool_, size_bytes, stream_);
  }
  return data;
}

void StreamOrderedAllocator::AwaitPool() {
  mutex_.Await(absl::Condition(
      +[](StreamOrderedAllocator* self)
           ABSL_NO_THREAD_SAFETY_ANALYSIS { return !self->captured(); },
      this));
}

void StreamOrderedAllocator::Poison(void* data, int64_t size_bytes) {
  if (poison_) keep_(driver_->Fill(data, 0xff, size_bytes, stream_));
}

absl::StatusOr<void*> StreamOrderedAllocator::AllocateBlock(int64_t size_bytes) {
  const absl::StatusOr<void*> data = TryAllocate(size_bytes);
  if (data.status().code() == absl::StatusCode::kResourceExhausted) {
    return absl::ResourceExhaustedError(
        absl::StrCat(name_, " has ", FormatBytes(stats_.allocated_bytes),
                     " in tensors and cannot allocate another ", FormatBytes(size_bytes), ": ",
                     data.status().message()));
  }
  if (!data.ok()) return data;
  stats_.allocated_bytes += size_bytes;
  stats_.peak_bytes = std::max(stats_.peak_bytes, stats_.allocated_bytes);
  return data;
}

// A GPU that has failed cannot create events either. It refuses all work, so nothing will touch the
// address.
void* StreamOrderedAllocator::WithoutBlock(const absl::Status& status) {
  const absl::StatusOr<Event> event = driver_->CreateEvent(context_);
  DPIPE_CHECK(!event.ok()) << name_ << ": " << status.message();
  keep_(status);
  return reinterpret_cast<void*>(kNowhere);
}

void* StreamOrderedAllocator::Allocate(int64_t size_bytes) {
  const int64_t size = RoundUp(size_bytes);
  absl::MutexLock lock(&mutex_);
  if (captured() && inside_ == std::this_thread::get_id()) return AllocateInRoom(size);
  const absl::StatusOr<void*> data = AllocateBlock(size);
  DPIPE_CHECK(data.status().code() != absl::StatusCode::kResourceExhausted)
      << data.status().message();
  if (!data.ok()) return WithoutBlock(data.status());
  Poison(*data, size);
  if (measurement_ != nullptr && measurement_->thread == std::this_thread::get_id()) {
    measurement_->places[*data] = measurement_->arena.Place(size);
  }
  return *data;
}

void* StreamOrderedAllocator::AllocateIfRoom(int64_t size_bytes) {
  const int64_t size = RoundUp(size_bytes);
  absl::MutexLock lock(&mutex_);
  const absl::StatusOr<void*> data = TryAllocate(size);
  if (data.status().code() == absl::StatusCode::kResourceExhausted) return nullptr;
  if (!data.ok()) return keep_(data.status()), nullptr;
  stats_.allocated_bytes += size;
  return *data;
}

void* StreamOrderedAllocator::AllocateInRoom(int64_t size_bytes) {
  auto& [begin, room] = *room_;
  const int64_t place = room.arena.Place(size_bytes);
  if (place + size_bytes <= room.size_bytes) {
    Poison(begin + place, size_bytes);
    return begin + place;
  }
  keep_(absl::ResourceExhaustedError(
      absl::StrCat("needs at least ", FormatBytes(room.arena.most_bytes()),
                   " of memory, but was measured to need ", FormatBytes(room.size_bytes))));
  room.arena.Remove(place);
  ++room.misfits;
  return begin;
}

bool StreamOrderedAllocator::FreeInRoom(void* data) {
  if (data == reinterpret_cast<void*>(kNowhere)) return true;
  auto it = rooms_.upper_bound(static_cast<char*>(data));
  if (it == rooms_.begin()) return false;
  --it;
  char* const begin = it->first;
  Room& room = it->second;
  if (static_cast<char*>(data) >= begin + room.size_bytes) return false;
  // It does not matter which block at the beginning this is: the recording was refused, and its
  // room is freed when all of them are gone.
  if (data == begin && room.misfits > 0) {
    --room.misfits;
  } else {
    room.arena.Remove(static_cast<char*>(data) - begin);
  }
  if (room.dropped && room.empty()) EndRoom(it);
  return true;
}

void StreamOrderedAllocator::EndRoom(std::map<char*, Room>::iterator room) {
  const auto [begin, size_bytes] = std::make_pair(room->first, room->second.size_bytes);
  rooms_.erase(room);
  FreeBlock(begin, size_bytes);
}

void StreamOrderedAllocator::BeginMeasuring() {
  absl::MutexLock lock(&mutex_);
  measurement_ = std::make_unique<Measurement>();
  measurement_->thread = std::this_thread::get_id();
}

int64_t StreamOrderedAllocator::EndMeasuring() {
  absl::MutexLock lock(&mutex_);
  const int64_t room_bytes = measurement_->arena.most_bytes();
  measurement_ = nullptr;
  return room_bytes;
}

absl::StatusOr<void*> StreamOrderedAllocator::MakeRoom(int64_t size_bytes) {
  const int64_t size = RoundUp(size_bytes);
  absl::MutexLock lock(&mutex_);
  DPIPE_ASSIGN_OR_RETURN(void* const data, AllocateBlock(size));
  rooms_[static_cast<char*>(data)].size_bytes = size;
  return data;
}

void StreamOrderedAllocator::EnterRoom(void* room) {
  absl::MutexLock lock(&mutex_);
  DPIPE_CHECK(!captured()) << name_ << " is already being captured";
  room_ = &*rooms_.find(static_cast<char*>(room));
  inside_ = std::this_thread::get_id();
}

void StreamOrderedAllocator::LeaveRoom() {
  absl::MutexLock lock(&mutex_);
  DPIPE_CHECK(captured() && inside_ == std::this_thread::get_id());
  room_ = nullptr;
  Collect(/*wait=*/false);
}

void StreamOrderedAllocator::DropRoom(void* room) {
  absl::MutexLock lock(&mutex_);
  const auto it = rooms_.find(static_cast<char*>(room));
  it->second.dropped = true;
  if (it->second.empty()) EndRoom(it);
}

void StreamOrderedAllocator::AddUse(absl::Span<void* const> blocks, Stream user,
                                    std::shared_ptr<const OwnedEvent> end) {
  absl::MutexLock lock(&mutex_);
  User& of_stream = users_[user];
  // Otherwise uses would accumulate on long-lived blocks.
  if (!captured()) EndUses(&of_stream);
  const auto use = std::make_shared<Use>(Use{user, std::move(end)});
  of_stream.uses.push_back(use);
  for (void* data : blocks) {
    if (data == reinterpret_cast<void*>(kNowhere)) continue;
    std::vector<std::shared_ptr<Use>>& uses = uses_[data];
    uses.erase(std::remove_if(uses.begin(), uses.end(),
                              [](const auto& earlier) { return earlier->end == nullptr; }),
               uses.end());
    uses.push_back(use);
  }
}

void StreamOrderedAllocator::Free(void* data, int64_t size_bytes) {
  absl::MutexLock lock(&mutex_);
  if (FreeInRoom(data)) return;
  if (measurement_ != nullptr) {
    if (const auto node = measurement_->places.extract(data); !node.empty()) {
      measurement_->arena.Remove(node.mapped());
    }
  }
  FreeBlock(data, RoundUp(size_bytes));
}

void StreamOrderedAllocator::FreeBlock(void* data, int64_t size_bytes) {
  stats_.allocated_bytes -= size_bytes;
  if (const auto node = uses_.extract(data); !node.empty()) {
    for (const std::shared_ptr<Use>& use : node.mapped()) {
      User& user = users_[use->user];
      // If freed blocks already wait for this stream, it has been queried and will be again.
      if (user.num_leaving == 0 && !captured()) EndUses(&user);
      if (use->end == nullptr) continue;
      ++leaving_[data];
      use->leaving.push_back(data);
      ++user.num_leaving;
    }
  }
  if (leaving_.count(data) == 0) GiveToPool(data);
}

void StreamOrderedAllocator::GiveToPool(void* data) {
  if (captured()) return held_up_.push_back(data);
  driver_->Free(data, stream_).IgnoreError();
  freed_ = true;
}

void StreamOrderedAllocator::End(Use* use) {
  users_[use->user].num_leaving -= use->leaving.size();
  for (void* data : use->leaving) {
    if (--leaving_[data] > 0) continue;
    leaving_.erase(data);
    GiveToPool(data);
  }
  use->leaving.clear();
  use->end = nullptr;
}

void StreamOrderedAllocator::EndUses(User* user) {
  for (; !user->uses.empty(); user->uses.pop_front()) {
    Use& first = *user->uses.front();
    if (first.end == nullptr) continue;
    if (!driver_->Done(first.end->get()).value_or(false)) return;
    End(&first);
  }
}

void StreamOrderedAllocator::Collect(bool wait) {
  for (void* data : std::exchange(held_up_, {})) GiveToPool(data);
  for (auto& [stream, user] : users_) {
    if (user.num_leaving == 0) continue;
    EndUses(&user);
    if (!wait) continue;
    // An error means that the GPU does nothing any more, so nothing is in use. The device reports
    // the error when it is synchronised.
    for (const std::shared_ptr<Use>& use : user.uses) {
      if (use->leaving.empty()) continue;
      driver_->Synchronize(use->end->get()).IgnoreError();
      End(use.get());
    }
    EndUses(&user);
  }
}

MemoryStats StreamOrderedAllocator::stats() const {
  absl::MutexLock lock(&mutex_);
  MemoryStats stats = stats_;
  const absl::StatusOr<int64_t> reserved = driver_->ReservedBytes(pool_);
  stats.reserved_bytes = reserved.ok() ? *reserved : stats.allocated_bytes;
  return stats;
}

void StreamOrderedAllocator::ResetPeak() {
  absl::MutexLock lock(&mutex_);
  stats_.peak_bytes = stats_.allocated_bytes;
}

void StreamOrderedAllocator::ReleaseCache() {
  absl::MutexLock lock(&mutex_);
  AwaitPool();
  Collect(/*wait=*/true);
  driver_->Synchronize(stream_).IgnoreError();
  driver_->Trim(pool_).IgnoreError();
}

void StreamOrderedAllocator::DropMark() {
  if (mark_ != nullptr) driver_->DestroyEvent(std::exchange(mark_, nullptr));
}

// Uses an event, which may be queried at any time. A stream must not be queried while it is
// captured.
bool StreamOrderedAllocator::FreesDone() {
  if (freed_ && !captured()) {
    DropMark();
    const absl::StatusOr<Event> event = driver_->CreateEvent(context_);
    if (!event.ok()) return true;  // the GPU has failed
    mark_ = *event;
    driver_->Record(mark_, stream_).IgnoreError();
    freed_ = false;
  }
  if (mark_ == nullptr) return !freed_;
  if (!driver_->Done(mark_).value_or(true)) return false;
  driver_->Synchronize(mark_).IgnoreError();  // this informs the pool
  DropMark();
  return !freed_;
}

// Only tries to lock, because the thread that holds the lock may be waiting for the GPU.
bool StreamOrderedAllocator::ReleaseUnused() {
  if (!mutex_.TryLock()) return true;
  if (!captured()) Collect(/*wait=*/false);
  const bool all = FreesDone() && leaving_.empty() && held_up_.empty();
  driver_->Trim(pool_).IgnoreError();
  mutex_.Unlock();
  return !all;
}

int64_t Arena::Place(int64_t size_bytes) {
  DPIPE_CHECK(size_bytes > 0) << "a block of " << size_bytes << " bytes";
  int64_t place = 0;
  for (const auto& [begin, end] : blocks_) {
    if (begin - place >= size_bytes) break;
    place = end;
  }
  blocks_[place] = place + size_bytes;
  most_bytes_ = std::max(most_bytes_, place + size_bytes);
  return place;
}

void Arena::Remove(int64_t place) { DPIPE_CHECK_EQ(blocks_.erase(place), 1u) << "at " << place; }

}  // namespace dpipe::cuda
