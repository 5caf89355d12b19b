// The adapter to oneDNN: one engine, a stream a thread, cached primitives, prepared weights.
// The library's exceptions and status codes become absl::Status here and go no further.
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
#include "core/ops/weight.h"
#include "core/tensor/tensor.h"
#include "oneapi/dnnl/dnnl.hpp"

namespace dpipe::ops::onednn {

using Desc = dnnl::memory::desc;
using Dims = dnnl::memory::dims;
using Tag = dnnl::memory::format_tag;

// Of the whole process; never destroyed, since threads may outlive main.
const dnnl::engine& CpuEngine();

dnnl::memory::data_type ToDataType(DType dtype);

// Whether bf16 ops run on bf16 instructions: where the CPU has AMX, or AVX512-BF16 and is AMD's,
// which multiplies with it at twice the rate of fp32 (measured on Zen 5: a convolution of 320
// channels 15 ms against 29). Elsewhere oneDNN's bf16 kernels are slower than its fp32 ones
// (Intel's AVX512-BF16 multiplies at half the rate, measured 105 against 200 GFLOP/s a core of
// Sapphire Rapids; older CPUs emulate or have none), so activations are widened, which is exact,
// multiplied by fp32 masters, and results rounded to bf16. Both ways accumulate in fp32 and round
// once; bf16 instructions need the weight rounded too.
bool NativeBf16();

enum class Bf16Choice { kByCpu, kNative, kWidened };
// For tests and benchmarks, before ops run on other threads.
void SetBf16Choice(Bf16Choice choice);

// Whether fp32 products whose rows belong to samples are FixedOrderProduct's instead of oneDNN's:
// where oneDNN has AVX2 but not AVX-512. Its kernels for AVX2 divide the sums of the rows left over
// from whole tiles differently from those of the others, and which rows those are depends on how
// many there are and on the threads.
bool NeedsFixedOrder();

// Internal unless the code is dnnl_success; `what` opens the message.
absl::Status ToStatus(dnnl_status_t code, absl::string_view what);

// Runs f and turns dnnl::error into a Status.
template <typename F>
absl::Status Guard(absl::string_view what, const F& f) {
  try {
    f();
  } catch (const dnnl::error& error) {
    return ToStatus(error.status, what);
  }
  return absl::OkStatus();
}

// C [m, n] = A B + beta C in row-major fp32, with rows lda, ldb, ldc elements apart. `transpose_a`:
// A is stored [k, m]; likewise b. Runs on the calling thread's team; single-threaded inside one.
absl::Status Gemm(bool transpose_a, bool transpose_b, int64_t m, int64_t n, int64_t k,
                  const float* a, int64_t lda, const float* b, int64_t ldb, float beta, float* c,
                  int64_t ldc);

// The attribute of every primitive here: the caller brings the scratchpad.
dnnl::primitive_attr UserScratchpad();

// Whether primitives are described in two steps, as before oneDNN 3: Operation::desc, and then
// Operation::primitive_desc.
template <typename Operation, typename = void>
inline constexpr bool kHasOperationDesc = false;
template <typename Operation>
inline constexpr bool kHasOperationDesc<Operation, std::void_t<typename Operation::desc>> = true;

// Describes an operation, such as dnnl::matmul, by the arguments that oneDNN 2 and 3 both ask for,
// in their order. May throw dnnl::error.
template <typename Operation, typename... Arguments>
typename Operation::primitive_desc Describe(const dnnl::primitive_attr& attr,
                                            const Arguments&... arguments) {
  if constexpr (kHasOperationDesc<Operation>) {
    return {typename Operation::desc(arguments...), attr, CpuEngine()};
  } else {
    return {CpuEngine(), arguments..., attr};
  }
}

// Likewise of an operation that belongs to a forward one.
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
  // `arguments` in the order in which Run takes their data. May throw dnnl::error.
  Primitive(std::string what, dnnl::primitive primitive, const Desc& scratchpad,
            const std::vector<Argument>& arguments);

  // The scratchpad, where one is needed, comes from the device's allocator.
  absl::Status Run(const std::shared_ptr<Device>& device,
                   std::initializer_list<const void*> data) const;

 private:
  std::string what_;
  dnnl::primitive primitive_;
  int64_t scratchpad_bytes_ = 0;
  std::vector<dnnl::memory> memories_;
  std::vector<dnnl_exec_arg_t> exec_arguments_;
};

// How a primitive wants a weight: in which layout and type.
class WeightForm {
 public:
  WeightForm() = default;
  // `plain` describes the fp32 master. May throw dnnl::error.
  WeightForm(const Desc& plain, const Desc& wanted);

  // The master itself, or a form cached in `w`.
  absl::StatusOr<Tensor> Get(const Weight& w) const;

 private:
  absl::StatusOr<Tensor> Prepare(const Tensor& master) const;

  bool is_master_ = false;
  int format_ = 0;
  int64_t size_bytes_ = 0;
  Primitive reorder_;
};

// What identifies a primitive: sizes, types and options, zero-filled. The thread count is added by
// PrimitiveCache, since oneDNN fixes it at creation.
using Key = std::array<int64_t, 16>;

// One thread's primitives of a kind, to be held in a thread_local. Entries are few: one a shape.
template <typename Entry>
class PrimitiveCache {
 public:
  // The entry of `key`, from `make` (which may throw dnnl::error) where it is missing.
  template <typename Make>
  absl::StatusOr<const Entry*> Get(absl::string_view what, Key key, const Make& make);

 private:
  static constexpr size_t kMaxEntries = 4096;  // then start over, so that memory stays bounded
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
