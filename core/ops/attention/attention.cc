#include "core/ops/attention/attention.h"

#include <cmath>

#include "core/ops/attention/attention_kernels.h"
#include "core/ops/support/backend.h"

namespace dpipe::ops {
namespace {

void CheckInputs(const AttentionParams& params, const Tensor& q, const Tensor& k, const Tensor& v,
                 const Tensor& relative_bias) {
  CheckFloat(q);
  CheckSameType(q, k);
  CheckSameShapeAndType(k, v);
  DPIPE_CHECK_EQ(q.shape().rank(), 3) << "queries " << q.shape();
  DPIPE_CHECK_EQ(k.shape().rank(), 3) << "keys " << k.shape();
  DPIPE_CHECK_EQ(q.dim(0), k.dim(0))
      << "batches of queries " << q.shape() << ", keys " << k.shape();
  DPIPE_CHECK_EQ(q.dim(2), k.dim(2)) << "widths of queries " << q.shape() << ", keys " << k.shape();
  DPIPE_CHECK(params.scale > 0) << "scale of attention: " << params.scale;
  DPIPE_CHECK_GE(params.num_heads, 1);
  DPIPE_CHECK_EQ(q.dim(2) % params.num_heads, 0)
      << "width of " << q.shape() << " in " << params.num_heads << " heads";
  DPIPE_CHECK_GE(k.dim(1), 1) << "keys " << k.shape();
  DPIPE_CHECK(!params.causal || q.dim(1) == k.dim(1))
      << "causal attention of " << q.dim(1) << " queries over " << k.dim(1) << " keys";
  if (relative_bias.defined()) {
    CheckFp32(relative_bias, {q.dim(0), params.num_heads, q.dim(1) + k.dim(1) - 1});
  }
}

}  // namespace

float AttentionScale(int64_t width, int num_heads) {
  return static_cast<float>(1 / std::sqrt(static_cast<double>(width) / num_heads));
}

absl::StatusOr<AttentionResult> AttentionForward(const AttentionParams& params, const Tensor& q,
                                                 const Tensor& k, const Tensor& v, bool keep_saved,
                                                 const Tensor& relative_bias) {
  CheckInputs(params, q, k, v, relative_bias);
  absl::StatusOr<AttentionResult> result;
  DPIPE_RETURN_IF_ERROR(RunOn(
      *q.device(), "attention",
      [&] { result = ref::AttentionForward(params, q, k, v, keep_saved, relative_bias); },
      [&] { result = cpu::AttentionForward(params, q, k, v, keep_saved, relative_bias); },
      [&] { result = cuda::AttentionForward(params, q, k, v, keep_saved, relative_bias); }));
  return result;
}

absl::StatusOr<AttentionGrads> AttentionInputGrad(const AttentionParams& params, const Tensor& dy,
                                                  const Tensor& q, const Tensor& k, const Tensor& v,
                                                  const Tensor& saved,
                                                  const Tensor& relative_bias) {
  CheckInputs(params, q, k, v, relative_bias);
  CheckSameShapeAndType(dy, q);
  DPIPE_CHECK(saved.defined()) << "attention's forward pass was run without keep_saved";
  absl::StatusOr<AttentionGrads> grads;
  DPIPE_RETURN_IF_ERROR(RunOn(
      *q.device(), "attention's input gradient",
      [&] { grads = ref::AttentionInputGrad(params, dy, q, k, v, relative_bias); },
      [&] { grads = cpu::AttentionInputGrad(params, dy, q, k, v, saved, relative_bias); },
      [&] { grads = cuda::AttentionInputGrad(params, dy, q, k, v, saved, relative_bias); }));
  return grads;
}

}  // namespace dpipe::ops
