#include "core/ops/attention/attention_kernels.h"
#include "core/ops/cuda/cudnn/cudnn_ops.h"
#include "core/ops/cuda/kernels/softmax.h"
#include "core/ops/cuda/matmul.h"
#include "core/ops/cuda/stream_of.h"
#include "core/ops/support/backend.h"

namespace dpipe::ops::cuda {
namespace {

// Returns a sample's heads as adjacent matrices [tokens, head size].
Matrix HeadsOf(const Tensor& t, int64_t sample, int num_heads) {
  const Tensor one = t.Slice(sample, sample + 1);
  return {one.raw_data(), t.dtype(), t.dim(2), t.dim(2) / num_heads};
}

// Returns the scores of one sample, [heads, rows, columns].
Matrix ScoresOf(const Tensor& t) {
  return {t.raw_data(), t.dtype(), t.dim(2), t.dim(1) * t.dim(2)};
}

// Returns a sample's part of the bias or of its gradient.
float* BiasOf(const Tensor& relative_bias, int64_t sample) {
  return relative_bias.Slice(sample, sample + 1).data<float>();
}

// Products and kernels of one sample after another, so that scores need little memory.
class Attention {
 public:
  Attention(const AttentionParams& params, const Tensor& q, const Tensor& k)
      : params_(params),
        device_(q.device()),
        queries_(q.dim(1)),
        keys_(k.dim(1)),
        size_(q.dim(2) / params.num_heads),
        softmax_{params.num_heads, queries_, keys_, params.causal, params.scale} {}

  Tensor Scores(DType dtype) const {
    return Tensor::Empty(device_, {params_.num_heads, queries_, keys_}, dtype);
  }
  // Returns a tensor for the probabilities, in the scores' memory if the element type allows it.
  Tensor InPlaceOf(const Tensor& scores, DType dtype) const {
    return dtype == DType::kF32 ? scores : Scores(dtype);
  }
  // For a sample, with its part of the bias, which may be undefined.
  SoftmaxShape softmax(const Tensor& relative_bias, int64_t sample) const {
    SoftmaxShape shape = softmax_;
    if (relative_bias.defined()) shape.relative_bias = BiasOf(relative_bias, sample);
    return shape;
  }

  // scores = q k^T; also the gradients of the probabilities, dy v^T.
  absl::Status QueryByKey(const Tensor& q, const Tensor& k, int64_t sample,
                          const Tensor& scores) const {
    Product product = {queries_, keys_, size_};
    product.a = HeadsOf(q, sample, params_.num_heads);
    product.b = Transposed(HeadsOf(k, sample, params_.num_heads));
    product.d = ScoresOf(scores);
    return Run(product);
  }
  // y = p v, and dq = ds k.
  absl::Status ScoresByKey(const Tensor& p, const Tensor& v, int64_t sample,
                           const Tensor& y) const {
    Product product = {queries_, size_, keys_};
    product.a = ScoresOf(p);
    product.b = HeadsOf(v, sample, params_.num_heads);
    product.d = HeadsOf(y, sample, params_.num_heads);
    return Run(product);
  }
  // dv = p^T dy, and dk = ds^T q.
  absl::Status ScoresByQuery(const Tensor& p, const Tensor& dy, int64_t sample,
                             const Tensor& dv) const {
    Product product = {keys_, size_, queries_};
    product.a = Transposed(ScoresOf(p));
    product.b = HeadsOf(dy, sample, params_.num_heads);
    product.d = HeadsOf(dv, sample, params_.num_heads);
    return Run(product);
  }

 private:
  absl::Status Run(Product& product) const {
    product.batch = params_.num_heads;
    return Multiply(device_, product);
  }

  const AttentionParams& params_;
  const std::shared_ptr<Device> device_;
  const int64_t queries_, keys_, size_;
  const SoftmaxShape softmax_;
};

// The tensor that forward keeps: y itself, in shared memory, then the logarithms of the sums of
// exponentials, fp32 [B, heads, Tq].
class Saved {
 public:
  static Saved Make(const AttentionParams& params, const Tensor& q) {
    const int64_t extra = q.dim(0) * params.num_heads * q.dim(1) * SizeOf(DType::kF32);
    const int64_t size = PaddedSize(q) + extra / SizeOf(q.dtype());
    return Saved(q, Tensor::Empty(q.device(), {size}, q.dtype()));
  }
  Saved(const Tensor& q, const Tensor& memory) : q_(q), memory_(memory) {}

  const Tensor& memory() const { return memory_; }
  Tensor y() const { return memory_.Slice(0, q_.num_elements()).Reshape(q_.shape()); }
  float* log_sums() const {
    const Tensor rest = memory_.Slice(PaddedSize(q_), memory_.num_elements());
    return static_cast<float*>(rest.raw_data());
  }

 private:
  // Elements of y, padded so that the rest is aligned to 16 bytes.
  static int64_t PaddedSize(const Tensor& q) { return (q.num_elements() + 7) / 8 * 8; }

