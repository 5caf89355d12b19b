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
  EXPECT_NE(graph.status().message().find("needs cuDNN 99.99.99 or newer, and this is 9."),
            std::string::npos)
      << graph.status();
}

// A library that refuses what is finalized.
class RefusingCudnn {
 public:
  explicit RefusingCudnn(cudnnStatus_t status) {
    refusal = status;
    api_.cudnnGetErrorString = [](cudnnStatus_t) { return "cuDNN's reason"; };
    api_.cudnnBackendCreateDescriptor = [](cudnnBackendDescriptorType_t,
                                           cudnnBackendDescriptor_t* descriptor) {
      static int some = 0;
      *descriptor = &some;
      return CUDNN_STATUS_SUCCESS;
    };
    api_.cudnnBackendDestroyDescriptor = [](cudnnBackendDescriptor_t) {
      return CUDNN_STATUS_SUCCESS;
    };
    api_.cudnnBackendSetAttribute = [](cudnnBackendDescriptor_t, cudnnBackendAttributeName_t,
                                       cudnnBackendAttributeType_t, int64_t,
                                       const void*) { return CUDNN_STATUS_SUCCESS; };
    api_.cudnnBackendFinalize = [](cudnnBackendDescriptor_t) { return refusal; };
  }
  absl::Status Finalize(cudnnBackendDescriptorType_t type) const {
    return CudnnDescriptor(api_, type).Finalize();
  }
  const CudnnApi& api() const { return api_; }

 private:
  static cudnnStatus_t refusal;
  CudnnApi api_;
};
cudnnStatus_t RefusingCudnn::refusal = CUDNN_STATUS_SUCCESS;

TEST(RefusalsTest, GraphsThatAVersionDoesNotKnowAreUnimplemented) {
  for (const cudnnStatus_t status :
       {CUDNN_STATUS_BAD_PARAM, CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE, CUDNN_STATUS_NOT_SUPPORTED,
        CUDNN_STATUS_NOT_SUPPORTED_GRAPH_PATTERN}) {
    const RefusingCudnn cudnn(status);
    auto graph = std::make_unique<CudnnGraph>(cudnn.api());
    DescribeConvolution({8, 64, 64, 320, 320, 3, 3, 64, 64, 1, 1, 1, 1, 1}, DType::kBf16,
                        graph.get());
    const auto plan = CudnnPlan::Create(CudnnTarget(nullptr), std::move(graph), false);
    EXPECT_TRUE(absl::IsUnimplemented(plan.status())) << plan.status();
    EXPECT_NE(plan.status().message().find("cudnnBackendFinalize of 0: cuDNN's reason"),
              std::string::npos)
        << plan.status();
    EXPECT_TRUE(absl::IsUnimplemented(cudnn.Finalize(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR)));
  }
}

TEST(RefusalsTest, ErrorsStayErrors) {
  const RefusingCudnn failing(CUDNN_STATUS_INTERNAL_ERROR);
  EXPECT_TRUE(absl::IsInternal(failing.Finalize(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR)));
  // Of a run: its graph is known.
  const RefusingCudnn strict(CUDNN_STATUS_BAD_PARAM);
  EXPECT_TRUE(absl::IsInternal(strict.Finalize(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR)));
}

}  // namespace
}  // namespace dpipe::ops::cuda
