#include "core/tensor/cuda/pinned_staging.h"

#include <algorithm>
#include <cstring>

namespace dpipe::cuda {

PinnedStaging::~PinnedStaging() {
  for (Buffer& buffer : buffers_) {
    if (buffer.data == nullptr) continue;
    driver_->Synchronize(buffer.event).IgnoreError();
    driver_->DestroyEvent(buffer.event);
    driver_->FreePinned(buffer.data);
  }
}

absl::StatusOr<PinnedStaging::Buffer*> PinnedStaging::Next() {
  Buffer& buffer = buffers_[next_];
  next_ = (next_ + 1) % kNumBuffers;
  if (buffer.data != nullptr) {
    DPIPE_RETURN_IF_ERROR(driver_->Synchronize(buffer.event));
    return &buffer;
  }
  DPIPE_ASSIGN_OR_RETURN(const Event event, driver_->CreateEvent(context_));
  absl::StatusOr<void*> data = driver_->AllocatePinned(context_, kBufferBytes);
  if (!data.ok()) {
    driver_->DestroyEvent(event);
    return data.status();
  }
  buffer = {*data, event};
  return &buffer;
}

absl::Status PinnedStaging::ToDevice(void* to, const void* host, int64_t size_bytes,
                                     Stream stream) {
  absl::MutexLock lock(&mutex_);
  for (int64_t begin = 0; begin < size_bytes; begin += kBufferBytes) {
    const int64_t size = std::min(kBufferBytes, size_bytes - begin);
    DPIPE_ASSIGN_OR_RETURN(Buffer* const buffer, Next());
    std::memcpy(buffer->data, static_cast<const char*>(host) + begin, size);
    DPIPE_RETURN_IF_ERROR(
        driver_->Copy(static_cast<char*>(to) + begin, buffer->data, size, stream));
    DPIPE_RETURN_IF_ERROR(driver_->Record(buffer->event, stream));
  }
  return absl::OkStatus();
}

absl::Status PinnedStaging::ToHost(void* host, const void* from, int64_t size_bytes,
                                   Stream stream) {
  absl::MutexLock lock(&mutex_);
  Buffer* buffers[kNumBuffers];
  const int64_t num_pieces = (size_bytes + kBufferBytes - 1) / kBufferBytes;
  const auto size_of = [&](int64_t piece) {
    return std::min(kBufferBytes, size_bytes - piece * kBufferBytes);
  };
  // Pieces are enqueued up to kNumBuffers - 1 pieces ahead of the piece that is copied out.
  for (int64_t i = 0; i < num_pieces + kNumBuffers - 1; ++i) {
    if (i < num_pieces) {
      DPIPE_ASSIGN_OR_RETURN(Buffer* const buffer, Next());
      DPIPE_RETURN_IF_ERROR(driver_->Copy(
          buffer->data, static_cast<const char*>(from) + i * kBufferBytes, size_of(i), stream));
      DPIPE_RETURN_IF_ERROR(driver_->Record(buffer->event, stream));
      buffers[i % kNumBuffers] = buffer;
    }
    const int64_t done = i - (kNumBuffers - 1);
    if (done < 0 || done >= num_pieces) continue;
    const Buffer& buffer = *buffers[done % kNumBuffers];
    DPIPE_RETURN_IF_ERROR(driver_->Synchronize(buffer.event));
    std::memcpy(static_cast<char*>(host) + done * kBufferBytes, buffer.data, size_of(done));
  }
  return absl::OkStatus();
}

}  // namespace dpipe::cuda
