#include "core/profile/layer_runner.h"

#include <utility>

namespace dpipe {

void LayerRunner::Keep(const nn::ValueMap& values) {
  if (graphs_ != nullptr && pass_ == record_pass()) kept_.push_back(values);
}

absl::Status LayerRunner::Run(const std::function<absl::Status()>& work) {
  if (graphs_ == nullptr || pass_ < measure_pass()) return work();
  if (pass_ == measure_pass()) {
    absl::Status status;
    const int64_t bytes = graphs_->MeasureMemory([&] { status = work(); });
    works_.push_back({bytes, nullptr});
    return status;
  }
  Work& own = works_.at(next_++);
  if (pass_ == record_pass()) {
    absl::StatusOr<std::unique_ptr<DeviceGraph>> graph = graphs_->Record(own.memory_bytes, work);
    refusal_ = graph.status();
    if (!graph.ok()) return graph.status();
    own.graph = *std::move(graph);
  } else {
    own.graph->Launch();
  }
  return absl::OkStatus();
}

}  // namespace dpipe
