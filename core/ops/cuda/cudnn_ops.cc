#include "core/ops/cuda/cudnn_ops.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "core/ops/backend.h"
#include "core/ops/cuda/cudnn_graphs.h"
#include "core/ops/cuda/stream_of.h"

namespace dpipe::ops::cuda {
namespace {

enum class Graph : int64_t { kConvolution, kInputGrad, kFilterGrad, kAttention, kAttentionGrad };

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
// Attention is in bf16 always.
CudnnContext::Key KeyOf(Graph graph, DType, const UnmaskedAttention& s) {
  return {static_cast<int64_t>(graph), s.batch, s.heads, s.queries, s.keys, s.size};
}

const char* NameOf(Graph graph) {
  switch (graph) {
    case Graph::kConvolution:
      return "a convolution";
    case Graph::kInputGrad:
      return "a convolution's gradient of its input";
    case Graph::kFilterGrad:
      return "a convolution's gradient of its filters";
    case Graph::kAttention:
      return "attention";
    case Graph::kAttentionGrad:
      return "attention's gradient";
  }
  return "";
}
std::string ShapeText(const Convolution& s) {
  return absl::StrCat(s.height, " x ", s.width, " pixels, ", s.channels, " to ", s.outputs,
                      " channels, filters of ", s.rows, " x ", s.columns, ", stride ", s.stride,
                      ", to ", s.out_height, " x ", s.out_width);
}
std::string ShapeText(const UnmaskedAttention& s) {
  return absl::StrCat(s.heads, " heads of ", s.size, ", ", s.queries, " queries, ", s.keys,
                      " keys");
}

using Memory = std::vector<std::pair<int64_t, void*>>;

// What cuDNN does not compute is noted with the device.
template <typename Shape>
absl::Status Run(const std::shared_ptr<Device>& device, Graph graph, DType dtype,
                 const Shape& shape, const CudnnContext::Describe& describe, const Memory& memory) {
  if (StreamOf(*device).emulated) {
    return absl::UnimplementedError("cuDNN does not run on emulated devices");
  }
  for (const auto& [id, data] : memory) {
    if (reinterpret_cast<uintptr_t>(data) % 16 != 0 && id != kScale && id != kUnit) {
      return absl::UnimplementedError("cuDNN is given tensors aligned to 16 bytes only");
    }
  }
  DPIPE_ASSIGN_OR_RETURN(CudnnContext * context, CudnnContext::Of(*device));
  const absl::StatusOr<const CudnnPlan*> plan =
      context->PlanFor(KeyOf(graph, dtype, shape), dtype == DType::kF32, describe,
                       absl::StrCat(NameOf(graph), " of ", shape.batch, " samples, ",
                                    ShapeText(shape), " in ", DTypeName(dtype)),
                       device, memory);
  if (absl::IsUnimplemented(plan.status())) {
    device->Note(absl::StrCat(
        NameOf(graph), " of ", ShapeText(shape), " in ", DTypeName(dtype),
        " is computed by products instead, which is slower: ", plan.status().message()));
  }
  DPIPE_RETURN_IF_ERROR(plan.status());
  return (*plan)->Run(context->handle(), device, memory);
}

}  // namespace

absl::Status ConvolveByCudnn(const Convolution& shape, const Tensor& x, const Tensor& filters,
                             const Tensor& y) {
  return Run(x.device(), Graph::kConvolution, x.dtype(), shape,
             [&](CudnnGraph* graph) { DescribeConvolution(shape, x.dtype(), graph); },
             {{kImage, x.raw_data()}, {kFilters, filters.raw_data()}, {kOutput, y.raw_data()}});
}

absl::Status ConvolveInputGradByCudnn(const Convolution& shape, const Tensor& dy,
                                      const Tensor& filters, const Tensor& dx) {
  return Run(dy.device(), Graph::kInputGrad, dy.dtype(), shape,
             [&](CudnnGraph* graph) { DescribeInputGrad(shape, dy.dtype(), graph); },
             {{kImage, dx.raw_data()}, {kFilters, filters.raw_data()}, {kOutput, dy.raw_data()}});
}

absl::Status ConvolveFilterGradByCudnn(const Convolution& shape, const Tensor& x, const Tensor& dy,
                                       const Tensor& dfilters) {
  return Run(x.device(), Graph::kFilterGrad, x.dtype(), shape,
             [&](CudnnGraph* graph) { DescribeFilterGrad(shape, x.dtype(), graph); },
             {{kImage, x.raw_data()}, {kFilters, dfilters.raw_data()}, {kOutput, dy.raw_data()}});
}

absl::Status AttendByCudnn(const UnmaskedAttention& shape, const Tensor& q, const Tensor& k,
                           const Tensor& v, const Tensor& y, float* log_sums) {
  float scale = shape.scale;
  return Run(q.device(), Graph::kAttention, DType::kBf16, shape,
             [&](CudnnGraph* graph) { DescribeAttention(shape, graph); },
             {{kQueries, q.raw_data()},
              {kKeys, k.raw_data()},
              {kValues, v.raw_data()},
              {kAttended, y.raw_data()},
              {kLogSums, log_sums},
              {kScale, &scale}});
}

namespace {

// Elements of ds, bf16, that lie in the workspace at one time: 1 GB.
constexpr int64_t kMostScores = int64_t{512} << 20;

}  // namespace

absl::Status AttendGradByCudnn(const UnmaskedAttention& shape, const Tensor& dy, const Tensor& q,
                               const Tensor& k, const Tensor& v, const Tensor& y,
                               const float* log_sums, const Tensor& dq, const Tensor& dk,
                               const Tensor& dv) {
  const int64_t rows = shape.heads * shape.queries;
  const int64_t most = std::clamp<int64_t>(kMostScores / (rows * shape.keys), 1, shape.batch);
  const Tensor sums = Tensor::Empty(q.device(), {most, rows}, DType::kF32);
  for (int64_t begin = 0; begin < shape.batch; begin += most) {
    UnmaskedAttention part = shape;
    part.batch = std::min(most, shape.batch - begin);
    const auto of = [&](const Tensor& t) { return t.Slice(begin, begin + part.batch).raw_data(); };
    float scale = shape.scale, unit = 1;
    DPIPE_RETURN_IF_ERROR(Run(q.device(), Graph::kAttentionGrad, DType::kBf16, part,
                              [&](CudnnGraph* graph) { DescribeAttentionGrad(part, graph); },
                              {{kQueries, of(q)},
                               {kKeys, of(k)},
                               {kValues, of(v)},
                               {kAttended, of(y)},
                               {kOutputGrads, of(dy)},
                               {kLogSums, const_cast<float*>(log_sums) + begin * rows},
                               {kGradSums, sums.raw_data()},
                               {kScale, &scale},
                               {kUnit, &unit},
                               {kQueryGrads, of(dq)},
                               {kKeyGrads, of(dk)},
                               {kValueGrads, of(dv)}}));
  }
  return absl::OkStatus();
}

}  // namespace dpipe::ops::cuda
