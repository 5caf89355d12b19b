// The adapter to oneDNN: one engine, one stream per thread, cached primitives, prepared weights.
// The library's exceptions and status codes become absl::Status here.
#ifndef DPIPE_CORE_OPS_ONEDNN_ONEDNN_H_
#define DPIPE_CORE_OPS_ONEDNN_ONEDNN_H_

#include <array>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "core/base/status.h"
#include "core/ops/product/weight.h"
#include "core/tensor/tensor.h"
#include "oneapi/dnnl/dnnl.hpp"

namespace dpipe::ops::onednn {

using Desc = dnnl::memory::desc;
using Dims = dnnl::memory::dims;
using Tag = dnnl::memory::format_tag;

// Returns the engine of the process. It is never destroyed, because threads may outlive main.
const dnnl::engine& CpuEngine();

dnnl::memory::data_type ToDataType(DType dtype);

// True if bf16 ops run on bf16 instructions: the CPU has AMX, or it is AMD's and has AVX512-BF16.
//
// AMD's CPUs multiply with AVX512-BF16 at twice the rate of fp32 (measured on Zen 5: a convolution
// of 320 channels takes 15 ms, in fp32 29). On other CPUs oneDNN's bf16 kernels are slower than its
// fp32 ones: Intel's AVX512-BF16 multiplies at half the rate (measured 105 against 200 GFLOP/s per
// core of Sapphire Rapids); older CPUs emulate bf16 or have none. There, activations are widened,
// which is exact, multiplied by fp32 masters, and results rounded to bf16. Both ways accumulate in
// fp32 and round once; bf16 instructions also need a rounded weight.
bool NativeBf16();

enum class Bf16Choice { kByCpu, kNative, kWidened };
// For tests and benchmarks; call before ops run on other threads.
void SetBf16Choice(Bf16Choice choice);

// True if fp32 products whose rows belong to samples must use FixedOrderProduct instead of oneDNN:
// if oneDNN has AVX2 but not AVX-512. Its AVX2 kernels split the sums of rows left over from whole
// tiles differently from the others. Which rows those are depends on the number of rows and
// threads.
bool NeedsFixedOrder();

// Returns Internal unless the code is dnnl_success; `what` begins the message.
absl::Status ToStatus(dnnl_status_t code, absl::string_view what);

// Runs f and converts dnnl::error into a Status.
template <typename F>
absl::Status Guard(absl::string_view what, const F& f) {
  try {
    f();
  } catch (const dnnl::error& error) {
    return ToStatus(error.status, what);
  }
  return absl::OkStatus();
}

// Computes C [m, n] = A B + beta C in row-major fp32, with rows lda, ldb, ldc elements apart. If
// `transpose_a`, A is stored as [k, m]; the same for b. Runs on the calling thread's team, or
// single-threaded inside one.
absl::Status Gemm(bool transpose_a, bool transpose_b, int64_t m, int64_t n, int64_t k,
                  const float* a, int64_t lda, const float* b, int64_t ldb, float beta, float* c,
                  int64_t ldc);

// Returns the attribute of every primitive here: the caller provides the scratchpad.
dnnl::primitive_attr UserScratchpad();

// True if primitives are described in two steps, as before oneDNN 3: Operation::desc, then
// Operation::primitive_desc.
template <typename Operation, typename = void>
inline constexpr bool kHasOperationDesc = false;
template <typename Operation>
inline constexpr bool kHasOperationDesc<Operation, std::void_t<typename Operation::desc>> = true;

// Describes an operation, such as dnnl::matmul, by the arguments that oneDNN 2 and 3 have in
// common, in their order. May throw dnnl::error.
template <typename Operation, typename... Arguments>
typename Operation::primitive_desc Describe(const dnnl::primitive_attr& attr,
                                            const Arguments&... arguments) {
  if constexpr (kHasOperationDesc<Operation>) {
    return {typename Operation::desc(arguments...), attr, CpuEngine()};
  } else {
    return {CpuEngine(), arguments..., attr};
  }
}

// The same for a backward operation that belongs to a forward one.
template <typename Operation, typename Forward, typename... Arguments>
typename Operation::primitive_desc DescribeBackward(const dnnl::primitive_attr& attr,
                                                    const Forward& forward,
                                                    const Arguments&... arguments) {
  if constexpr (kHasOperationDesc<Operation>) {
    return {typename Operation::desc(arguments...), attr, CpuEngine(), forward};
  } else {
    return {CpuEngine(), arguments..., forward, attr};
  }
}

// A primitive with its arguments' memory objects. Not thread-safe: each thread has its own.
class Primitive {
 public:
  struct Argument {
    int index;  // DNNL_ARG_...
    Desc desc;
  };

  Primitive() = default;
  // `arguments` are in the order in which Run takes their data. May throw dnnl::error.
  Primitive(std::string what, dnnl::primitive primitive, const Desc& scratchpad,
            const std::vector<Argument>& arguments);

  // Takes the scratchpad, if needed, from the device's allocator.
  absl::Status Run(const std::shared_ptr<Device>& device,
                   std::initializer_list<const void*> data) const;

 private:
  std::string what_;
  dnnl::primitive primitive_;
  int64_t scratchpad_bytes_ = 0;
  std::vector<dnnl::memory> memories_;
  std::vector<dnnl_exec_arg_t> exec_arguments_;
};

// The layout and type that a primitive needs of a weight.
class WeightForm {
 public:
  WeightForm() = default;
  // `plain` describes the fp32 master. May throw dnnl::error.
  WeightForm(const Desc& plain, const Desc& wanted);

  // Returns the master itself, or a form cached in `w`.
  absl::StatusOr<Tensor> Get(const Weight& w) const;

 private:
  absl::StatusOr<Tensor> Prepare(const Tensor& master) const;

  bool is_master_ = false;
  int format_ = 0;
  int64_t size_bytes_ = 0;
  Primitive reorder_;
};

// Identifies a primitive: sizes, types and options, zero-filled. PrimitiveCache adds the thread
// count, which oneDNN fixes at creation.
using Key = std::array<int64_t, 16>;

// One thread's primitives of one kind, to be held in a thread_local. There are few entries: one per
// shape.
template <typename Entry>
class PrimitiveCache {
 public:
  // Returns the entry of `key`, created by `make` (which may throw dnnl::error) if it is missing.
  template <typename Make>
  absl::StatusOr<const Entry*> Get(absl::string_view what, Key key, const Make& make);

 private:
  static constexpr size_t kMaxEntries = 4096;  // cleared at this size, so that memory stays bounded
  absl::flat_hash_map<Key, std::unique_ptr<Entry>> entries_;
};

int MaxThreads();

template <typename Entry>
template <typename Make>
absl::StatusOr<const Entry*> PrimitiveCache<Entry>::Get(absl::string_view what, Key key,
                                                        const Make& make) {
  key.back() = MaxThreads();
  const auto it = entries_.find(key);
  if (it != entries_.end()) return it->second.get();
  auto entry = std::make_unique<Entry>();
  DPIPE_RETURN_IF_ERROR(Guard(what, [&] { *entry = make(); }));
  if (entries_.size() >= kMaxEntries) entries_.clear();
  return (entries_[key] = std::move(entry)).get();
}

}  // namespace dpipe::ops::onednn

#endif  // DPIPE_CORE_OPS_ONEDNN_ONEDNN_H_
