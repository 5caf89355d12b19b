#include "core/train/adamw_moments.h"

#include <cmath>

namespace dpipe {
namespace {

using ops::BlockQuantized;

// A tensor of `device` with what `write` writes into a span. The host quantises, on all devices.
template <typename Write>
Tensor Written(const std::shared_ptr<Device>& device, const Shape& shape, const Write& write) {
  const bool directly = device->has_host_memory();
  Tensor tensor = Tensor::Empty(directly ? device : Device::Cpu(), shape, DType::kF32);
  write(tensor.span<float>());
  return directly ? tensor : tensor.CopyTo(device);
}

Tensor Loaded(const BlockQuantized& quantized, const std::shared_ptr<Device>& device,
              const Shape& shape) {
  return Written(device, shape, [&](absl::Span<float> values) { quantized.Load(values); });
}

}  // namespace

AdamWMoments::AdamWMoments(MomentsFormat format, int block_size, const Tensor& parameter)
    : format_(format) {
  if (format == MomentsFormat::kFp32) {
    fp32_.m = Tensor::Zeros(parameter.device(), parameter.shape(), DType::kF32);
    fp32_.v = Tensor::Zeros(parameter.device(), parameter.shape(), DType::kF32);
    return;
  }
  device_ = parameter.device();
  shape_ = parameter.shape();
  const int64_t size = parameter.num_elements();
  m_ = std::make_unique<BlockQuantized>(size, block_size, BlockQuantized::Sign::kSigned);
  root_v_ = std::make_unique<BlockQuantized>(size, block_size, BlockQuantized::Sign::kUnsigned);
}

AdamWMoments::Pair AdamWMoments::Load() const {
  if (format_ == MomentsFormat::kFp32) return fp32_;
  const auto squares = [&](absl::Span<float> values) {
    root_v_->Load(values);
    for (float& v : values) v *= v;
  };
  return {Loaded(*m_, device_, shape_), Written(device_, shape_, squares)};
}

void AdamWMoments::Store(const Pair& pair) {
  if (format_ == MomentsFormat::kFp32) return;  // updated in place
  const Tensor v = pair.v.ToHost();
  for (float& x : v.span<float>()) x = std::sqrt(x);
  m_->Store(pair.m.ToHost().span<float>());
  root_v_->Store(v.span<float>());
}

std::vector<std::pair<std::string, Tensor>> AdamWMoments::Export() {
  if (format_ == MomentsFormat::kFp32) return {{"m", fp32_.m}, {"v", fp32_.v}};
  exported_ = Pair{Loaded(*m_, device_, shape_), Loaded(*root_v_, device_, shape_)};
  return {{"m", exported_->m}, {"root_v", exported_->v}};
}

void AdamWMoments::Import() {
  if (format_ == MomentsFormat::kFp32 || !exported_.has_value()) return;
  m_->Store(exported_->m.ToHost().span<float>());
  root_v_->Store(exported_->v.ToHost().span<float>());
  DropExports();
}

int64_t AdamWMoments::size_bytes() const {
  if (format_ == MomentsFormat::kFp32) return 2 * fp32_.m.size_bytes();
  return m_->size_bytes() + root_v_->size_bytes();
}

}  // namespace dpipe
