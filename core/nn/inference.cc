#include "core/nn/inference.h"

#include <algorithm>
#include <utility>

#include "core/nn/parameters.h"

namespace dpipe::nn {

const ParameterSet& Inference::On(const std::shared_ptr<Device>& device) {
  {
    absl::MutexLock lock(&mutex_);
    const auto copy = copies_.find(device.get());
    if (copy != copies_.end()) return *copy->second;
  }
  // Not under the lock: other workers copy to their own devices at the same time.
  auto copy = CopyParameters(*parameters_, {parameters_->layers()}, device);
  absl::MutexLock lock(&mutex_);
  return *copies_.emplace(device.get(), std::move(copy)).first->second;
}

absl::Status Inference::Forward(const Program& program, LayerRange range,
                                const std::shared_ptr<Device>& device, const RunOptions& options,
                                ValueMap* values) {
  if (device->has_host_memory()) {
    return nn::Forward(program, range, *parameters_, options, values, /*state=*/nullptr);
  }
  const ParameterSet& there = On(device);
  for (auto& [id, value] : *values) value = value.CopyTo(device);
  DPIPE_RETURN_IF_ERROR(nn::Forward(program, range, there, options, values, /*state=*/nullptr));
  for (auto& [id, value] : *values) value = value.ToHost();
  return absl::OkStatus();
}

int64_t InferenceBytes(const Program& program, LayerRange range, int64_t batch,
                       DType compute_dtype) {
  const auto bytes = [&](ValueId id) { return batch * program.BytesPerSample(id, compute_dtype); };
  int64_t inputs = 0, max_values = 0;
  for (ValueId id : program.InputsReadBy(range)) inputs += bytes(id);
  for (int layer = range.begin; layer < range.end; ++layer) {
    int64_t values = 0;
    for (ValueId id : program.LiveAt(layer)) values += bytes(id);
    const LayerInfo& info = program.layer(layer);
    for (int node = info.begin_node; node < info.end_node; ++node) {
      values += bytes(program.node(NodeId(node)).output);
    }
    max_values = std::max(max_values, values);
  }
  // What is kept, and prepared forms or decoded values in the compute dtype.
  const int64_t parameters =
      program.ParameterBytes(range) + program.ParameterCount(range) * SizeOf(compute_dtype);
  return parameters + inputs + max_values;
}

}  // namespace dpipe::nn
