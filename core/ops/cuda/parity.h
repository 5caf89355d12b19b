// Compares what a CUDA device computes with the reference: on a GPU where DPIPE_PARITY_DEVICE is
// "gpu", else on the emulated device. The same tests serve both.
#ifndef DPIPE_CORE_OPS_CUDA_PARITY_H_
#define DPIPE_CORE_OPS_CUDA_PARITY_H_

#include <functional>
#include <memory>
#include <vector>

#include "core/ops/op_testing.h"

namespace dpipe::ops::cuda {

class ParityTest : public ::testing::TestWithParam<DType> {
 protected:
  using Tensors = std::vector<Tensor>;
  using Op = std::function<absl::StatusOr<Tensors>(const Tensors& inputs)>;

  // Skips with the reason where there is no device; fails where the environment tells libraries to
  // compute fp32 in TF32. Its memory is handed out filled with NaNs.
  void SetUp() override;

  // Standard normal values times `scale` plus `offset`, other ones in every run of the test: the
  // seed of a run is printed where it fails, and DPIPE_PARITY_SEED repeats it.
  Tensor Random(const Shape& shape, DType dtype, float scale = 1, float offset = 0);
  Tensor Random(const Shape& shape) { return Random(shape, GetParam()); }

  // The tensor, or a copy of it, that the test can read.
  Tensor Here(const Tensor& t) const { return OnDevice(host_, t); }

  // Calls `op` with the inputs on the reference device and on the CUDA device and compares what it
  // returns: within `tolerance`, and 2^-7 more where it is bf16, since the exact and the computed
  // value may round to neighbours. Then again on the latter, emulated in other orders of threads
  // and blocks, expecting the same bits. Inputs that are not defined stay so. An op that works in
  // place clones its input.
  void ExpectParity(const Tensors& inputs, Tolerance tolerance, const Op& op);

  std::shared_ptr<Device> host_ = Device::CpuReference();
  std::shared_ptr<Device> device_;

 private:
  Tensors Run(const std::shared_ptr<Device>& device, const Tensors& inputs, const Op& op);

  uint64_t seed_ = 0;
  uint64_t drawn_ = 0;
};

}  // namespace dpipe::ops::cuda

#endif  // DPIPE_CORE_OPS_CUDA_PARITY_H_
