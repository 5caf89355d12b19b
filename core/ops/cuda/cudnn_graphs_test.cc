// cuDNN checks descriptors as they are finalized. Skips where the library is not installed.
#include "core/ops/cuda/cudnn_graphs.h"

#include "gtest/gtest.h"

namespace dpipe::ops::cuda {
namespace {

class CudnnGraphsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const absl::StatusOr<const CudnnApi*> api = LoadCudnn();
    if (!api.ok()) GTEST_SKIP() << api.status();
    api_ = *api;
  }

  const CudnnApi* api_ = nullptr;
};

TEST_F(CudnnGraphsTest, AGraphKeepsItsOperations) {
  const Convolution convolution = {8, 64, 64, 320, 320, 3, 3, 64, 64, 1, 1, 1, 1, 1};
  const UnmaskedAttention attention = {8, 10, 1024, 77, 64, 0.125f};
  CudnnGraph one(*api_), chain(*api_);
  DescribeConvolution(convolution, DType::kBf16, &one);
  DescribeAttentionGrad(attention, &chain);
  EXPECT_TRUE(one.status().ok()) << one.status();
  EXPECT_TRUE(chain.status().ok()) << chain.status();
  EXPECT_EQ(one.operations().size(), 1);
  EXPECT_EQ(chain.operations().size(), 17);
}

TEST_F(CudnnGraphsTest, WhatCannotBeIsRefusedWithCudnnsReason) {
  CudnnGraph graph(*api_);
  DescribeConvolution({8, 64, 64, 320, 320, 3, 3, 63, 64, 1, 1, 1, 1, 1}, DType::kBf16, &graph);
  EXPECT_FALSE(graph.status().ok());
  EXPECT_NE(graph.status().message().find("CUDNN_STATUS_"), std::string::npos) << graph.status();
}

TEST_F(CudnnGraphsTest, AVersionThatIsNotThereIsNamed) {
  CudnnGraph graph(*api_);
  graph.Require(90000);
  EXPECT_TRUE(graph.status().ok());
  graph.Require(999999);
  EXPECT_TRUE(absl::IsUnimplemented(graph.status()));
  EXPECT_NE(graph.status().message().find("needs cuDNN 99.99.99"), std::string::npos)
      << graph.status();
}

}  // namespace
}  // namespace dpipe::ops::cuda
