#include "core/ops/cuda/cudnn/cudnn_ops.h"

#include <algorithm>
#include <limits>
#include <string>

#include "absl/strings/str_cat.h"
#include "core/ops/cuda/cudnn/cudnn_context.h"
#include "core/ops/cuda/cudnn/cudnn_graphs.h"
#include "core/ops/cuda/engine_choices.h"
#include "core/ops/cuda/stream_of.h"
#include "core/ops/support/backend.h"
#include "core/tensor/device_work.h"

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
// Attention is always in bf16.
CudnnContext::Key KeyOf(Graph graph, DType, const AttentionShape& s) {
  return {static_cast<int64_t>(graph), s.batch, s.heads, s.queries, s.keys, s.size, s.causal,
          s.nondeterministic};
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
std::string ShapeText(const AttentionShape& s) {
  return absl::StrCat(s.heads, " heads of ", s.size, ", ", s.queries, " queries, ", s.keys, " keys",
                      s.causal ? ", causal" : "");
}

// Describe sizes and the number of operations, for a profile of the GPU's time. The gradient of
// attention has five products instead of two: scores are computed again.
std::string SizesOf(const Convolution& s) {
  return absl::StrCat(s.batch, "x", s.height, "x", s.width, " ", s.channels, "->", s.outputs, " ",
                      s.rows, "x", s.columns, "/", s.stride);
}
void CountOf(Graph, DType dtype, const Convolution& s) {
  const auto pixels = static_cast<double>(s.batch * s.out_height * s.out_width);
  const auto filters = static_cast<double>(s.outputs * s.rows * s.columns * s.channels);
  const auto elements = static_cast<double>(s.batch * s.height * s.width * s.channels) + filters +
                        pixels * static_cast<double>(s.outputs);
  CountWork(2 * pixels * filters, elements * static_cast<double>(SizeOf(dtype)));
}
std::string SizesOf(const AttentionShape& s) {
  return absl::StrCat(s.batch, "x", s.heads, " ", s.queries, "x", s.keys, "x", s.size);
}
void CountOf(Graph graph, DType dtype, const AttentionShape& s) {
  const bool is_grad = graph == Graph::kAttentionGrad;
  const auto rows = static_cast<double>(s.batch * s.heads * s.size);
  const auto queries = static_cast<double>(s.queries), keys = static_cast<double>(s.keys);
  CountWork((is_grad ? 5 : 2) * 2 * rows * queries * keys,
            (is_grad ? 2 : 1) * 2 * rows * (queries + keys) * static_cast<double>(SizeOf(dtype)));
}

using Memory = std::vector<std::pair<int64_t, void*>>;

absl::Status Emulated() {
  return absl::UnimplementedError("cuDNN does not run on emulated devices");
}

// Runs a graph. If cuDNN does not support it, adds a note to the device.
template <typename Shape>
absl::Status Run(const std::shared_ptr<Device>& device, Graph graph, DType dtype,
                 const Shape& shape, const CudnnContext::Describe& describe, const Memory& memory) {
  if (StreamOf(*device).emulated) return Emulated();
  for (const auto& [id, data] : memory) {
    const bool is_number = id == kScale || id == kUnit || id == kMasked;
    if (reinterpret_cast<uintptr_t>(data) % 16 != 0 && !is_number) {
      return absl::UnimplementedError("tensors for cuDNN must be aligned to 16 bytes");
    }
  }
  DPIPE_ASSIGN_OR_RETURN(CudnnContext * context, CudnnContext::Of(*device));
  const CudnnContext::Key key = KeyOf(graph, dtype, shape);
  const absl::StatusOr<const CudnnPlan*> plan =
      context->PlanFor(key, dtype == DType::kF32, describe,
                       absl::StrCat(NameOf(graph), " of ", shape.batch, " samples, ",
                                    ShapeText(shape), " in ", DTypeName(dtype)),
                       device, memory);
  absl::Status done = plan.status();
  if (plan.ok()) {
    const WorkScope scope([&] { return absl::StrCat(SizesOf(shape), " by ", (*plan)->engine()); });
    CountOf(graph, dtype, shape);
    done = (*plan)->Run(context->handle(), device, memory);
    // cuDNN may reject a plan only when it runs. It is then not tried again.
    if (absl::IsUnimplemented(done)) context->Refuse(key, done);
  }
  if (absl::IsUnimplemented(done)) {
    device->Note(
        absl::StrCat(NameOf(graph), " of ", ShapeText(shape), " in ", DTypeName(dtype),
                     " falls back to matrix products, which are slower: ", done.message()));
  }
  return done;
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
  // cuDNN's fp32 engine returned NaNs if memory was poisoned (9.19 on an H200: 6 x 6 pixels,
  // filters of 4 x 3, padded by 2, 1, 0 and 2). Only the VAE's images are padded unevenly, and it
  // is not trained.
  const bool padded_evenly = shape.pad_top == shape.pad_bottom && shape.pad_left == shape.pad_right;
  if (x.dtype() == DType::kF32 && !padded_evenly) {
    return absl::UnimplementedError(
        "cuDNN is not used for fp32 filter gradients of unevenly padded images");
  }
  return Run(x.device(), Graph::kFilterGrad, x.dtype(), shape,
             [&](CudnnGraph* graph) { DescribeFilterGrad(shape, x.dtype(), graph); },
             {{kImage, x.raw_data()}, {kFilters, dfilters.raw_data()}, {kOutput, dy.raw_data()}});
}

namespace {

absl::Status RunAttention(Graph graph, const AttentionShape& shape,
                          const std::shared_ptr<Device>& device, const absl::Status& checked,
                          const CudnnContext::Describe& describe, Memory memory) {
  if (!checked.ok()) {
    device->Note(
        absl::StrCat(NameOf(graph), " of ", ShapeText(shape),
                     " falls back to matrix products, which are slower: ", checked.message()));
    return checked;
  }
  DPIPE_ASSIGN_OR_RETURN(const CudnnApi* api, LoadCudnn());
  float scale = shape.scale, unit = 1;
  // exp() of either is 0; versions before 9.10 are not passed infinities.
  float masked = api->cudnnGetVersion() < 91000 ? std::numeric_limits<float>::lowest()
                                                : -std::numeric_limits<float>::infinity();
  memory.emplace_back(kScale, &scale);
  if (graph == Graph::kAttentionGrad) memory.emplace_back(kUnit, &unit);
  if (shape.causal) memory.emplace_back(kMasked, &masked);
  return Run(device, graph, DType::kBf16, shape, describe, memory);
}

}  // namespace

absl::Status AttendByCudnn(const AttentionShape& shape, const Tensor& q, const Tensor& k,
                           const Tensor& v, const Tensor& y, float* log_sums) {
  if (StreamOf(q).emulated) return Emulated();
  return RunAttention(Graph::kAttention, shape, q.device(), CheckAttention(shape),
                      [&](CudnnGraph* graph) { DescribeAttention(shape, graph); },
                      {{kQueries, q.raw_data()},
                       {kKeys, k.raw_data()},
                       {kValues, v.raw_data()},
                       {kAttended, y.raw_data()},
                       {kLogSums, log_sums}});
}

absl::Status AttendGradByCudnn(const AttentionShape& shape, const Tensor& dy, const Tensor& q,
                               const Tensor& k, const Tensor& v, const Tensor& y,
                               const float* log_sums, const Tensor& dq, const Tensor& dk,
                               const Tensor& dv) {
  if (StreamOf(q).emulated) return Emulated();
  const int capability = dpipe::cuda::CudaDeviceOf(*q.device()).gpu().capability_major;
  AttentionShape whole = shape;
  whole.nondeterministic =
      !EngineChoices::OfProcess().deterministic() && IsFasterNondeterministic(shape);
  const int64_t rows = shape.heads * shape.queries, max_part = SamplesAtOnce(whole);
  const Tensor sums = Tensor::Empty(q.device(), {max_part, rows}, DType::kF32);
  const Tensor dq_sums =
      whole.nondeterministic ? Tensor::Empty(q.device(), q.shape(), DType::kF32) : Tensor();
  for (int64_t begin = 0; begin < shape.batch; begin += max_part) {
    AttentionShape part = whole;
    part.batch = std::min(max_part, shape.batch - begin);
    const auto of = [&](const Tensor& t) { return t.Slice(begin, begin + part.batch).raw_data(); };
    Memory memory = {{kQueries, of(q)},
                     {kKeys, of(k)},
                     {kValues, of(v)},
                     {kAttended, of(y)},
                     {kOutputGrads, of(dy)},
                     {kLogSums, const_cast<float*>(log_sums) + begin * rows},
                     {kGradSums, sums.raw_data()},
                     {kQueryGrads, of(dq)},
                     {kKeyGrads, of(dk)},
                     {kValueGrads, of(dv)}};
    if (part.nondeterministic) memory.emplace_back(kQueryGradSums, dq_sums.raw_data());
    DPIPE_RETURN_IF_ERROR(RunAttention(
        Graph::kAttentionGrad, part, q.device(), CheckAttentionGrad(part, capability),
        [&](CudnnGraph* graph) { DescribeAttentionGrad(part, capability, graph); }, memory));
  }
  return absl::OkStatus();
}

}  // namespace dpipe::ops::cuda
