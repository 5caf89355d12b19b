#include "bench/paper_grid.h"

#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"
#include "baselines/registry.h"
#include "core/planner/search.h"
#include "core/schedule/plan_io.h"

namespace dpipe::bench {
namespace {

constexpr int kDevicesPerNode = 8;

// Why the plan does not train the whole model, or "".
std::string LeftOut(const Plan& plan, const ModelProfile& profile) {
  for (int c = 0; c < profile.components_size(); ++c) {
    if (!profile.components(c).is_backbone()) continue;
    const bool planned = std::any_of(plan.stages().begin(), plan.stages().end(),
                                     [c](const Stage& stage) { return stage.component() == c; });
    if (!planned) {
      return absl::StrCat("the plan leaves out backbone '", profile.components(c).name(), "'");
    }
  }
  return "";
}

Outcome PlanOne(const Contender& contender, const ModelProfile& profile, const ClusterSpec& cluster,
                int global_batch) {
  Outcome outcome;
  outcome.label = contender.label;
  outcome.spec = contender.spec;
  const auto strategy = FindStrategy(contender.spec);
  if (!strategy.ok()) {
    outcome.refusal = std::string(strategy.status().message());
    return outcome;
  }
  outcome.role = RoleOf(*strategy);
  PlanOptions options;
  options.global_batch = global_batch;
  const Nanos start = MonotonicNow();
  const auto result = MakePlan(*strategy, profile, cluster, options);
  outcome.planning_ns = MonotonicNow() - start;
  if (!result.ok()) {
    outcome.refusal = std::string(result.status().message());
    return outcome;
  }
  const Plan& plan = result->plan;
  outcome.refusal = LeftOut(plan, profile);
  if (!outcome.refusal.empty()) return outcome;
  const Prediction& prediction = plan.prediction();
  outcome.step_ns = prediction.step_ns();
  outcome.lower_bound_ns = prediction.lower_bound_ns();
  outcome.images_per_second =
      static_cast<double>(global_batch) * kNanosPerSecond / std::max<Nanos>(1, outcome.step_ns);
  outcome.bubble_ratio = prediction.bubble_ratio();
  outcome.unfilled_bubble_ratio = prediction.unfilled_bubble_ratio();
  for (int64_t bytes : prediction.peak_memory_bytes()) {
    outcome.peak_memory_bytes = std::max<int64_t>(outcome.peak_memory_bytes, bytes);
  }
  if (!result->candidates.empty()) outcome.schedule = result->candidates[0].schedule;
  outcome.num_stages = plan.stages_size();
  outcome.num_micro_batches = plan.num_micro_batches();
  outcome.micro_batch_size = plan.micro_batch_size();
  outcome.devices_per_pipeline = plan.devices_per_pipeline();
  return outcome;
}

absl::Status CheckOptions(const GridOptions& options) {
  for (int devices : options.devices) {
    if (devices < kDevicesPerNode || devices % kDevicesPerNode != 0) {
      return absl::InvalidArgumentError(absl::StrCat(devices, " devices are not a multiple of the ",
                                                     kDevicesPerNode, " of a node"));
    }
  }
  for (int batch : options.device_batches) {
    if (batch < 1) {
      return absl::InvalidArgumentError(
          absl::StrCat("a batch of ", batch, " samples a device is less than 1"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

Role RoleOf(const Strategy& strategy) {
  if (strategy.frozen() == "cached") return Role::kCached;
  if (strategy.frozen() == "fill") return Role::kFilled;
  if (strategy.schedule() != "single") return Role::kPipeline;
  return strategy.shard() == "zero3" ? Role::kSharded : Role::kDataParallel;
}

const Outcome* CaseResult::Find(const std::string& label) const {
  for (const Outcome& outcome : outcomes) {
    if (outcome.label == label && outcome.planned()) return &outcome;
  }
  return nullptr;
}

const Outcome* CaseResult::Fastest(Role role) const {
  const Outcome* best = nullptr;
  for (const Outcome& outcome : outcomes) {
    if (outcome.role != role || !outcome.planned()) continue;
    if (best == nullptr || outcome.images_per_second > best->images_per_second) best = &outcome;
  }
  return best;
}

double Speedup(const Outcome* of, const Outcome* over) {
  if (of == nullptr || over == nullptr) return std::numeric_limits<double>::quiet_NaN();
  return of->images_per_second / over->images_per_second;
}

absl::StatusOr<std::vector<CaseResult>> RunGrid(
    const GridOptions& options, const std::function<void(const CaseResult&)>& on_case) {
  DPIPE_RETURN_IF_ERROR(CheckOptions(options));
  std::vector<CaseResult> results;
  for (const std::string& model : options.models) {
    ModelProfile profile;
    DPIPE_RETURN_IF_ERROR(
        ReadTextProto(absl::StrCat(options.profiles_folder, "/", model, ".textproto"), &profile));
    for (int devices : options.devices) {
      const std::string name = absl::StrCat(options.device, "_8x", devices / kDevicesPerNode);
      ClusterSpec cluster;
      DPIPE_RETURN_IF_ERROR(
          ReadTextProto(absl::StrCat(options.clusters_folder, "/", name, ".textproto"), &cluster));
      for (int batch : options.device_batches) {
        CaseResult result;
        result.model = model;
        result.cluster = name;
        result.num_devices = devices;
        result.global_batch = batch * devices;
        if (on_case) on_case(result);
        for (const Contender& contender : options.contenders) {
          result.outcomes.push_back(PlanOne(contender, profile, cluster, result.global_batch));
        }
        for (const Contender& contender : options.ablations) {
          result.ablations.push_back(PlanOne(contender, profile, cluster, result.global_batch));
        }
        results.push_back(std::move(result));
      }
    }
  }
  return results;
}

std::vector<Contender> NamedContenders() {
  std::vector<Contender> contenders;
  for (const std::string& name : StrategyNames()) contenders.push_back({name, name});
  return contenders;
}

std::vector<Contender> AblationContenders() {
  return {{"no filling", "diffusionpipe,frozen=first"},
          {"no partial batches", "diffusionpipe,partial_batch=false"},
          {"not across steps", "diffusionpipe,cross_iteration=false"},
          {"even samples", "diffusionpipe,even_samples=true"},
          {"frozen work on the first stage", "diffusionpipe,frozen=first_stage"},
          {"offline cache", "diffusionpipe,frozen=cached"}};
}

}  // namespace dpipe::bench
