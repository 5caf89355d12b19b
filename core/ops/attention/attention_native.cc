#include "core/ops/attention/attention_native.h"

#include <type_traits>

#include "core/ops/onednn/onednn.h"
#include "core/ops/support/convert.h"

namespace dpipe::ops::cpu {
namespace {

using onednn::Desc;
using onednn::Dims;

// A matrix [rows, columns] with element (i, j) at i * row_stride + j * column_stride.
template <typename T>
struct Matrix {
  T* data;
  int64_t row_stride, column_stride = 1;

  Matrix Row(int64_t i) const { return {data + i * row_stride, row_stride, column_stride}; }
  Matrix Transposed() const { return {data, column_stride, row_stride}; }
};

// Returns head `h` of sample `b` of a tensor [B, tokens, width].
Matrix<Bf16> HeadOf(const AttentionSizes& s, const Tensor& t, int64_t b, int64_t h) {
  return {t.data<Bf16>() + b * t.dim(1) * s.width + h * s.head, s.width};
}

// c [m, n] = a [m, k] b [k, n] (+ c).
struct Product {
  int64_t m, n, k;
  Dims a_strides, b_strides, c_strides;
  bool wide;  // c is fp32, else bf16
  bool add;

  onednn::Key key() const {
    return {m,
            n,
            k,
            a_strides[0],
            a_strides[1],
            b_strides[0],
            b_strides[1],
            c_strides[0],
            c_strides[1],
            wide,
            add};
  }
};

template <typename T>
Dims StridesOf(const Matrix<T>& matrix) {
  return {matrix.row_stride, matrix.column_stride};
}

onednn::Primitive MakeProduct(const Product& p) {
  const auto bf16 = dnnl::memory::data_type::bf16, f32 = dnnl::memory::data_type::f32;
  const Desc a(Dims{p.m, p.k}, bf16, p.a_strides), b(Dims{p.k, p.n}, bf16, p.b_strides);
  const Desc c(Dims{p.m, p.n}, p.wide ? f32 : bf16, p.c_strides);
  dnnl::primitive_attr attr = onednn::UserScratchpad();
  if (p.add) {
    dnnl::post_ops sum;
    sum.append_sum(1.0f);
    attr.set_post_ops(sum);
  }
  const auto desc = onednn::Describe<dnnl::matmul>(attr, a, b, c);
  return onednn::Primitive("attention", dnnl::matmul(desc), desc.scratchpad_desc(),
                           {{DNNL_ARG_SRC, a}, {DNNL_ARG_WEIGHTS, b}, {DNNL_ARG_DST, c}});
}

template <typename T>
absl::Status Multiply(const std::shared_ptr<Device>& device, int64_t m, int64_t n, int64_t k,
                      const Matrix<Bf16>& a, const Matrix<Bf16>& b, const Matrix<T>& c,
                      bool add = false) {
  thread_local onednn::PrimitiveCache<onednn::Primitive> cache;
  const Product product = {
      m, n, k, StridesOf(a), StridesOf(b), StridesOf(c), std::is_same_v<T, float>, add};
  DPIPE_ASSIGN_OR_RETURN(
      const onednn::Primitive* primitive,
      cache.Get("attention", product.key(), [&] { return MakeProduct(product); }));
  return primitive->Run(device, {a.data, b.data, c.data});
}

// Number of floats that hold `elements` bf16 numbers.
int64_t FloatsOf(int64_t elements) { return Arena::Rounded((elements + 1) / 2); }
Bf16* TakeBf16(Arena* arena, int64_t elements) {
  return reinterpret_cast<Bf16*>(arena->Take(FloatsOf(elements)));
}

// The products of a head of one sample.
class Head {
 public:
  Head(const std::shared_ptr<Device>& device, const AttentionSizes& s) : device_(device), s_(s) {}

  // Scores, and gradients of probabilities: c [rows, keys] = a b^T.
  absl::Status ByKey(int64_t rows, const Matrix<Bf16>& a, const Matrix<Bf16>& b, float* c) const {
    return Multiply(device_, rows, s_.keys, s_.head, a, b.Transposed(), Matrix<float>{c, s_.keys});
  }
  // y and dq [rows, head] = p b.
  absl::Status OfQueries(int64_t rows, Bf16* p, const Matrix<Bf16>& b,
                         const Matrix<Bf16>& c) const {
    return Multiply(device_, rows, s_.head, s_.keys, {p, s_.keys}, b, c);
  }
  // dk and dv [keys, head] = p^T b, or += if `add`.
  template <typename T>
  absl::Status OfKeys(int64_t rows, Bf16* p, const Matrix<Bf16>& b, const Matrix<T>& c,
                      bool add) const {
    return Multiply(device_, s_.keys, s_.head, rows, Matrix<Bf16>{p, s_.keys}.Transposed(), b, c,
                    add);
  }

 private:
  const std::shared_ptr<Device>& device_;
  const AttentionSizes& s_;
};

// A gradient [keys, head] to which blocks of queries add: in place if there is one block, else
// first in fp32.
class KeySums {
 public:
  KeySums(const AttentionSizes& s, const Matrix<Bf16>& place, Arena* arena)
      : s_(s), place_(place), sums_(InBlocks(s) ? arena->Take(s.keys * s.head) : nullptr) {}

  static bool InBlocks(const AttentionSizes& s) { return s.block < s.queries; }
  static int64_t ScratchFloats(const AttentionSizes& s) {
    return InBlocks(s) ? Arena::Rounded(s.keys * s.head) : 0;
  }

