#include "core/runtime/session/session_checks.h"

#include <algorithm>
#include <set>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "core/nn/model.h"

namespace dpipe {
namespace {

absl::Status CheckPlan(const LocalSessionOptions& options, const Plan& plan) {
  const int workers = static_cast<int>(options.workers.size());
  const int processes = options.processes == nullptr ? 1 : options.processes->num_processes();
  if (plan.num_devices() != workers * processes) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the plan is for ", plan.num_devices(), " devices, but there are ", workers, " workers",
        processes > 1 ? absl::StrCat(" in each of ", processes, " processes") : ""));
  }
  if (plan.components_size() != options.model->num_components()) {
    return absl::InvalidArgumentError(absl::StrCat("the plan has ", plan.components_size(),
                                                   " components, the model ",
                                                   options.model->num_components()));
  }
  for (int i = 0; i < plan.components_size(); ++i) {
    const nn::Component& component = options.model->component(i);
    if (plan.components(i).name() != component.name ||
        plan.components(i).num_layers() != component.program.num_layers()) {
      return absl::InvalidArgumentError(
          absl::StrCat("component ", i, " is ", plan.components(i).name(), " with ",
                       plan.components(i).num_layers(), " layers in the plan, but ", component.name,
                       " with ", component.program.num_layers(), " in the model"));
    }
  }
  return absl::OkStatus();
}

// Returns each rank's layers: (rank, component, first layer, last layer, true if sharded, true if
// sharded without frozen weights).
std::set<std::tuple<int, int, int, int, bool, bool>> Holdings(const Plan& plan) {
  std::set<std::tuple<int, int, int, int, bool, bool>> holdings;
  for (const Stage& stage : plan.stages()) {
    for (int rank : stage.ranks()) {
      holdings.emplace(rank, stage.component(), stage.layers().begin(), stage.layers().end(),
                       stage.sharded(), stage.keeps_frozen_weights());
    }
  }
  return holdings;
}

// Gradients are compressed by the ranks' threads.
absl::Status CheckCompression(const LocalSessionOptions& options) {
  if (options.plan.compression().empty() != (options.reducer == nullptr)) {
    return absl::InvalidArgumentError(
        absl::StrCat("the plan's compression is '", options.plan.compression(), "', and there is ",
                     options.reducer == nullptr ? "no" : "a", " reducer of gradients"));
  }
  if (options.plan.compression().empty()) return absl::OkStatus();
  for (const DeviceWorker* worker : options.workers) {
    if (worker->device()->has_host_memory()) continue;
    return absl::UnimplementedError(
        absl::StrCat("the plan of strategy ", options.plan.strategy(),
                     " compresses gradients, which only CPU devices support"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckSessionOptions(const LocalSessionOptions& options) {
  DPIPE_RETURN_IF_ERROR(CheckCompression(options));
  DPIPE_RETURN_IF_ERROR(CheckPlan(options, options.plan));
  if (!options.communicators.empty() && options.communicators.size() != options.workers.size()) {
    return absl::InvalidArgumentError(absl::StrCat("there are ", options.communicators.size(),
                                                   " communicators for ", options.workers.size(),
                                                   " workers"));
  }
  for (const nn::Model* other : options.sizes.others) {
    DPIPE_RETURN_IF_ERROR(nn::CheckSameStructure(*options.model, *other));
  }
  if (!options.self_conditioned.has_value()) return absl::OkStatus();
  const Plan& plan = options.plan;
  const Plan& twice = options.self_conditioned->plan;
  DPIPE_RETURN_IF_ERROR(CheckPlan(options, twice));
  if (Holdings(plan) != Holdings(twice)) {
    return absl::InvalidArgumentError(
        "the plan of self-conditioned steps has different layers on some rank than the plan of the "
        "other steps");
  }
  if (plan.global_batch() != twice.global_batch() ||
      plan.frozen_quantum() != twice.frozen_quantum() ||
      plan.cached_frozen_outputs() != twice.cached_frozen_outputs()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the plan of self-conditioned steps has a global batch of ",
                     twice.global_batch(), ", frozen work by ", twice.frozen_quantum(),
                     twice.cached_frozen_outputs() ? ", cached" : "", "; the other steps' has ",
                     plan.global_batch(), ", by ", plan.frozen_quantum(),
                     plan.cached_frozen_outputs() ? ", cached" : ""));
  }
  return absl::OkStatus();
}

}  // namespace dpipe
