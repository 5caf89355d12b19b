// Test fixture that compares results of a CUDA device with the reference: on a GPU if
// DPIPE_PARITY_DEVICE is "gpu", else on the emulated device. The same tests serve both.
#ifndef DPIPE_CORE_OPS_CUDA_PARITY_H_
#define DPIPE_CORE_OPS_CUDA_PARITY_H_

#include <functional>
#include <memory>
#include <vector>

#include "core/ops/testing/op_testing.h"

namespace dpipe::ops::cuda {

class ParityTest : public ::testing::TestWithParam<DType> {
 protected:
  using Tensors = std::vector<Tensor>;
  using Op = std::function<absl::StatusOr<Tensors>(const Tensors& inputs)>;

  // Skips with the reason if there is no device. Fails if the environment makes libraries compute
  // fp32 in TF32. Memory is filled with NaNs when it is allocated.
  void SetUp() override;

  // Returns standard normal values times `scale` plus `offset`, different in every run of the test.
  // A failure prints the run's seed, and DPIPE_PARITY_SEED repeats it.
  Tensor Random(const Shape& shape, DType dtype, float scale = 1, float offset = 0);
  Tensor Random(const Shape& shape) { return Random(shape, GetParam()); }

  // Returns the tensor, or a copy of it, in memory that the test can read.
  Tensor Here(const Tensor& t) const { return OnDevice(host_, t); }

  // Calls `op` with the inputs on the reference device and on the CUDA device, and compares the
  // results. They must agree within `tolerance`, plus 2^-7 for bf16, because the exact and the
  // computed value may round to adjacent numbers. Then repeats the CUDA call, in emulation with
  // other orders of threads and blocks, and expects the same bits. Undefined inputs stay undefined.
  // An op that works in place must clone its input.
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
