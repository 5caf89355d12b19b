// Test fixture for ops with two CPU implementations of bf16. Each test runs in fp32, in bf16 with
// fp32 products and, if the CPU supports oneDNN's bf16 kernels, in bf16 with bf16 instructions.
#ifndef DPIPE_CORE_OPS_TESTING_BF16_CHOICE_TEST_BASE_H_
#define DPIPE_CORE_OPS_TESTING_BF16_CHOICE_TEST_BASE_H_

#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "core/ops/onednn/onednn.h"
#include "core/ops/testing/op_testing.h"

namespace dpipe::ops {

using DTypeAndChoice = std::tuple<DType, onednn::Bf16Choice>;

class Bf16ChoiceTest : public ::testing::TestWithParam<DTypeAndChoice> {
 protected:
  Bf16ChoiceTest() { onednn::SetBf16Choice(choice()); }
  ~Bf16ChoiceTest() override { onednn::SetBf16Choice(onednn::Bf16Choice::kByCpu); }

  DType dtype() const { return std::get<0>(GetParam()); }
  onednn::Bf16Choice choice() const { return std::get<1>(GetParam()); }

  std::shared_ptr<Device> cpu_ = Device::Cpu();
  std::shared_ptr<Device> ref_ = Device::CpuReference();
};

inline std::vector<DTypeAndChoice> DTypesAndChoices() {
  using onednn::Bf16Choice;
  std::vector<DTypeAndChoice> choices = {{DType::kF32, Bf16Choice::kByCpu},
                                         {DType::kBf16, Bf16Choice::kWidened}};
  if (__builtin_cpu_supports("avx512bw")) choices.push_back({DType::kBf16, Bf16Choice::kNative});
  return choices;
}

inline std::string ChoiceName(const ::testing::TestParamInfo<DTypeAndChoice>& info) {
  const auto [dtype, choice] = info.param;
  return std::string(DTypeName(dtype)) + (choice == onednn::Bf16Choice::kNative ? "_native" : "");
}

}  // namespace dpipe::ops

#endif  // DPIPE_CORE_OPS_TESTING_BF16_CHOICE_TEST_BASE_H_
