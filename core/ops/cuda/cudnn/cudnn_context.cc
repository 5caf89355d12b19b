#include "core/ops/cuda/cudnn/cudnn_context.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/phases.h"
#include "core/ops/cuda/engine_choices.h"

namespace dpipe::ops::cuda {
namespace {

// Maximum number of engines that are timed. The heuristics are mostly right; the engines they name
// last are seldom fast.
constexpr int kMaxTimed = 8;
// Workspace allowed for the other engines if the first one needs less: an amount that a nearly full
// GPU may still have.
constexpr int64_t kTimedWorkspaceBytes = int64_t{64} << 20;

}  // namespace

absl::StatusOr<CudnnContext*> CudnnContext::Of(Device& device) {
  dpipe::cuda::CudaDevice& gpu = dpipe::cuda::CudaDeviceOf(device);
  return gpu.Attached<CudnnContext>([&gpu] { return Create(gpu); });
}

absl::StatusOr<std::unique_ptr<CudnnContext>> CudnnContext::Create(
    const dpipe::cuda::CudaDevice& device) {
  const Phase phase("open cuDNN");
  DPIPE_ASSIGN_OR_RETURN(const CudnnApi* api, LoadCudnn());
  cudnnHandle_t handle = nullptr;
  DPIPE_RETURN_IF_ERROR(CudnnStatus(*api, api->cudnnCreate(&handle), "cudnnCreate"));
  std::unique_ptr<CudnnContext> context(new CudnnContext(
      *api, handle,
      absl::StrCat(device.gpu().name, ", ", device.context().multiprocessors, " multiprocessors"),
      absl::StrCat("cuDNN ", CudnnVersionText(api->cudnnGetVersion()))));
  DPIPE_RETURN_IF_ERROR(
      CudnnStatus(*api, api->cudnnSetStream(handle, device.stream()), "cudnnSetStream"));
  return context;
}

CudnnContext::~CudnnContext() {
  plans_.clear();
  api_.cudnnDestroy(handle_);
}

absl::StatusOr<CudnnEngines> CudnnContext::EnginesFor(bool exact_fp32,
                                                      const Describe& describe) const {
  auto graph = std::make_unique<CudnnGraph>(api_);
  if (!EngineChoices::OfProcess().deterministic()) graph->AllowNondeterminism();
  describe(graph.get());
  return CudnnEngines::For(CudnnTarget(handle_), std::move(graph), exact_fp32);
}

absl::StatusOr<const CudnnPlan*> CudnnContext::PlanFor(
    const Key& key, bool exact_fp32, const Describe& describe, const std::string& operation,
    const std::shared_ptr<Device>& device, const std::vector<std::pair<int64_t, void*>>& memory) {
  const auto found = plans_.find(key);
  if (found != plans_.end()) {
    if (!found->second.ok()) return found->second.status();
    return found->second->get();
  }
  const auto make = [&]() -> absl::StatusOr<std::unique_ptr<CudnnPlan>> {
    DPIPE_ASSIGN_OR_RETURN(CudnnEngines first, EnginesFor(exact_fp32, describe));
    DPIPE_ASSIGN_OR_RETURN(std::unique_ptr<CudnnPlan> plan, first.Next());
    EngineChoices& choices = EngineChoices::OfProcess();
    if (!choices.in_use()) return plan;

    std::vector<std::unique_ptr<CudnnPlan>> others;
    DPIPE_ASSIGN_OR_RETURN(
        const std::string name,
        choices.Choose({operation, device_text_, library_text_}, *device, [&] {
          others = first.NextQuick(kMaxTimed - 1,
                                   std::max(plan->workspace_bytes(), kTimedWorkspaceBytes));
          std::vector<Engine> engines;
          const auto add = [&](const CudnnPlan* one) {
            engines.push_back(
                {one->engine(), [&, one] { return one->Run(handle_, device, memory); }});
          };
          add(plan.get());
          for (const auto& other : others) add(other.get());
          return engines;
        }));
    if (name.empty() || name == plan->engine()) return plan;
    for (auto& other : others) {
      if (other->engine() == name) return std::move(other);
    }
    DPIPE_ASSIGN_OR_RETURN(CudnnEngines again, EnginesFor(exact_fp32, describe));
    absl::StatusOr<std::unique_ptr<CudnnPlan>> chosen = again.Next(name);
    if (chosen.ok()) return chosen;
    device->Note(absl::StrCat("engine ", name, " chosen for ", operation,
                              " is not available; using the first one"));
    return plan;
  };
  absl::StatusOr<std::unique_ptr<CudnnPlan>> plan = make();
  // Other failures, such as a lack of memory, may not happen again, so they are not stored.
  if (!plan.ok() && !absl::IsUnimplemented(plan.status())) return plan.status();
  const auto kept = plans_.emplace(key, std::move(plan)).first;
  if (!kept->second.ok()) return kept->second.status();
  return kept->second->get();
}

}  // namespace dpipe::ops::cuda
