// cuDNN's own opinion of our graphs: without a GPU it checks descriptors as they are finalized, and
// has neither heuristics nor plans. Skips where the library is not installed.
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

  void ExpectAccepted(const CudnnContext::Describe& describe, size_t operations) {
    CudnnGraph graph(*api_);
    const absl::Status status = describe(&graph);
    EXPECT_TRUE(status.ok()) << status;
    EXPECT_EQ(graph.operations().size(), operations);
  }

  const CudnnApi* api_ = nullptr;
};

// A U-Net's, the VAE's uneven padding, and odd numbers of channels.
const Convolution kConvolutions[] = {{8, 64, 64, 320, 320, 3, 3, 64, 64, 1, 1, 1, 1, 1},
                                     {2, 64, 64, 128, 128, 3, 3, 32, 32, 2, 0, 1, 0, 1},
                                     {3, 5, 7, 3, 5, 3, 3, 5, 7, 1, 1, 1, 1, 1}};

TEST_F(CudnnGraphsTest, ConvolutionsAreAccepted) {
  for (const Convolution& c : kConvolutions) {
    for (const DType dtype : {DType::kF32, DType::kBf16}) {
      ExpectAccepted([&](CudnnGraph* g) { return DescribeConvolution(c, dtype, false, g); }, 1);
      ExpectAccepted([&](CudnnGraph* g) { return DescribeConvolution(c, dtype, true, g); }, 2);
      ExpectAccepted([&](CudnnGraph* g) { return DescribeInputGrad(c, dtype, g); }, 1);
      ExpectAccepted([&](CudnnGraph* g) { return DescribeFilterGrad(c, dtype, g); }, 1);
    }
  }
}

TEST_F(CudnnGraphsTest, AttentionIsAccepted) {
  for (const UnmaskedAttention& a : {UnmaskedAttention{8, 5, 4096, 4096, 64, 0.125f},
                                     UnmaskedAttention{8, 10, 1024, 77, 64, 0.125f}}) {
    ExpectAccepted([&](CudnnGraph* g) { return DescribeAttention(a, g); }, 1);
    ExpectAccepted([&](CudnnGraph* g) { return DescribeAttentionGrad(a, g); }, 1);
  }
}

TEST_F(CudnnGraphsTest, WhatCannotBeIsRefusedWithCudnnsReason) {
  Convolution c = kConvolutions[0];
  c.out_height = 63;
  CudnnGraph graph(*api_);
  const absl::Status status = DescribeConvolution(c, DType::kBf16, false, &graph);
  EXPECT_FALSE(status.ok());
  EXPECT_NE(status.message().find("CUDNN_STATUS_"), std::string::npos) << status;
}

}  // namespace
}  // namespace dpipe::ops::cuda
