// Memory of the fake driver: pools, pinned memory, and the work that reads and writes it.
#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/check.h"
#include "core/tensor/cuda/sum_tables.h"
#include "core/tensor/cuda/testing/fake_driver.h"

namespace dpipe::cuda {
namespace {

constexpr int64_t kFilledBytes = 64 << 20;  // per block

// True if the memory of each sum is neither read nor written by the other sums of the launch.
bool SumsAreApart(const SumTable& table) {
  const auto apart = [](const float* a, int64_t a_count, const float* b, int64_t b_count) {
    return a + a_count <= b || b + b_count <= a;
  };
  for (int s = 0; s < table.num_sums; ++s) {
    const SumTable::Sum& own = table.sums[s];
    for (int other = 0; other < table.num_sums; ++other) {
      const SumTable::Sum& theirs = table.sums[other];
      if (other != s && !apart(own.sum, own.count, theirs.sum, theirs.count)) return false;
      for (int t = 0; t < theirs.num_terms; ++t) {
        const float* const term = table.terms[theirs.first_term + t];
        if (other == s && term == own.sum) continue;
        if (!apart(own.sum, own.count, term, theirs.count)) return false;
      }
    }
  }
  return true;
}

}  // namespace

absl::StatusOr<Pool> FakeDriver::CreatePool(const Context& context) {
  absl::MutexLock lock(&mutex_);
  DPIPE_RETURN_IF_ERROR(Unsafe("CreatePool"));
  DPIPE_RETURN_IF_ERROR(Failure("CreatePool"));
  const Pool pool = NewHandle<Pool>();
  pools_[pool].gpu = context.gpu;
  contexts_.Need(context.gpu);
  contexts_.Made(pool, context);
  return pool;
}

void FakeDriver::DestroyPool(Pool pool) {
  absl::MutexLock lock(&mutex_);
  PoolState& state = pools_.at(pool);
  DPIPE_CHECK(!state.destroyed);
  state.destroyed = true;
  state.reserved_bytes = state.live_bytes;
  if (state.live_bytes == 0) pools_.erase(pool);
}

int64_t FakeDriver::ReservedOn(int gpu) const {
  int64_t bytes = 0;
  for (const auto& [pool, state] : pools_) bytes += state.gpu == gpu ? state.reserved_bytes : 0;
  return bytes;
}

absl::StatusOr<void*> FakeDriver::Allocate(Pool pool, int64_t size_bytes, Stream stream) {
  absl::MutexLock lock(&mutex_);
  DPIPE_RETURN_IF_ERROR(Unsafe("Allocate", stream));
  DPIPE_RETURN_IF_ERROR(Failure("Allocate"));
  PoolState& of_pool = pools_.at(pool);
  const int64_t reserved = ReservedOn(of_pool.gpu);
  const int64_t lacking = of_pool.live_bytes + size_bytes - of_pool.reserved_bytes;
  if (memory_limit_ > 0 && lacking > 0 && reserved + lacking > memory_limit_) {
    return absl::ResourceExhaustedError(
        absl::StrCat(reserved, " of ", memory_limit_, " bytes in use"));
  }
  live_bytes_ += size_bytes;
  of_pool.live_bytes += size_bytes;
  of_pool.reserved_bytes = std::max(of_pool.reserved_bytes, of_pool.live_bytes);
  Block block{nullptr, size_bytes, pool};
  if (hidden_ == nullptr) block.data.reset(new char[size_bytes]);
  char* const data = hidden_ == nullptr ? block.data.get() : hidden_->Allocate(size_bytes);
  if (hidden_ == nullptr) std::memset(data, 0xcd, std::min(size_bytes, kFilledBytes));
  blocks_[data] = std::move(block);
  return data;
}

absl::Status FakeDriver::Free(void* data, Stream stream) {
  absl::MutexLock lock(&mutex_);
  DPIPE_RETURN_IF_ERROR(Unsafe("Free", stream));
  return Push("Free", stream, {[this, data]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
                Block& block = blocks_.at(static_cast<char*>(data));
                if (!block.live) return violations_.push_back("a block was freed twice");
                block.live = false;
                live_bytes_ -= block.size_bytes;
                PoolState& pool = pools_.at(block.pool);
                pool.live_bytes -= block.size_bytes;
                if (pool.destroyed) pool.reserved_bytes = pool.live_bytes;
                if (pool.destroyed && pool.live_bytes == 0) pools_.erase(block.pool);
                std::memset(data, 0xdd, std::min(block.size_bytes, kFilledBytes));
              }});
}

absl::Status FakeDriver::Trim(Pool pool) {
  absl::MutexLock lock(&mutex_);
  DPIPE_RETURN_IF_ERROR(Unsafe("Trim"));
  DPIPE_RETURN_IF_ERROR(Failure("Trim"));
  pools_.at(pool).reserved_bytes = pools_.at(pool).live_bytes;
  return absl::OkStatus();
}

absl::StatusOr<int64_t> FakeDriver::ReservedBytes(Pool pool) {
  absl::MutexLock lock(&mutex_);
  DPIPE_RETURN_IF_ERROR(Failure("ReservedBytes"));
  return pools_.at(pool).reserved_bytes;
}

absl::StatusOr<void*> FakeDriver::AllocatePinned(const Context& context, int64_t size_bytes) {
  absl::MutexLock lock(&mutex_);
  DPIPE_RETURN_IF_ERROR(Unsafe("AllocatePinned"));
  DPIPE_RETURN_IF_ERROR(Failure("AllocatePinned"));
  Block block{std::unique_ptr<char[]>(new char[size_bytes]), size_bytes};
  char* const data = block.data.get();
  pinned_[data] = std::move(block);
  return data;
}

