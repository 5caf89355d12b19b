#include "core/tensor/cuda/testing/hidden_memory.h"

#include <sys/mman.h>

#include "core/base/check.h"

namespace dpipe::cuda {
namespace {

constexpr int64_t kReservedBytes = int64_t{64} << 30;  // of address space
constexpr int64_t kAlignment = 512;
constexpr int64_t kPageBytes = 2 << 20;  // huge pages, so that few have to be protected

}  // namespace

HiddenMemory::HiddenMemory()
    : reserved_(static_cast<char*>(mmap(nullptr, kReservedBytes, PROT_NONE,
                                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0))) {
  DPIPE_CHECK(reserved_ != MAP_FAILED) << "cannot reserve address space for a fake GPU's memory";
  const int64_t past = reinterpret_cast<uintptr_t>(reserved_) % kPageBytes;
  begin_ = reserved_ + (kPageBytes - past) % kPageBytes;
  madvise(begin_, kReservedBytes - kPageBytes, MADV_HUGEPAGE);  // if huge pages are available
}

HiddenMemory::~HiddenMemory() { munmap(reserved_, kReservedBytes); }

char* HiddenMemory::Allocate(int64_t size_bytes) {
  char* const block = begin_ + used_bytes_;
  used_bytes_ += (size_bytes + kAlignment - 1) / kAlignment * kAlignment;
  DPIPE_CHECK(used_bytes_ <= kReservedBytes - kPageBytes) << "a fake GPU's memory is exhausted";
  return block;
}

void HiddenMemory::Protect(int protection) {
  const int64_t pages = (used_bytes_ + kPageBytes - 1) / kPageBytes;
  DPIPE_CHECK_EQ(mprotect(begin_, pages * kPageBytes, protection), 0);
}

HiddenMemory::Leave::Leave(HiddenMemory* memory) : memory_(memory) {
  if (memory_ != nullptr) memory_->Protect(PROT_READ | PROT_WRITE);
}

HiddenMemory::Leave::~Leave() {
  if (memory_ != nullptr) memory_->Protect(PROT_NONE);
}

}  // namespace dpipe::cuda
