#include "core/train/optimizer/adamw_moments.h"

namespace dpipe {

using ops::BlockQuantized;

AdamWMoments::AdamWMoments(MomentsFormat format, int block_size, const Tensor& parameter)
    : format_(format) {
  if (format == MomentsFormat::kFp32) {
    fp32_.m = Tensor::Zeros(parameter.device(), parameter.shape(), DType::kF32);
    fp32_.v = Tensor::Zeros(parameter.device(), parameter.shape(), DType::kF32);
    return;
  }
  shape_ = parameter.shape();
  const auto make = [&](BlockQuantized::Sign sign) {
    return std::make_unique<BlockQuantized>(parameter.device(), parameter.num_elements(),
                                            block_size, sign);
  };
  m_ = make(BlockQuantized::Sign::kSigned);
  root_v_ = make(BlockQuantized::Sign::kUnsigned);
}

AdamWMoments::Pair AdamWMoments::Load() const {
  if (format_ == MomentsFormat::kFp32) return fp32_;
  return {m_->Load(shape_), root_v_->LoadSquares(shape_)};
}

std::vector<std::pair<std::string, Tensor>> AdamWMoments::Export() {
  if (format_ == MomentsFormat::kFp32) return {{"m", fp32_.m}, {"v", fp32_.v}};
  exported_ = Pair{m_->LoadToHost(shape_), root_v_->LoadToHost(shape_)};
  return {{"m", exported_->m}, {"root_v", exported_->v}};
}

void AdamWMoments::Import() {
  if (format_ == MomentsFormat::kFp32 || !exported_.has_value()) return;
  m_->Store(exported_->m);
  root_v_->Store(exported_->v);
  DropExports();
}

int64_t AdamWMoments::size_bytes() const {
  if (format_ == MomentsFormat::kFp32) return 2 * fp32_.m.size_bytes();
  return m_->size_bytes() + root_v_->size_bytes();
}

}  // namespace dpipe
