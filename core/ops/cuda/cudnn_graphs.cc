#include "core/ops/cuda/cudnn_graphs.h"

namespace dpipe::ops::cuda {
namespace {

using Place = CudnnTensor::Place;

// cuDNN names sizes as (batch, channels, height, width), whatever their order in memory.
CudnnTensor Image(int64_t id, int64_t batch, int64_t height, int64_t width, int64_t channels,
                  DType dtype, Place place = Place::kMemory) {
  return {id,
          {batch, channels, height, width},
          {height * width * channels, 1, width * channels, channels},
          dtype,
          place};
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

absl::StatusOr<const CudnnDescriptor*> AddWindow(const Convolution& s, CudnnGraph* graph) {
  const cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
  CudnnDescriptor* const window = graph->Add(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
  window->Set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_DATA_FLOAT)
      .Set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, &mode)
      .Set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, int64_t{2})
      .Set(CUDNN_ATTR_CONVOLUTION_DILATIONS, std::vector<int64_t>{1, 1})
      .Set(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, std::vector<int64_t>{s.stride, s.stride})
      .Set(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, std::vector<int64_t>{s.pad_top, s.pad_left})
      .Set(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, std::vector<int64_t>{s.pad_bottom, s.pad_right});
  DPIPE_RETURN_IF_ERROR(window->Finalize());
  return window;
}

constexpr float kOne = 1, kZero = 0;

absl::Status AddBias(const Convolution& s, DType dtype, const CudnnDescriptor& unbiased,
                     CudnnGraph* graph) {
  const cudnnPointwiseMode_t mode = CUDNN_POINTWISE_ADD;
  CudnnDescriptor* const add = graph->Add(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
  add->Set(CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, &mode)
      .Set(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_DATA_FLOAT);
  DPIPE_RETURN_IF_ERROR(add->Finalize());
  DPIPE_ASSIGN_OR_RETURN(const auto* bias,
                         graph->AddTensor(Image(kBias, 1, 1, 1, s.outputs, DType::kF32)));
  DPIPE_ASSIGN_OR_RETURN(const auto* y, graph->AddTensor(OutputOf(s, dtype)));
  return graph->AddOperation(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR)
      ->Set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, *add)
      .Set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, unbiased)
      .Set(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, *bias)
      .Set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, *y)
      .Finalize();
}

// [batch, tokens, heads * size] as cuDNN's (batch, heads, tokens, size).
CudnnTensor Heads(int64_t id, const UnmaskedAttention& s, int64_t tokens) {
  const int64_t width = s.heads * s.size;
  return {id, {s.batch, s.heads, tokens, s.size}, {tokens * width, s.size, width, 1}, DType::kBf16};
}
CudnnTensor LogSums(const UnmaskedAttention& s) {
  return {kLogSums,
          {s.batch, s.heads, s.queries, 1},
          {s.heads * s.queries, s.queries, 1, 1},
          DType::kF32};
}
CudnnTensor Scale() { return {kScale, {1, 1, 1, 1}, {1, 1, 1, 1}, DType::kF32, Place::kByValue}; }

struct Operand {
  cudnnBackendAttributeName_t attribute;
  CudnnTensor tensor;
};

absl::Status AddOperation(cudnnBackendDescriptorType_t type, const std::vector<Operand>& operands,
                          CudnnGraph* graph) {
  CudnnDescriptor* const operation = graph->AddOperation(type);
  for (const Operand& operand : operands) {
    DPIPE_ASSIGN_OR_RETURN(const auto* tensor, graph->AddTensor(operand.tensor));
    operation->Set(operand.attribute, *tensor);
  }
  return operation->Finalize();
}

}  // namespace

absl::Status DescribeConvolution(const Convolution& s, DType dtype, bool with_bias,
                                 CudnnGraph* graph) {
  DPIPE_ASSIGN_OR_RETURN(const auto* window, AddWindow(s, graph));
  DPIPE_ASSIGN_OR_RETURN(const auto* x, graph->AddTensor(ImageOf(s, dtype)));
  DPIPE_ASSIGN_OR_RETURN(const auto* w, graph->AddTensor(FiltersOf(s, dtype)));
  const CudnnTensor unbiased = Image(kUnbiased, s.batch, s.out_height, s.out_width, s.outputs,
                                     DType::kF32, Place::kBetweenOperations);
  DPIPE_ASSIGN_OR_RETURN(const auto* y,
                         graph->AddTensor(with_bias ? unbiased : OutputOf(s, dtype)));
  DPIPE_RETURN_IF_ERROR(
      graph->AddOperation(CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR)
          ->Set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, *window)
          .Set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, *x)
          .Set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, *w)
          .Set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, *y)
          .Set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, CUDNN_TYPE_FLOAT, &kOne)
          .Set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA, CUDNN_TYPE_FLOAT, &kZero)
          .Finalize());
  return with_bias ? AddBias(s, dtype, *y, graph) : absl::OkStatus();
}

