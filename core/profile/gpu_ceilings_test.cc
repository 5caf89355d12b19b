#include "core/profile/gpu_ceilings.h"

#include "core/tensor/tensor.h"
#include "gtest/gtest.h"

namespace dpipe {
namespace {

// Any device will do, here the CPU. No CPU reaches 10^15 operations or bytes per second.
TEST(GpuCeilingsTest, RatesArePlausible) {
  DeviceWorker worker(Device::Cpu());
  GpuCeilingsOptions options;
  options.side = 64;
  options.copy_bytes = 1 << 20;
  options.passes = 3;
  const auto ceilings = MeasureGpuCeilings(&worker, options);
  ASSERT_TRUE(ceilings.ok()) << ceilings.status();
  EXPECT_GT(ceilings->flops_per_s(), 1e5);
  EXPECT_LT(ceilings->flops_per_s(), 1e15);
  EXPECT_GT(ceilings->bytes_per_s(), 1e5);
  EXPECT_LT(ceilings->bytes_per_s(), 1e15);
}

}  // namespace
}  // namespace dpipe
