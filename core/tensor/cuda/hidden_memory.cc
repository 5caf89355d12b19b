#include "core/tensor/cuda/hidden_memory.h"

#include <sys/mman.h>

#include "core/base/check.h"

namespace dpipe::cuda {
namespace {

constexpr int64_t kReservedBytes = int64_t{64} << 30;  // of addresses
constexpr int64_t kAlignment = 512;

}  // namespace

HiddenMemory::HiddenMemory()
    : begin_(static_cast<char*>(mmap(nullptr, kReservedBytes, PROT_NONE,
                                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0))) {
  DPIPE_CHECK(begin_ != MAP_FAILED) << "no addresses for a fake GPU's memory";
}

HiddenMemory::~HiddenMemory() { munmap(begin_, kReservedBytes); }

char* HiddenMemory::Allocate(int64_t size_bytes) {
  char* const block = begin_ + used_bytes_;
  used_bytes_ += (size_bytes + kAlignment - 1) / kAlignment * kAlignment;
  DPIPE_CHECK(used_bytes_ <= kReservedBytes) << "a fake GPU's memory is used up";
  return block;
}

void HiddenMemory::Protect(int protection) {
  DPIPE_CHECK_EQ(mprotect(begin_, used_bytes_, protection), 0);
}

HiddenMemory::Leave::Leave(HiddenMemory* memory) : memory_(memory) {
  if (memory_ != nullptr) memory_->Protect(PROT_READ | PROT_WRITE);
}

HiddenMemory::Leave::~Leave() {
  if (memory_ != nullptr) memory_->Protect(PROT_NONE);
}

}  // namespace dpipe::cuda
