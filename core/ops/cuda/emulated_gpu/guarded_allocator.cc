#include "core/ops/cuda/emulated_gpu/guarded_allocator.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>

#include "core/base/check.h"

namespace dpipe::ops::cuda {
namespace {

constexpr int64_t kPage = 4096;
constexpr int64_t kAlignment = 16;
constexpr unsigned char kSlack = 0xa5;

int64_t RoundUp(int64_t size, int64_t unit) { return (size + unit - 1) / unit * unit; }

// The pages of a block of this size: [begin, begin + size), without the two guard pages.
struct Pages {
  explicit Pages(int64_t size_bytes)
      : size(RoundUp(std::max<int64_t>(size_bytes, 1), kPage)),
        offset(size - RoundUp(size_bytes, kAlignment)) {}
  int64_t size;
  int64_t offset;  // of the block
};

void ExpectSlack(const unsigned char* begin, const unsigned char* end, int64_t size_bytes) {
  for (const unsigned char* p = begin; p < end; ++p) {
    DPIPE_CHECK(*p == kSlack) << "a kernel wrote beyond a block of " << size_bytes << " bytes";
  }
}

}  // namespace

void* GuardedAllocator::Allocate(int64_t size_bytes) {
  const Pages pages(size_bytes);
  void* const memory = mmap(nullptr, pages.size + 2 * kPage, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  DPIPE_CHECK(memory != MAP_FAILED) << "no memory for a block of " << size_bytes << " bytes";
  auto* const begin = static_cast<unsigned char*>(memory) + kPage;
  DPIPE_CHECK_EQ(mprotect(memory, kPage, PROT_NONE), 0);
  DPIPE_CHECK_EQ(mprotect(begin + pages.size, kPage, PROT_NONE), 0);
  std::memset(begin, kSlack, pages.size);
  if (poison_) std::memset(begin + pages.offset, 0xff, size_bytes);
  absl::MutexLock lock(&mutex_);
  stats_.allocated_bytes += size_bytes;
  stats_.reserved_bytes += pages.size;
  stats_.peak_bytes = std::max(stats_.peak_bytes, stats_.allocated_bytes);
  return begin + pages.offset;
}

void GuardedAllocator::Free(void* data, int64_t size_bytes) {
  const Pages pages(size_bytes);
  auto* const block = static_cast<unsigned char*>(data);
  unsigned char* const begin = block - pages.offset;
  ExpectSlack(begin, block, size_bytes);
  ExpectSlack(block + size_bytes, begin + pages.size, size_bytes);
  munmap(begin - kPage, pages.size + 2 * kPage);
  absl::MutexLock lock(&mutex_);
  stats_.allocated_bytes -= size_bytes;
  stats_.reserved_bytes -= pages.size;
}

MemoryStats GuardedAllocator::stats() const {
  absl::MutexLock lock(&mutex_);
  return stats_;
}

void GuardedAllocator::ResetPeak() {
  absl::MutexLock lock(&mutex_);
  stats_.peak_bytes = stats_.allocated_bytes;
}

}  // namespace dpipe::ops::cuda
