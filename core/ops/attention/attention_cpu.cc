// Attention head by head, and within a head by blocks of queries, whose scores against all keys
// stay in the cache. oneDNN's sgemm computes the matrix products and reads heads in place by
// strides; softmax comes in between. bf16 operands are widened one head at a time, so that sums and
// probabilities are fp32.
//
// In fp32, sgemm beats oneDNN's batched matmul at every shape of these models (256 tokens, 2 heads
// of 32, a batch of 4: 160 us against 182 to 306 us per product). attention_native.cc handles many
// scores in bf16.
#include <algorithm>

#include "core/ops/attention/attention_heads.h"
#include "core/ops/attention/attention_kernels.h"
#include "core/ops/attention/attention_native.h"
#include "core/ops/onednn/onednn.h"
#include "core/ops/product/fixed_order_product.h"
#include "core/ops/support/convert.h"

namespace dpipe::ops::cpu {
namespace {

// A head's matrix [tokens, head size]: in place, or a widened copy.
struct Matrix {
  // Returns the rows from the i-th on.
  Matrix Row(int64_t i) const { return {data + i * stride, stride}; }

  float* data;
  int64_t stride;
};

// Returns head `h` of sample `b` of a tensor [B, tokens, width] for reading; bf16 is widened in
// `arena`.
Matrix ReadHead(const AttentionSizes& s, const Tensor& t, int64_t b, int64_t h, Arena* arena) {
  const int64_t tokens = t.dim(1), offset = b * tokens * s.width + h * s.head;
  if (!s.bf16) return {t.data<float>() + offset, s.width};
  float* const copy = arena->Take(tokens * s.head);
  WidenRows(tokens, s.head, t.data<Bf16>() + offset, s.width, copy, s.head);
  return {copy, s.head};
}

// Returns the same head for writing: in place, or as a copy that WriteHead rounds into place.
Matrix NewHead(const AttentionSizes& s, const Tensor& t, int64_t b, int64_t h, Arena* arena) {
  const int64_t tokens = t.dim(1);
  if (!s.bf16) return {t.data<float>() + b * tokens * s.width + h * s.head, s.width};
  return {arena->Take(tokens * s.head), s.head};
}

void WriteHead(const AttentionSizes& s, const Matrix& m, int64_t b, int64_t h, const Tensor& t) {
  if (!s.bf16) return;
  const int64_t tokens = t.dim(1);
  NarrowRows(tokens, s.head, m.data, m.stride, t.data<Bf16>() + b * tokens * s.width + h * s.head,
             s.width);
}

// Computes c [rows, n] = a [rows, k] B, in the same order for any number of threads. They divide
// the heads or, if there is only one, the product's rows.
absl::Status Multiply(const Device& device, bool transpose_b, int64_t rows, int64_t n, int64_t k,
                      const Matrix& a, const Matrix& b, const Matrix& c) {
  if (!onednn::NeedsFixedOrder()) {
    return onednn::Gemm(false, transpose_b, rows, n, k, a.data, a.stride, b.data, b.stride, 0,
                        c.data, c.stride);
  }
  FixedOrderProduct(device, transpose_b, rows, n, k, a.data, a.stride, b.data, b.stride, nullptr,
                    c.data, c.stride);
  return absl::OkStatus();
}

absl::Status ForwardHead(const Device& device, const AttentionParams& params,
                         const AttentionSizes& s, const Matrix& q, const Matrix& k, const Matrix& v,
                         const Matrix& y, const float* bias, const Tensor& saved, int64_t offset,
                         float* scores_scratch) {
  const bool keep = saved.defined(), keep_p = keep && s.save_probabilities;
  for (int64_t i = 0; i < s.queries; i += s.block) {
    const int64_t rows = std::min(s.block, s.queries - i);
    float* const p = keep_p && !s.bf16 ? saved.data<float>() + offset + i * s.keys : scores_scratch;
    DPIPE_RETURN_IF_ERROR(Multiply(device, true, rows, s.keys, s.head, q.Row(i), k, {p, s.keys}));
    float* const log_sums = keep && !keep_p ? saved.data<float>() + offset + i : nullptr;
    Softmax(BlockRows(params, s, bias, i, rows), p, log_sums);
    DPIPE_RETURN_IF_ERROR(Multiply(device, false, rows, s.head, s.keys, {p, s.keys}, v, y.Row(i)));
    if (keep_p && s.bf16) {
      Narrow(rows * s.keys, p, saved.data<Bf16>() + offset + i * s.keys);
    }
  }
  return absl::OkStatus();
}

// Returns the probabilities of queries [i, i + rows): in `saved` if it has them in fp32, else
// widened or recomputed in `scratch`.
absl::StatusOr<const float*> Probabilities(const AttentionParams& params, const AttentionSizes& s,
                                           const Matrix& q, const Matrix& k, const float* bias,
                                           const Tensor& saved, int64_t offset, int64_t i,
                                           int64_t rows, float* scratch) {
  if (s.save_probabilities) {
    if (!s.bf16) return saved.data<float>() + offset + i * s.keys;
    Widen(rows * s.keys, saved.data<Bf16>() + offset + i * s.keys, scratch);
    return scratch;
  }
  DPIPE_RETURN_IF_ERROR(onednn::Gemm(false, true, rows, s.keys, s.head, q.data + i * q.stride,
                                     q.stride, k.data, k.stride, 0, scratch, s.keys));
  SoftmaxFromLogSums(BlockRows(params, s, bias, i, rows), saved.data<float>() + offset + i,
                     scratch);
  return scratch;
}

// Allocates the gradients, of which that of the bias is zero.
AttentionGrads NewGrads(const Tensor& q, const Tensor& k, const Tensor& relative_bias) {
  AttentionGrads grads = {Tensor::Empty(q.device(), q.shape(), q.dtype()),
                          Tensor::Empty(q.device(), k.shape(), q.dtype()),
                          Tensor::Empty(q.device(), k.shape(), q.dtype()), Tensor()};
  if (relative_bias.defined()) {
    grads.drelative_bias = Tensor::Zeros(q.device(), relative_bias.shape(), DType::kF32);
  }
  return grads;
}

struct HeadMatrices {
  Matrix dy, q, k, v, dq, dk, dv;
  const float* bias;  // null: none
  float* dbias;       // zeros at first
};

absl::Status InputGradHead(const AttentionParams& params, const AttentionSizes& s,
                           const HeadMatrices& m, const Tensor& saved, int64_t offset,
                           float* p_scratch, float* ds) {
  for (int64_t i = 0; i < s.queries; i += s.block) {
    const int64_t rows = std::min(s.block, s.queries - i);
    const float* const dy = m.dy.data + i * m.dy.stride;
    const float beta = i == 0 ? 0 : 1;  // every block of queries adds to all keys
    DPIPE_ASSIGN_OR_RETURN(const float* p, Probabilities(params, s, m.q, m.k, m.bias, saved, offset,
                                                         i, rows, p_scratch));
    DPIPE_RETURN_IF_ERROR(onednn::Gemm(true, false, s.keys, s.head, rows, p, s.keys, dy,
                                       m.dy.stride, beta, m.dv.data, m.dv.stride));
    DPIPE_RETURN_IF_ERROR(onednn::Gemm(false, true, rows, s.keys, s.head, dy, m.dy.stride, m.v.data,
                                       m.v.stride, 0, ds, s.keys));
    const SoftmaxRows block = BlockRows(params, s, m.bias, i, rows);
    SoftmaxGrad(block, p, ds);
    if (m.bias != nullptr) AddRelativeBiasGrad(block, ds, BiasOfQuery(s, m.dbias, i));
    DPIPE_RETURN_IF_ERROR(onednn::Gemm(false, false, rows, s.head, s.keys, ds, s.keys, m.k.data,
                                       m.k.stride, 0, m.dq.data + i * m.dq.stride, m.dq.stride));
    DPIPE_RETURN_IF_ERROR(onednn::Gemm(true, false, s.keys, s.head, rows, ds, s.keys,
                                       m.q.data + i * m.q.stride, m.q.stride, beta, m.dk.data,
                                       m.dk.stride));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<AttentionResult> AttentionForward(const AttentionParams& params, const Tensor& q,
                                                 const Tensor& k, const Tensor& v, bool keep_saved,
                                                 const Tensor& relative_bias) {
  const AttentionSizes s(params, q, k);
  if (s.native) return NativeAttention(params, s, q, k, v, keep_saved, relative_bias);
  const Tensor y = Tensor::Empty(q.device(), q.shape(), q.dtype());
  const Tensor saved = keep_saved ? NewSaved(s, q) : Tensor();
  const int64_t scores = Arena::Rounded(s.block * s.keys);
  const int64_t heads =
      s.bf16 ? 2 * Arena::Rounded(s.queries * s.head) + 2 * Arena::Rounded(s.keys * s.head) : 0;
  DPIPE_RETURN_IF_ERROR(
      ForEachHead(s, q.device(), scores + heads, [&](int64_t b, int64_t h, Arena arena) {
        const Matrix q_head = ReadHead(s, q, b, h, &arena), k_head = ReadHead(s, k, b, h, &arena);
        const Matrix v_head = ReadHead(s, v, b, h, &arena), y_head = NewHead(s, y, b, h, &arena);
        absl::Status status = ForwardHead(*q.device(), params, s, q_head, k_head, v_head, y_head,
                                          BiasOfHead(s, relative_bias, b, h), saved,
                                          SavedOffset(s, b, h), arena.Take(scores));
        WriteHead(s, y_head, b, h, y);
        return status;
      }));
  return AttentionResult{y, saved};
}

absl::StatusOr<AttentionGrads> AttentionInputGrad(const AttentionParams& params, const Tensor& dy,
                                                  const Tensor& q, const Tensor& k, const Tensor& v,
                                                  const Tensor& saved,
                                                  const Tensor& relative_bias) {
  const AttentionSizes s(params, q, k);
  const AttentionGrads grads = NewGrads(q, k, relative_bias);
  if (s.native) {
    DPIPE_RETURN_IF_ERROR(NativeAttentionGrad(params, s, dy, q, k, v, saved, relative_bias, grads));
    return grads;
  }
  const int64_t scores = Arena::Rounded(s.block * s.keys);
  const int64_t heads =
      s.bf16 ? 3 * Arena::Rounded(s.queries * s.head) + 4 * Arena::Rounded(s.keys * s.head) : 0;
  DPIPE_RETURN_IF_ERROR(
      ForEachHead(s, q.device(), 2 * scores + heads, [&](int64_t b, int64_t h, Arena arena) {
        const HeadMatrices m = {ReadHead(s, dy, b, h, &arena),
                                ReadHead(s, q, b, h, &arena),
                                ReadHead(s, k, b, h, &arena),
                                ReadHead(s, v, b, h, &arena),
                                NewHead(s, grads.dq, b, h, &arena),
                                NewHead(s, grads.dk, b, h, &arena),
                                NewHead(s, grads.dv, b, h, &arena),
                                BiasOfHead(s, relative_bias, b, h),
                                BiasOfHead(s, grads.drelative_bias, b, h)};
        float* const p = arena.Take(scores);
        absl::Status status =
            InputGradHead(params, s, m, saved, SavedOffset(s, b, h), p, arena.Take(scores));
        WriteHead(s, m.dq, b, h, grads.dq);
        WriteHead(s, m.dk, b, h, grads.dk);
        WriteHead(s, m.dv, b, h, grads.dv);
        return status;
      }));
  return grads;
}

}  // namespace dpipe::ops::cpu
