#include "core/ops/cuda/cudnn/cudnn_ops.h"

namespace dpipe::ops::cuda {
namespace {

absl::Status WithoutCuda() {
  return absl::UnimplementedError("this program was built without CUDA, and so without cuDNN");
}

}  // namespace

absl::Status ConvolveByCudnn(const Convolution&, const Tensor&, const Tensor&, const Tensor&) {
  return WithoutCuda();
}
absl::Status ConvolveInputGradByCudnn(const Convolution&, const Tensor&, const Tensor&,
                                      const Tensor&) {
  return WithoutCuda();
}
absl::Status ConvolveFilterGradByCudnn(const Convolution&, const Tensor&, const Tensor&,
                                       const Tensor&) {
  return WithoutCuda();
}
absl::Status AttendByCudnn(const AttentionShape&, const Tensor&, const Tensor&, const Tensor&,
                           const Tensor&, float*) {
  return WithoutCuda();
}
absl::Status AttendGradByCudnn(const AttentionShape&, const Tensor&, const Tensor&, const Tensor&,
                               const Tensor&, const Tensor&, const float*, const Tensor&,
                               const Tensor&, const Tensor&) {
  return WithoutCuda();
}

}  // namespace dpipe::ops::cuda
