#include "core/nn/inference.h"

#include <memory>
#include <vector>

#include "core/base/philox.h"
#include "core/nn/testing/random_program.h"
#include "core/tensor/cuda/cuda_device.h"
#include "core/tensor/cuda/testing/fake_driver.h"
#include "core/tensor/testing/host_values.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dpipe::nn {
namespace {

using ::testing::FloatNear;
using ::testing::IsEmpty;
using ::testing::Pointwise;

std::unique_ptr<ParameterSet> Drawn(const Program& program, uint64_t seed) {
  auto drawn = std::make_unique<ParameterSet>(program, program.all_layers(), Device::Cpu());
  drawn->InitRandom(seed);
  return drawn;
}

ValueMap Inputs(const Program& program, uint64_t seed, int64_t batch, DType dtype = DType::kF32) {
  RandomStream random(seed, 0, 0, RandomPurpose::kTest);
  ValueMap values;
  for (ValueId id : program.inputs()) {
    values[id] = Tensor::Empty(Device::Cpu(), program.BatchShape(id, batch), DType::kF32);
    for (float& x : values[id].span<float>()) x = random.NextNormal();
    values[id] = values[id].To(dtype);
  }
  return values;
}

class InferenceTest : public ::testing::TestWithParam<uint64_t> {};

// The fake GPU's memory is separate from the host's; code that confuses the two crashes.
TEST_P(InferenceTest, GpuResultsMatchCpu) {
  const Program program = RandomProgram({GetParam()});
  const auto parameters = Drawn(program, GetParam());
  ValueMap expected = Inputs(program, GetParam(), /*batch=*/5), on_the_cpu = expected;
  ASSERT_TRUE(
      Forward(program, program.all_layers(), *parameters, {}, &expected, /*state=*/nullptr).ok());
  cuda::FakeDriver driver(GetParam());
  driver.HideMemory();
  const auto devices = *cuda::CreateVirtualCudaDevices(&driver, 2);
  Inference inference(parameters.get());
  ASSERT_TRUE(
      inference.Forward(program, program.all_layers(), Device::Cpu(), {}, &on_the_cpu).ok());
  EXPECT_EQ(driver.live_bytes(), 0) << "the CPU needs no copies";
  for (const auto& device : {devices[0], devices[1], devices[0]}) {
    ValueMap values = Inputs(program, GetParam(), /*batch=*/5);
    // In two parts, as caches do it.
    const int cut = program.num_layers() / 2;
    ASSERT_TRUE(inference.Forward(program, {0, cut}, device, {}, &values).ok());
    ASSERT_TRUE(inference.Forward(program, {cut, program.num_layers()}, device, {}, &values).ok());
    for (ValueId id : program.outputs()) {
      EXPECT_EQ(HostValues(on_the_cpu.at(id)), HostValues(expected.at(id)));
      ASSERT_TRUE(values.at(id).device()->has_host_memory());
      EXPECT_THAT(HostValues(values.at(id)),
                  Pointwise(FloatNear(1e-4f), HostValues(expected.at(id))));
    }
  }
  for (const auto& device : devices) device->allocator().ReleaseCache();
  driver.RunAll();
  EXPECT_LE(driver.live_bytes(), 2 * (parameters->master_bytes() + 512 * program.num_parameters()))
      << "one copy per device";
  EXPECT_THAT(driver.violations(), IsEmpty());
}

TEST_P(InferenceTest, StaysWithinPredictedMemory) {
  constexpr int64_t kBatch = 1000;
  const Program program = RandomProgram({GetParam()});
  for (const DType dtype : {DType::kF32, DType::kBf16}) {
    cuda::FakeDriver driver(GetParam());
    Inference inference(Drawn(program, GetParam()));
    const auto gpu = (*cuda::CreateVirtualCudaDevices(&driver, 1))[0];
    ValueMap values = Inputs(program, GetParam(), kBatch, dtype);
    ASSERT_TRUE(inference.Forward(program, program.all_layers(), gpu, {dtype}, &values).ok());
    // Each tensor is rounded up to 512 bytes.
    const int64_t rounding = 512 * (2 * program.num_parameters() + program.num_values());
    const int64_t predicted_bytes = InferenceBytes(program, program.all_layers(), kBatch, dtype);
    const int64_t peak = gpu->allocator().stats().peak_bytes;
    // Values are so narrow that the kernels' row sums take as much memory.
    EXPECT_LE(peak, 2 * predicted_bytes + rounding);
    EXPECT_GE(2 * peak, predicted_bytes) << "not a wild guess";
  }
}

INSTANTIATE_TEST_SUITE_P(Random, InferenceTest, ::testing::Range<uint64_t>(1, 11));

}  // namespace
}  // namespace dpipe::nn