  absl::Status Add(const Head& head, int64_t rows, Bf16* p, const Matrix<Bf16>& b, bool first) {
    if (sums_ == nullptr) return head.OfKeys(rows, p, b, place_, /*add=*/false);
    return head.OfKeys(rows, p, b, Matrix<float>{sums_, s_.head}, !first);
  }
  void Finish() const {
    if (sums_ == nullptr) return;
    NarrowRows(s_.keys, s_.head, sums_, s_.head, place_.data, place_.row_stride);
  }

 private:
  const AttentionSizes& s_;
  const Matrix<Bf16> place_;
  float* const sums_;
};

}  // namespace

absl::StatusOr<AttentionResult> NativeAttention(const AttentionParams& params,
                                                const AttentionSizes& s, const Tensor& q,
                                                const Tensor& k, const Tensor& v, bool keep_saved,
                                                const Tensor& relative_bias) {
  const Tensor y = Tensor::Empty(q.device(), q.shape(), q.dtype());
  const Tensor saved = keep_saved ? NewSaved(s, q) : Tensor();
  const bool keep_p = keep_saved && s.save_probabilities;
  const int64_t scratch = Arena::Rounded(s.block * s.keys) + FloatsOf(s.block * s.keys);
  const Head head(q.device(), s);
  DPIPE_RETURN_IF_ERROR(
      ForEachHead(s, q.device(), scratch, [&](int64_t b, int64_t h, Arena arena) -> absl::Status {
        float* const scores = arena.Take(s.block * s.keys);
        Bf16* const rounded = TakeBf16(&arena, s.block * s.keys);
        const Matrix<Bf16> queries = HeadOf(s, q, b, h), output = HeadOf(s, y, b, h);
        const int64_t offset = SavedOffset(s, b, h);
        for (int64_t i = 0; i < s.queries; i += s.block) {
          const int64_t rows = std::min(s.block, s.queries - i);
          DPIPE_RETURN_IF_ERROR(head.ByKey(rows, queries.Row(i), HeadOf(s, k, b, h), scores));
          float* const log_sums =
              keep_saved && !keep_p ? saved.data<float>() + offset + i : nullptr;
          Softmax(BlockRows(params, s, BiasOfHead(s, relative_bias, b, h), i, rows), scores,
                  log_sums);
          Bf16* const p = keep_p ? saved.data<Bf16>() + offset + i * s.keys : rounded;
          Narrow(rows * s.keys, scores, p);
          DPIPE_RETURN_IF_ERROR(head.OfQueries(rows, p, HeadOf(s, v, b, h), output.Row(i)));
        }
        return absl::OkStatus();
      }));
  return AttentionResult{y, saved};
}

absl::Status NativeAttentionGrad(const AttentionParams& params, const AttentionSizes& s,
                                 const Tensor& dy, const Tensor& q, const Tensor& k,
                                 const Tensor& v, const Tensor& saved, const Tensor& relative_bias,
                                 const AttentionGrads& grads) {
  const int64_t scores = s.block * s.keys;
  const int64_t scratch =
      2 * Arena::Rounded(scores) + 2 * FloatsOf(scores) + 2 * KeySums::ScratchFloats(s);
  const Head head(q.device(), s);
  return ForEachHead(
      s, q.device(), scratch, [&](int64_t b, int64_t h, Arena arena) -> absl::Status {
        float* const p = arena.Take(scores);
        float* const ds = arena.Take(scores);
        Bf16* const p_scratch = TakeBf16(&arena, scores);
        Bf16* const rounded = TakeBf16(&arena, scores);
        KeySums dk(s, HeadOf(s, grads.dk, b, h), &arena), dv(s, HeadOf(s, grads.dv, b, h), &arena);
        const Matrix<Bf16> queries = HeadOf(s, q, b, h), keys = HeadOf(s, k, b, h);
        const Matrix<Bf16> values = HeadOf(s, v, b, h), outputs = HeadOf(s, dy, b, h);
        const int64_t offset = SavedOffset(s, b, h);
        for (int64_t i = 0; i < s.queries; i += s.block) {
          const int64_t rows = std::min(s.block, s.queries - i);
          const SoftmaxRows block =
              BlockRows(params, s, BiasOfHead(s, relative_bias, b, h), i, rows);
          Bf16* p_rounded = p_scratch;
          if (s.save_probabilities) {
            p_rounded = saved.data<Bf16>() + offset + i * s.keys;
            Widen(rows * s.keys, p_rounded, p);
          } else {
            DPIPE_RETURN_IF_ERROR(head.ByKey(rows, queries.Row(i), keys, p));
            SoftmaxFromLogSums(block, saved.data<float>() + offset + i, p);
            Narrow(rows * s.keys, p, p_rounded);
          }
          DPIPE_RETURN_IF_ERROR(dv.Add(head, rows, p_rounded, outputs.Row(i), i == 0));
          DPIPE_RETURN_IF_ERROR(head.ByKey(rows, outputs.Row(i), values, ds));
          SoftmaxGrad(block, p, ds);
          if (relative_bias.defined()) {
            AddRelativeBiasGrad(block, ds,
                                BiasOfQuery(s, BiasOfHead(s, grads.drelative_bias, b, h), i));
          }
          Narrow(rows * s.keys, ds, rounded);
          DPIPE_RETURN_IF_ERROR(
              head.OfQueries(rows, rounded, keys, HeadOf(s, grads.dq, b, h).Row(i)));
          DPIPE_RETURN_IF_ERROR(dk.Add(head, rows, rounded, queries.Row(i), i == 0));
        }
        dk.Finish();
        dv.Finish();
        return absl::OkStatus();
      });
}

}  // namespace dpipe::ops::cpu