void FakeDriver::FreePinned(void* data) {
  absl::MutexLock lock(&mutex_);
  DPIPE_CHECK_EQ(pinned_.erase(static_cast<char*>(data)), 1);
}

const FakeDriver::Block* FakeDriver::FindBlock(const void* data, int64_t size_bytes) const {
  const char* const begin = static_cast<const char*>(data);
  for (const auto* blocks : {&blocks_, &pinned_}) {
    auto it = blocks->upper_bound(begin);
    if (it == blocks->begin()) continue;
    --it;
    if (begin + size_bytes <= it->first + it->second.size_bytes) return &it->second;
  }
  return nullptr;
}

Pool FakeDriver::CheckAccess(const char* what, const void* data, int64_t size_bytes) {
  const Block* const block = FindBlock(data, size_bytes);
  if (block == nullptr) {
    violations_.push_back(absl::StrCat(what, " of memory that is not the driver's"));
    return nullptr;
  }
  if (!block->live) violations_.push_back(absl::StrCat(what, " of freed memory"));
  return block->pool;
}

void FakeDriver::CheckAccess(const char* what, const void* data, int64_t size_bytes,
                             Stream stream) {
  Tell(contexts_.Reach(what, stream, CheckAccess(what, data, size_bytes)));
}

absl::Status FakeDriver::Copy(void* to, const void* from, int64_t size_bytes, Stream stream) {
  absl::MutexLock lock(&mutex_);
  DPIPE_RETURN_IF_ERROR(Captured("Copy", stream, from, size_bytes));
  DPIPE_RETURN_IF_ERROR(Captured("Copy", stream, to, size_bytes));
  return Push("Copy", stream, {[=]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
                CheckAccess("a copy out", from, size_bytes, stream);
                CheckAccess("a copy in", to, size_bytes, stream);
                std::memcpy(to, from, size_bytes);
              }});
}

absl::Status FakeDriver::CopyBetween(void* to, int to_gpu, const void* from, int from_gpu,
                                     int64_t size_bytes, Stream stream) {
  absl::MutexLock lock(&mutex_);
  DPIPE_RETURN_IF_ERROR(Captured("CopyBetween", stream, from, size_bytes));
  DPIPE_RETURN_IF_ERROR(Captured("CopyBetween", stream, to, size_bytes));
  return Push("CopyBetween", stream, {[=]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
                Tell(contexts_.Named(CheckAccess("a copy out", from, size_bytes), from_gpu));
                Tell(contexts_.Named(CheckAccess("a copy in", to, size_bytes), to_gpu));
                std::memcpy(to, from, size_bytes);
              }});
}

absl::Status FakeDriver::Fill(void* data, int value, int64_t size_bytes, Stream stream) {
  absl::MutexLock lock(&mutex_);
  DPIPE_RETURN_IF_ERROR(Captured("Fill", stream, data, size_bytes));
  return Push("Fill", stream, {[=]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
                CheckAccess("a fill", data, size_bytes, stream);
                std::memset(data, value, size_bytes);
              }});
}

absl::Status FakeDriver::Delay(int64_t duration_ns, Stream stream) {
  absl::MutexLock lock(&mutex_);
  return Push("Delay", stream,
              {[this, duration_ns]() ABSL_NO_THREAD_SAFETY_ANALYSIS { clock_ns_ += duration_ns; }});
}

absl::Status FakeDriver::Convert(void* to, DType to_dtype, const void* from, DType from_dtype,
                                 int64_t count, Stream stream) {
  const bool narrow = from_dtype == DType::kF32 && to_dtype == DType::kBf16;
  if (!narrow && !(from_dtype == DType::kBf16 && to_dtype == DType::kF32)) {
    return absl::InvalidArgumentError(
        absl::StrCat("from ", DTypeName(from_dtype), " to ", DTypeName(to_dtype)));
  }
  absl::MutexLock lock(&mutex_);
  return Push("Convert", stream, {[=]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
                CheckAccess("a conversion", from, count * (narrow ? 4 : 2), stream);
                CheckAccess("a conversion", to, count * (narrow ? 2 : 4), stream);
                for (int64_t i = 0; i < count; ++i) {
                  if (narrow) {
                    static_cast<Bf16*>(to)[i] = Bf16(static_cast<const float*>(from)[i]);
                  } else {
                    static_cast<float*>(to)[i] =
                        static_cast<float>(static_cast<const Bf16*>(from)[i]);
                  }
                }
              }});
}

// Runs the kernel's code block by block; a GPU would run the blocks in any order.
absl::Status FakeDriver::AddUp(absl::Span<const OrderedSum> sums, Stream stream) {
  absl::MutexLock lock(&mutex_);
  for (const SumTable& table : SumTablesOf(sums)) {
    DPIPE_RETURN_IF_ERROR(Push("AddUp", stream, {[=]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
                                 for (int s = 0; s < table.num_sums; ++s) {
                                   const SumTable::Sum& sum = table.sums[s];
                                   const int64_t size_bytes = sum.count * 4;
                                   CheckAccess("a sum", sum.sum, size_bytes, stream);
                                   for (int t = 0; t < sum.num_terms; ++t) {
                                     CheckAccess("a term", table.terms[sum.first_term + t],
                                                 size_bytes, stream);
                                   }
                                 }
                                 if (!SumsAreApart(table)) {
                                   violations_.push_back("a sum with overlapping memory");
                                 }
                                 for (uint32_t block = 0; block < table.blocks(); ++block) {
                                   for (uint32_t i = 0; i < SumTable::kThreads; ++i) {
                                     table.AddUp(block, i);
                                   }
                                 }
                               }}));
  }
  return absl::OkStatus();
}

}  // namespace dpipe::cuda
