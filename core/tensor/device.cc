#include "core/tensor/device.h"

#include <algorithm>

#include "core/base/check.h"

namespace dpipe {

std::vector<std::string> Device::notes() const {
  absl::MutexLock lock(&notes_mutex_);
  return notes_;
}

void Device::Note(const std::string& note) {
  absl::MutexLock lock(&notes_mutex_);
  if (std::find(notes_.begin(), notes_.end(), note) == notes_.end()) notes_.push_back(note);
}

void Device::Accumulate(void* sum, const void* term, int64_t count) {
  AddUp({{static_cast<float*>(sum), {static_cast<const float*>(term)}, count, /*adds=*/true}});
}

void CopyBytes(Device& to_device, void* to, Device& from_device, const void* from,
               int64_t size_bytes) {
  if (size_bytes == 0) return;
  if (from_device.has_host_memory()) {
    to_device.CopyFromHost(to, from, size_bytes);
  } else if (to_device.has_host_memory()) {
    from_device.CopyToHost(to, from, size_bytes);
  } else if (to_device.kind() == from_device.kind()) {
    to_device.CopyFromPeer(to, from_device, from, size_bytes);
  } else {
    std::vector<char> host(size_bytes);
    from_device.CopyToHost(host.data(), from, size_bytes);
    to_device.CopyFromHost(to, host.data(), size_bytes);
  }
}

}  // namespace dpipe
