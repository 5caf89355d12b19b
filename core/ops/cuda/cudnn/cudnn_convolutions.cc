#include "core/ops/cuda/cudnn/cudnn_graphs.h"

namespace dpipe::ops::cuda {
namespace {

// cuDNN orders sizes as (batch, channels, height, width), regardless of their order in memory.
CudnnTensor Image(int64_t id, int64_t batch, int64_t height, int64_t width, int64_t channels,
                  DType dtype) {
  return {id,
          {batch, channels, height, width},
          {height * width * channels, 1, width * channels, channels},
          dtype};
}
CudnnTensor ImageOf(const Convolution& s, DType dtype) {
  return Image(kImage, s.batch, s.height, s.width, s.channels, dtype);
}
CudnnTensor FiltersOf(const Convolution& s, DType dtype) {
  return Image(kFilters, s.outputs, s.rows, s.columns, s.channels, dtype);
}
CudnnTensor OutputOf(const Convolution& s, DType dtype) {
  return Image(kOutput, s.batch, s.out_height, s.out_width, s.outputs, dtype);
}

// Excludes engines that would unfold all images at once.
constexpr int64_t kMostWorkspaceBytes = int64_t{2} << 30;

const CudnnDescriptor& AddWindow(const Convolution& s, CudnnGraph* graph) {
  graph->LimitWorkspace(kMostWorkspaceBytes);
  const cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
  return graph->Finish(
      graph->Add(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR)
          .Set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_DATA_FLOAT)
          .Set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, &mode)
          .Set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, int64_t{2})
          .Set(CUDNN_ATTR_CONVOLUTION_DILATIONS, std::vector<int64_t>{1, 1})
          .Set(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, std::vector<int64_t>{s.stride, s.stride})
          .Set(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, std::vector<int64_t>{s.pad_top, s.pad_left})
          .Set(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS,
               std::vector<int64_t>{s.pad_bottom, s.pad_right}));
}

constexpr float kOne = 1, kZero = 0;

}  // namespace

void DescribeConvolution(const Convolution& s, DType dtype, CudnnGraph* graph) {
  graph->Finish(
      graph->AddOperation(CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR)
          .Set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, AddWindow(s, graph))
          .Set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, graph->AddTensor(ImageOf(s, dtype)))
          .Set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, graph->AddTensor(FiltersOf(s, dtype)))
          .Set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, graph->AddTensor(OutputOf(s, dtype)))
          .Set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, CUDNN_TYPE_FLOAT, &kOne)
          .Set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA, CUDNN_TYPE_FLOAT, &kZero));
}

void DescribeInputGrad(const Convolution& s, DType dtype, CudnnGraph* graph) {
  graph->Finish(
      graph->AddOperation(CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR)
          .Set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC, AddWindow(s, graph))
          .Set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX, graph->AddTensor(ImageOf(s, dtype)))
          .Set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W, graph->AddTensor(FiltersOf(s, dtype)))
          .Set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY, graph->AddTensor(OutputOf(s, dtype)))
          .Set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA, CUDNN_TYPE_FLOAT, &kOne)
          .Set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA, CUDNN_TYPE_FLOAT, &kZero));
}

void DescribeFilterGrad(const Convolution& s, DType dtype, CudnnGraph* graph) {
  graph->Finish(
      graph->AddOperation(CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR)
          .Set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC, AddWindow(s, graph))
          .Set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X, graph->AddTensor(ImageOf(s, dtype)))
          .Set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
               graph->AddTensor(FiltersOf(s, dtype)))
          .Set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY, graph->AddTensor(OutputOf(s, dtype)))
          .Set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA, CUDNN_TYPE_FLOAT, &kOne)
          .Set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA, CUDNN_TYPE_FLOAT, &kZero));
}

}  // namespace dpipe::ops::cuda
