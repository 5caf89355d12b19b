#include "tools/training/share_of_peak.h"

#include <memory>

#include "core/tensor/cuda/cuda_device.h"
#include "core/tensor/cuda/testing/fake_driver.h"
#include "gtest/gtest.h"

namespace dpipe::tools {
namespace {

std::vector<DeviceWorker*> Pointers(const std::vector<std::unique_ptr<DeviceWorker>>& workers) {
  std::vector<DeviceWorker*> pointers;
  for (const auto& worker : workers) pointers.push_back(worker.get());
  return pointers;
}

TEST(ShareOfPeakTest, PeaksAreOfKnownGpusAndTheirShares) {
  EXPECT_EQ(PeakMacsPerSecond(Pointers(StartWorkers({Device::Cpu()}))), 0);
  cuda::FakeDriver driver;
  const auto peak_of = [&](const std::string& name, int count) {
    driver.SetNumGpus(count);
    for (cuda::Gpu& gpu : driver.gpus()) gpu.name = name;
    const auto workers = StartWorkers(*cuda::CreateCudaDevices(&driver, count));
    return PeakMacsPerSecond(Pointers(workers));
  };
  EXPECT_EQ(peak_of("NVIDIA H200", 2), 2 * 989.4e12 / 2);
  EXPECT_EQ(peak_of("NVIDIA H100 80GB HBM3", 1), 989.4e12 / 2);
  EXPECT_EQ(peak_of("NVIDIA A100-SXM4-80GB", 1), 312e12 / 2);
  for (const char* unknown : {"NVIDIA H100 PCIe", "NVIDIA H200 NVL", "Fake GPU"}) {
    EXPECT_EQ(peak_of(unknown, 1), 0) << unknown;
  }
  driver.gpus()[0].name = "NVIDIA H200";
  const auto devices = *cuda::CreateVirtualCudaDevices(&driver, 2);
  const double share = cuda::CudaDeviceOf(*devices[0]).context().multiprocessors;
  EXPECT_DOUBLE_EQ(PeakMacsPerSecond(Pointers(StartWorkers(devices))),
                   2 * share / driver.gpus()[0].multiprocessors * 989.4e12 / 2);
}

}  // namespace
}  // namespace dpipe::tools