absl::Status DescribeInputGrad(const Convolution& s, DType dtype, CudnnGraph* graph) {
  DPIPE_ASSIGN_OR_RETURN(const auto* window, AddWindow(s, graph));
  DPIPE_ASSIGN_OR_RETURN(const auto* dx, graph->AddTensor(ImageOf(s, dtype)));
  DPIPE_ASSIGN_OR_RETURN(const auto* w, graph->AddTensor(FiltersOf(s, dtype)));
  DPIPE_ASSIGN_OR_RETURN(const auto* dy, graph->AddTensor(OutputOf(s, dtype)));
  return graph->AddOperation(CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR)
      ->Set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC, *window)
      .Set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX, *dx)
      .Set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W, *w)
      .Set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY, *dy)
      .Set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA, CUDNN_TYPE_FLOAT, &kOne)
      .Set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA, CUDNN_TYPE_FLOAT, &kZero)
      .Finalize();
}

absl::Status DescribeFilterGrad(const Convolution& s, DType dtype, CudnnGraph* graph) {
  DPIPE_ASSIGN_OR_RETURN(const auto* window, AddWindow(s, graph));
  DPIPE_ASSIGN_OR_RETURN(const auto* x, graph->AddTensor(ImageOf(s, dtype)));
  DPIPE_ASSIGN_OR_RETURN(const auto* dw, graph->AddTensor(FiltersOf(s, DType::kF32)));
  DPIPE_ASSIGN_OR_RETURN(const auto* dy, graph->AddTensor(OutputOf(s, dtype)));
  return graph->AddOperation(CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR)
      ->Set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC, *window)
      .Set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X, *x)
      .Set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW, *dw)
      .Set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY, *dy)
      .Set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA, CUDNN_TYPE_FLOAT, &kOne)
      .Set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA, CUDNN_TYPE_FLOAT, &kZero)
      .Finalize();
}

absl::Status DescribeAttention(const UnmaskedAttention& s, CudnnGraph* graph) {
  return AddOperation(CUDNN_BACKEND_OPERATION_SDPA_FWD_DESCRIPTOR,
                      {{CUDNN_ATTR_OPERATION_SDPA_FWD_QDESC, Heads(kQueries, s, s.queries)},
                       {CUDNN_ATTR_OPERATION_SDPA_FWD_KDESC, Heads(kKeys, s, s.keys)},
                       {CUDNN_ATTR_OPERATION_SDPA_FWD_VDESC, Heads(kValues, s, s.keys)},
                       {CUDNN_ATTR_OPERATION_SDPA_FWD_ODESC, Heads(kAttended, s, s.queries)},
                       {CUDNN_ATTR_OPERATION_SDPA_FWD_STATSDESC, LogSums(s)},
                       {CUDNN_ATTR_OPERATION_SDPA_FWD_SCALEDESC, Scale()}},
                      graph);
}

absl::Status DescribeAttentionGrad(const UnmaskedAttention& s, CudnnGraph* graph) {
  return AddOperation(CUDNN_BACKEND_OPERATION_SDPA_BWD_DESCRIPTOR,
                      {{CUDNN_ATTR_OPERATION_SDPA_BWD_QDESC, Heads(kQueries, s, s.queries)},
                       {CUDNN_ATTR_OPERATION_SDPA_BWD_KDESC, Heads(kKeys, s, s.keys)},
                       {CUDNN_ATTR_OPERATION_SDPA_BWD_VDESC, Heads(kValues, s, s.keys)},
                       {CUDNN_ATTR_OPERATION_SDPA_BWD_ODESC, Heads(kAttended, s, s.queries)},
                       {CUDNN_ATTR_OPERATION_SDPA_BWD_DODDESC, Heads(kOutputGrads, s, s.queries)},
                       {CUDNN_ATTR_OPERATION_SDPA_BWD_STATSDESC, LogSums(s)},
                       {CUDNN_ATTR_OPERATION_SDPA_BWD_SCALEDESC, Scale()},
                       {CUDNN_ATTR_OPERATION_SDPA_BWD_DQDESC, Heads(kQueryGrads, s, s.queries)},
                       {CUDNN_ATTR_OPERATION_SDPA_BWD_DKDESC, Heads(kKeyGrads, s, s.keys)},
                       {CUDNN_ATTR_OPERATION_SDPA_BWD_DVDESC, Heads(kValueGrads, s, s.keys)}},
                      graph);
}

}  // namespace dpipe::ops::cuda
