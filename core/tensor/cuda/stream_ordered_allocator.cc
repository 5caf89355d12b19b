#include "core/tensor/cuda/stream_ordered_allocator.h"

#include <algorithm>
#include <utility>

#include "core/base/bytes.h"
#include "core/base/check.h"

namespace dpipe::cuda {
namespace {

constexpr int64_t kGranule = 512;  // what the driver aligns to

int64_t RoundUp(int64_t size_bytes) {
  return std::max(kGranule, (size_bytes + kGranule - 1) / kGranule * kGranule);
}

}  // namespace

StreamOrderedAllocator::StreamOrderedAllocator(Driver* driver, Pool pool, Stream stream,
                                               std::string name)
    : driver_(driver), pool_(pool), stream_(stream), name_(std::move(name)) {}

StreamOrderedAllocator::~StreamOrderedAllocator() {
  absl::MutexLock lock(&mutex_);
  Collect(/*wait=*/true);
  driver_->DestroyPool(pool_);
}

absl::StatusOr<void*> StreamOrderedAllocator::TryAllocate(int64_t size_bytes) {
  Collect(/*wait=*/false);
  absl::StatusOr<void*> data = driver_->Allocate(pool_, size_bytes, stream_);
  if (data.status().code() != absl::StatusCode::kResourceExhausted) return data;
  // What other streams hold comes back when they are done, and what this stream has freed when it
  // gets there.
  Collect(/*wait=*/true);
  DPIPE_RETURN_IF_ERROR(driver_->Synchronize(stream_));
  DPIPE_RETURN_IF_ERROR(driver_->Trim(pool_));
  return driver_->Allocate(pool_, size_bytes, stream_);
}

void* StreamOrderedAllocator::Allocate(int64_t size_bytes) {
  const int64_t size = RoundUp(size_bytes);
  absl::MutexLock lock(&mutex_);
  const absl::StatusOr<void*> data = TryAllocate(size);
  DPIPE_CHECK(data.ok()) << name_ << ", which has " << FormatBytes(stats_.allocated_bytes)
                         << " in tensors, has no " << FormatBytes(size)
                         << " more: " << data.status().message();
  stats_.allocated_bytes += size;
  stats_.peak_bytes = std::max(stats_.peak_bytes, stats_.allocated_bytes);
  if (poison_) {
    const absl::Status filled = driver_->Fill(*data, 0xff, size, stream_);
    DPIPE_CHECK(filled.ok()) << filled.message();
  }
  return *data;
}

void StreamOrderedAllocator::AddUse(void* data, Event event) {
  absl::MutexLock lock(&mutex_);
  std::vector<Event>& uses = uses_[data];
  DropDoneUses(&uses);
  uses.push_back(event);
}

void StreamOrderedAllocator::Free(void* data, int64_t size_bytes) {
  absl::MutexLock lock(&mutex_);
  stats_.allocated_bytes -= RoundUp(size_bytes);
  auto node = uses_.extract(data);
  leaving_.push_back(
      {data, RoundUp(size_bytes), node.empty() ? std::vector<Event>() : std::move(node.mapped())});
  Collect(/*wait=*/false);
}

void StreamOrderedAllocator::DropDoneUses(std::vector<Event>* uses) {
  const auto done = [this](Event event) {
    const absl::StatusOr<bool> is_done = driver_->Done(event);
    if (!is_done.ok() || !*is_done) return false;
    driver_->DestroyEvent(event);
    return true;
  };
  uses->erase(std::remove_if(uses->begin(), uses->end(), done), uses->end());
}

bool StreamOrderedAllocator::UsesDone(bool wait, Block* block) {
  if (wait) {
    // An error means that the GPU does nothing any more, so that nothing is in use; the device
    // tells it when it is synchronised.
    for (Event event : block->uses) {
      driver_->Synchronize(event).IgnoreError();
      driver_->DestroyEvent(event);
    }
    block->uses.clear();
  }
  DropDoneUses(&block->uses);
  return block->uses.empty();
}

void StreamOrderedAllocator::Collect(bool wait) {
  const auto free = [&](Block& block) {
    if (!UsesDone(wait, &block)) return false;
    driver_->Free(block.data, stream_).IgnoreError();
    return true;
  };
  leaving_.erase(std::remove_if(leaving_.begin(), leaving_.end(), free), leaving_.end());
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
  Collect(/*wait=*/true);
  driver_->Synchronize(stream_).IgnoreError();
  driver_->Trim(pool_).IgnoreError();
}

}  // namespace dpipe::cuda
