// Helpers of attention's CPU implementations. They go head by head, and within a head by blocks of
// queries, whose scores against all keys stay in the cache.
#ifndef DPIPE_CORE_OPS_ATTENTION_ATTENTION_HEADS_H_
#define DPIPE_CORE_OPS_ATTENTION_ATTENTION_HEADS_H_

#include <omp.h>

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "core/ops/attention/attention.h"
#include "core/ops/attention/softmax.h"
#include "core/ops/onednn/onednn.h"
#include "core/ops/support/parallel.h"

namespace dpipe::ops::cpu {

struct AttentionSizes {
  AttentionSizes(const AttentionParams& params, const Tensor& q, const Tensor& k)
      : batch(q.dim(0)),
        heads(params.num_heads),
        queries(q.dim(1)),
        keys(k.dim(1)),
        width(q.dim(2)),
        head(width / heads),
        block(std::min(queries, std::max<int64_t>(32, kBlockElements / keys))),
        bf16(q.dtype() == DType::kBf16),
        native(bf16 && queries * keys >= kMinNative && onednn::NativeBf16()),
        save_probabilities(queries * keys <= kMaxSaved) {}

  // Scores per block: 1 MiB, so that backward's two such arrays fit in a 2 MiB L2 cache. With
  // smaller blocks sgemm repacks the keys too often (4096 tokens: 512 KiB is a fifth slower).
  static constexpr int64_t kBlockElements = 262144;
  // Maximum of probabilities per head that are kept for backward: 256 x 256. Above it, backward
  // recomputes them from one log-sum per query, and memory is linear in the number of tokens.
  static constexpr int64_t kMaxSaved = 65536;
  // Scores per head from which bf16 instructions are faster; a primitive has a longer call than
  // sgemm. 64 x 64 scores take equal time. 256 x 256 take 0.75 of the time forward and 0.86
  // backward, 4096 x 4096 0.7 and 0.8 (Zen 5; not measured with AMX).
  static constexpr int64_t kMinNative = 16384;

  int64_t batch, heads, queries, keys, width, head, block;
  bool bf16, native, save_probabilities;
};

// Allocates pieces of one buffer.
class Arena {
 public:
  explicit Arena(float* data) : next_(data) {}
  float* Take(int64_t elements) {
    float* const piece = next_;
    next_ += (elements + 15) / 16 * 16;  // whole cache lines
    return piece;
  }
  static int64_t Rounded(int64_t elements) { return (elements + 15) / 16 * 16; }

 private:
  float* next_;
};

// Runs f(b, h, arena) for every sample and head, with `elements` of scratch per thread.
template <typename F>
absl::Status ForEachHead(const AttentionSizes& s, const std::shared_ptr<Device>& device,
                         int64_t elements, const F& f) {
  const int64_t tasks = s.batch * s.heads;
  const int64_t workers = std::min<int64_t>(device->num_threads(), tasks);
  if (tasks == 0) return absl::OkStatus();
  const Tensor scratch = Tensor::Empty(device, {workers * elements}, DType::kF32);
  std::vector<absl::Status> statuses(workers);
  // Worker w takes a contiguous share of the tasks, so that its scratch stays in the cache.
  ParallelFor(*device, workers, [&](int64_t w) {
    // Applies to this thread until the end of the loop. oneDNN's primitives are created for the
    // number of threads that runs them.
    if (workers > 1) omp_set_num_threads(1);
    for (int64_t task = tasks * w / workers; task < tasks * (w + 1) / workers; ++task) {
      absl::Status status =
          f(task / s.heads, task % s.heads, Arena(scratch.data<float>() + w * elements));
      if (!status.ok()) statuses[w] = std::move(status);
    }
  });
  for (absl::Status& status : statuses) DPIPE_RETURN_IF_ERROR(std::move(status));
  return absl::OkStatus();
}

// Returns a head's part of a relative bias or its gradient, or null if it is undefined.
inline float* BiasOfHead(const AttentionSizes& s, const Tensor& relative_bias, int64_t b,
                         int64_t h) {
  if (!relative_bias.defined()) return nullptr;
  return relative_bias.data<float>() + (b * s.heads + h) * (s.queries + s.keys - 1);
}

// Returns the element of BiasOfHead for query `first` and key 0, or null.
template <typename T>
T* BiasOfQuery(const AttentionSizes& s, T* of_head, int64_t first) {
  return of_head == nullptr ? nullptr : of_head + s.queries - 1 - first;
}

// `bias`: of BiasOfHead.
inline SoftmaxRows BlockRows(const AttentionParams& params, const AttentionSizes& s,
                             const float* bias, int64_t first, int64_t rows) {
  return {rows, s.keys, params.causal, first, params.scale, BiasOfQuery(s, bias, first)};
}

// Returns the offset of a head's probabilities or log-sums in `saved`.
inline int64_t SavedOffset(const AttentionSizes& s, int64_t b, int64_t h) {
  return (b * s.heads + h) * s.queries * (s.save_probabilities ? s.keys : 1);
}

// Allocates the tensor that forward keeps.
inline Tensor NewSaved(const AttentionSizes& s, const Tensor& q) {
  if (!s.save_probabilities) {
    return Tensor::Empty(q.device(), {s.batch, s.heads, s.queries}, DType::kF32);
  }
  return Tensor::Empty(q.device(), {s.batch, s.heads, s.queries, s.keys}, q.dtype());
}

}  // namespace dpipe::ops::cpu

#endif  // DPIPE_CORE_OPS_ATTENTION_ATTENTION_HEADS_H_