  const Tensor q_, memory_;
};

// A mask hides nothing of a single key, and cuDNN before 9.10 rejects it.
AttentionShape ShapeOf(const AttentionParams& params, const Tensor& q, const Tensor& k) {
  const int64_t keys = k.dim(1);
  return {q.dim(0),     params.num_heads,         q.dim(1), keys, q.dim(2) / params.num_heads,
          params.scale, params.causal && keys > 1};
}

// cuDNN's attention has no engine for fp32. A relative bias would have to be written out for each
// query and key; only frozen text encoders have one, whose attention is a small part of their work.
bool FitsCudnn(const Tensor& q, const Tensor& relative_bias) {
  return q.dtype() == DType::kBf16 && !relative_bias.defined();
}

absl::Status ForwardByProducts(const AttentionParams& params, const Tensor& q, const Tensor& k,
                               const Tensor& v, const Tensor& relative_bias, const Saved& saved) {
  const Attention attention(params, q, k);
  const Tensor y = saved.y(), scores = attention.Scores(DType::kF32);
  const Tensor p = attention.InPlaceOf(scores, q.dtype());
  for (int64_t b = 0; b < q.dim(0); ++b) {
    DPIPE_RETURN_IF_ERROR(attention.QueryByKey(q, k, b, scores));
    WithElements(
        [&](auto* to) {
          SoftmaxOfRows(StreamOf(q), attention.softmax(relative_bias, b), scores.data<float>(), to,
                        saved.log_sums() + b * params.num_heads * q.dim(1));
        },
        p);
    DPIPE_RETURN_IF_ERROR(attention.ScoresByKey(p, v, b, y));
  }
  return absl::OkStatus();
}

absl::Status GradByProducts(const AttentionParams& params, const Tensor& dy, const Tensor& q,
                            const Tensor& k, const Tensor& v, const Tensor& relative_bias,
                            const Saved& saved, const AttentionGrads& grads) {
  const Attention attention(params, q, k);
  const Tensor scores = attention.Scores(DType::kF32), dp = attention.Scores(DType::kF32);
  const Tensor p = attention.InPlaceOf(scores, q.dtype()), ds = attention.InPlaceOf(dp, q.dtype());
  for (int64_t b = 0; b < q.dim(0); ++b) {
    DPIPE_RETURN_IF_ERROR(attention.QueryByKey(q, k, b, scores));
    DPIPE_RETURN_IF_ERROR(attention.QueryByKey(dy, v, b, dp));
    WithElements(
        [&](auto* to_p, auto* to_ds) {
          const SoftmaxShape shape = attention.softmax(relative_bias, b);
          SoftmaxGradOfRows(StreamOf(q), shape, scores.data<float>(),
                            saved.log_sums() + b * params.num_heads * q.dim(1), dp.data<float>(),
                            to_p, to_ds);
          if (relative_bias.defined()) {
            RelativeBiasGrad(StreamOf(q), shape, to_ds, BiasOf(grads.drelative_bias, b));
          }
        },
        p, ds);
    DPIPE_RETURN_IF_ERROR(attention.ScoresByQuery(p, dy, b, grads.dv));
    DPIPE_RETURN_IF_ERROR(attention.ScoresByKey(ds, k, b, grads.dq));
    DPIPE_RETURN_IF_ERROR(attention.ScoresByQuery(ds, q, b, grads.dk));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<AttentionResult> AttentionForward(const AttentionParams& params, const Tensor& q,
                                                 const Tensor& k, const Tensor& v, bool keep_saved,
                                                 const Tensor& relative_bias) {
  const Saved saved = Saved::Make(params, q);
  absl::Status done = absl::UnimplementedError("");
  if (FitsCudnn(q, relative_bias)) {
    done = AttendByCudnn(ShapeOf(params, q, k), q, k, v, saved.y(), saved.log_sums());
  }
  if (absl::IsUnimplemented(done)) done = ForwardByProducts(params, q, k, v, relative_bias, saved);
  DPIPE_RETURN_IF_ERROR(done);
  AttentionResult result;
  result.y = saved.y();
  if (keep_saved) result.saved = saved.memory();
  return result;
}

absl::StatusOr<AttentionGrads> AttentionInputGrad(const AttentionParams& params, const Tensor& dy,
                                                  const Tensor& q, const Tensor& k, const Tensor& v,
                                                  const Tensor& memory,
                                                  const Tensor& relative_bias) {
  const Saved saved(q, memory);
  const auto like = [](const Tensor& t) {
    return t.defined() ? Tensor::Empty(t.device(), t.shape(), t.dtype()) : Tensor();
  };
  const AttentionGrads grads = {like(q), like(k), like(v), like(relative_bias)};
  absl::Status done = absl::UnimplementedError("");
  if (FitsCudnn(q, relative_bias)) {
    done = AttendGradByCudnn(ShapeOf(params, q, k), dy, q, k, v, saved.y(), saved.log_sums(),
                             grads.dq, grads.dk, grads.dv);
  }
  if (absl::IsUnimplemented(done)) {
    done = GradByProducts(params, dy, q, k, v, relative_bias, saved, grads);
  }
  DPIPE_RETURN_IF_ERROR(done);
  return grads;
}

}  // namespace dpipe::ops::cuda
