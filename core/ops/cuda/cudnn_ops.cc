#include "core/ops/cuda/cudnn_ops.h"

#include "core/ops/backend.h"
#include "core/ops/cuda/channels.h"
#include "core/ops/cuda/cudnn_graphs.h"
#include "core/ops/cuda/stream_of.h"

namespace dpipe::ops::cuda {
namespace {

enum class Graph : int64_t {
  kConvolution,
  kBiasedConvolution,
  kInputGrad,
  kFilterGrad,
  kAttention,
  kAttentionGrad
};

CudnnContext::Key KeyOf(Graph graph, DType dtype, const Convolution& s) {
  return {static_cast<int64_t>(graph),
          static_cast<int64_t>(dtype),
          s.batch,
          s.height,
          s.width,
          s.channels,
          s.outputs,
          s.rows,
          s.columns,
          s.out_height,
          s.out_width,
          s.stride,
          s.pad_top,
          s.pad_bottom,
          s.pad_left,
          s.pad_right};
}
CudnnContext::Key KeyOf(Graph graph, const UnmaskedAttention& s) {
  return {static_cast<int64_t>(graph), s.batch, s.heads, s.queries, s.keys, s.size};
}

using Memory = std::vector<std::pair<int64_t, void*>>;

absl::Status Run(const std::shared_ptr<Device>& device, const CudnnContext::Key& key, DType dtype,
                 const CudnnContext::Describe& describe, const Memory& memory) {
  if (StreamOf(*device).emulated) {
    return absl::UnimplementedError("cuDNN does not run on emulated devices");
  }
  for (const auto& [id, data] : memory) {
    if (reinterpret_cast<uintptr_t>(data) % 16 != 0 && id != kScale) {
      return absl::UnimplementedError("cuDNN is given tensors aligned to 16 bytes only");
    }
  }
  DPIPE_ASSIGN_OR_RETURN(CudnnContext * context, CudnnContext::Of(*device));
  DPIPE_ASSIGN_OR_RETURN(const CudnnPlan* plan,
                         context->PlanFor(key, dtype == DType::kF32, describe));
  return plan->Run(context->handle(), device, memory);
}

}  // namespace

absl::Status ConvolveByCudnn(const Convolution& shape, const Tensor& x, const Tensor& filters,
                             const float* bias, const Tensor& y) {
  const auto run = [&](Graph graph, bool fused) {
    Memory memory = {
        {kImage, x.raw_data()}, {kFilters, filters.raw_data()}, {kOutput, y.raw_data()}};
    if (fused) memory.emplace_back(kBias, const_cast<float*>(bias));
    return Run(
        x.device(), KeyOf(graph, x.dtype(), shape), x.dtype(),
        [&](CudnnGraph* g) { return DescribeConvolution(shape, x.dtype(), fused, g); }, memory);
  };
  if (bias == nullptr) return run(Graph::kConvolution, false);
  const absl::Status fused = run(Graph::kBiasedConvolution, true);
  if (!absl::IsUnimplemented(fused)) return fused;
  DPIPE_RETURN_IF_ERROR(run(Graph::kConvolution, false));
  const int64_t channels = y.dim(3), rows = y.num_elements() / channels;
  WithElements([&](auto* to) { AddBias(StreamOf(y), rows, channels, bias, to); }, y);
  return absl::OkStatus();
}

absl::Status ConvolveInputGradByCudnn(const Convolution& shape, const Tensor& dy,
                                      const Tensor& filters, const Tensor& dx) {
  return Run(dy.device(), KeyOf(Graph::kInputGrad, dy.dtype(), shape), dy.dtype(),
             [&](CudnnGraph* graph) { return DescribeInputGrad(shape, dy.dtype(), graph); },
             {{kImage, dx.raw_data()}, {kFilters, filters.raw_data()}, {kOutput, dy.raw_data()}});
}

absl::Status ConvolveFilterGradByCudnn(const Convolution& shape, const Tensor& x, const Tensor& dy,
                                       const Tensor& dfilters) {
  return Run(x.device(), KeyOf(Graph::kFilterGrad, x.dtype(), shape), x.dtype(),
             [&](CudnnGraph* graph) { return DescribeFilterGrad(shape, x.dtype(), graph); },
             {{kImage, x.raw_data()}, {kFilters, dfilters.raw_data()}, {kOutput, dy.raw_data()}});
}

absl::Status AttendByCudnn(const UnmaskedAttention& shape, const Tensor& q, const Tensor& k,
                           const Tensor& v, const Tensor& y, float* log_sums) {
  float scale = shape.scale;
  return Run(q.device(), KeyOf(Graph::kAttention, shape), DType::kBf16,
             [&](CudnnGraph* graph) { return DescribeAttention(shape, graph); },
             {{kQueries, q.raw_data()},
              {kKeys, k.raw_data()},
              {kValues, v.raw_data()},
              {kAttended, y.raw_data()},
              {kLogSums, log_sums},
              {kScale, &scale}});
}

absl::Status AttendGradByCudnn(const UnmaskedAttention& shape, const Tensor& dy, const Tensor& q,
                               const Tensor& k, const Tensor& v, const Tensor& y,
                               const float* log_sums, const Tensor& dq, const Tensor& dk,
                               const Tensor& dv) {
  float scale = shape.scale;
  return Run(q.device(), KeyOf(Graph::kAttentionGrad, shape), DType::kBf16,
             [&](CudnnGraph* graph) { return DescribeAttentionGrad(shape, graph); },
             {{kQueries, q.raw_data()},
              {kKeys, k.raw_data()},
              {kValues, v.raw_data()},
              {kAttended, y.raw_data()},
              {kOutputGrads, dy.raw_data()},
              {kLogSums, const_cast<float*>(log_sums)},
              {kScale, &scale},
              {kQueryGrads, dq.raw_data()},
              {kKeyGrads, dk.raw_data()},
              {kValueGrads, dv.raw_data()}});
}

}  // namespace dpipe::ops::cuda
