#include <cstdlib>
#include <string>

#include "core/tensor/cuda/system_driver.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dpipe::cuda {
namespace {

using ::testing::HasSubstr;

TEST(EnvironmentTest, KeepsModuleLoadingSetByUser) {
  unsetenv("CUDA_MODULE_LOADING");
  LoadKernelsAtOnce();
  EXPECT_STREQ(std::getenv("CUDA_MODULE_LOADING"), "EAGER");
  setenv("CUDA_MODULE_LOADING", "LAZY", 1);
  LoadKernelsAtOnce();
  EXPECT_STREQ(std::getenv("CUDA_MODULE_LOADING"), "LAZY");
}

TEST(EnvironmentTest, Tf32IsRefused) {
  unsetenv("NVIDIA_TF32_OVERRIDE");
  EXPECT_TRUE(CheckPrecision().ok());
  for (const char* harmless : {"", "0"}) {
    setenv("NVIDIA_TF32_OVERRIDE", harmless, 1);
    EXPECT_TRUE(CheckPrecision().ok()) << harmless;
  }
  setenv("NVIDIA_TF32_OVERRIDE", "1", 1);
  const absl::Status refused = CheckPrecision();
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("NVIDIA_TF32_OVERRIDE=1"));
}

}  // namespace
}  // namespace dpipe::cuda
