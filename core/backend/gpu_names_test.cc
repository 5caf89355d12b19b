#include <cstdio>

#include "core/backend/device_report.h"
#include "core/tensor/cuda/testing/fake_driver.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dpipe {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(GpuNamesTest, GpusAndDriverAreNamed) {
  cuda::FakeDriver driver;
  driver.SetNumGpus(2);
  driver.gpus()[1].name = "another";
  NvmlApi api;
  api.DriverVersion = [](char* version, unsigned size) {
    std::snprintf(version, size, "570.86.15");
    return 0;
  };
  const GpuNames names = internal::NamesOfGpus(
      [&] { return &driver; }, [&]() -> absl::StatusOr<const NvmlApi*> { return &api; });
  EXPECT_THAT(names.gpus, ElementsAre(driver.gpus()[0].name, "another"));
  EXPECT_EQ(names.driver, "570.86.15");
}

TEST(GpuNamesTest, WhatIsNotToldIsEmpty) {
  cuda::FakeDriver driver;
  const auto no_nvml = [] { return absl::NotFoundError("no NVML"); };
  EXPECT_EQ(internal::NamesOfGpus([&] { return &driver; }, no_nvml).driver, "");
  driver.gpus().clear();
  EXPECT_THAT(internal::NamesOfGpus([&] { return &driver; }, no_nvml).gpus, IsEmpty());
}

}  // namespace
}  // namespace dpipe
