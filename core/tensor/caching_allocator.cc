#include "core/tensor/caching_allocator.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "core/base/host/out_of_memory.h"

namespace dpipe {
namespace {

constexpr int64_t kAlignment = 64;  // a cache line, and a full AVX-512 register

// Blocks of at least this size are separate mappings. Their memory returns to the operating system
// at once, whatever their neighbours, and the part that rounding adds is never touched.
constexpr int64_t kMinMapped = int64_t{1} << 20;

// Blocks of at least this size are aligned to huge pages and ask for them, if the operating system
// has them. Such a page is handed out and translated far faster than 512 small ones.
constexpr int64_t kHugePage = int64_t{2} << 20;

void* Map(int64_t size) {
  void* const data =
      mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return data == MAP_FAILED ? nullptr : data;
}

void* MapHugePages(int64_t size) {
  char* const mapped = static_cast<char*>(Map(size + kHugePage));
  if (mapped == nullptr) return nullptr;
  const int64_t before = -reinterpret_cast<intptr_t>(mapped) & (kHugePage - 1);
  if (before > 0) munmap(mapped, before);
  munmap(mapped + before + size, kHugePage - before);
  madvise(mapped + before, size, MADV_HUGEPAGE);
  return mapped + before;
}

// Address space that stays free under a limit (`ulimit -v`). Libraries that compile and plan
// kernels crash without it, while a tensor's request can be refused with a message.
constexpr int64_t kAddressSpaceForLibraries = int64_t{64} << 20;

void* TakeFromSystem(int64_t size) {
  if (size >= kMinMapped && AddressSpaceRoomBytes() < size + kAddressSpaceForLibraries) {
    return nullptr;
  }
  if (size < kMinMapped) return std::aligned_alloc(kAlignment, size);
  return size < kHugePage ? Map(size) : MapHugePages(size);
}

void GiveToSystem(void* data, int64_t size) {
  if (size < kMinMapped) {
    std::free(data);
  } else {
    munmap(data, size);
  }
}

}  // namespace

CachingAllocator::~CachingAllocator() { ReleaseCache(); }

// Sizes keep three significant bits, so that slightly different requests share blocks and at most a
// quarter of a block is wasted. The largest blocks (parameters and the like) repeat their sizes
// exactly; of them at most a sixteenth is wasted.
int64_t CachingAllocator::RoundUp(int64_t size_bytes) {
  constexpr int64_t kMaxGranule = int64_t{1} << 20, kLarge = 16 * kMaxGranule;
  int64_t granule = kAlignment;
  while (granule * 8 < size_bytes) granule *= 2;
  if (size_bytes >= kLarge) granule = kMaxGranule;
  return std::max(granule, (size_bytes + granule - 1) / granule * granule);
}

void* CachingAllocator::Allocate(int64_t size_bytes) {
  const int64_t size = RoundUp(size_bytes);
  void* data = nullptr;
  {
    absl::MutexLock lock(&mutex_);
    auto& blocks = free_[size];
    if (!blocks.empty()) {
      data = blocks.back();
      blocks.pop_back();
    } else {
      stats_.reserved_bytes += size;
    }
    stats_.allocated_bytes += size;
    stats_.peak_bytes = std::max(stats_.peak_bytes, stats_.allocated_bytes);
  }
  if (data == nullptr) data = TakeFromSystem(size);
  if (data == nullptr) {
    ReleaseCache();  // frees blocks of other sizes
    data = TakeFromSystem(size);
  }
  if (data == nullptr) EndOutOfMemory(size, "a tensor");
  if (poison_) std::memset(data, 0xff, size);  // all ones: NaN in fp32 and bf16, -1 in int32
  return data;
}

void CachingAllocator::Free(void* data, int64_t size_bytes) {
  const int64_t size = RoundUp(size_bytes);
  absl::MutexLock lock(&mutex_);
  free_[size].push_back(data);
  stats_.allocated_bytes -= size;
}

MemoryStats CachingAllocator::stats() const {
  absl::MutexLock lock(&mutex_);
  return stats_;
}

void CachingAllocator::ResetPeak() {
  absl::MutexLock lock(&mutex_);
  stats_.peak_bytes = stats_.allocated_bytes;
}

void CachingAllocator::ReleaseCache() {
  absl::MutexLock lock(&mutex_);
  for (auto& [size, blocks] : free_) {
    for (void* block : blocks) {
      GiveToSystem(block, size);
      stats_.reserved_bytes -= size;
    }
    blocks.clear();
  }
}

}  // namespace dpipe
