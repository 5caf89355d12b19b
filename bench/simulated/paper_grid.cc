#include "bench/simulated/paper_grid.h"

#include <time.h>

#include <algorithm>
#include <atomic>
#include <limits>
#include <mutex>
#include <optional>
#include <thread>

#include "absl/strings/str_cat.h"
#include "baselines/registry.h"
#include "core/cost/cost_model.h"
#include "core/planner/search.h"
#include "core/schedule/file_formats/plan_io.h"
#include "core/sim/lower_bound.h"

namespace dpipe::bench {
namespace {

constexpr int kDevicesPerNode = 8;

// Returns why the plan does not train the whole model, or "".
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

// Returns the processor time of the calling thread, which other programs do not affect.
Nanos ThreadNow() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<Nanos>(now.tv_sec) * kNanosPerSecond + now.tv_nsec;
}

void Describe(const PlanResult& result, int global_batch, Outcome* outcome) {
  const Plan& plan = result.plan;
  const Prediction& prediction = plan.prediction();
  outcome->step_ns = result.expected_step_ns;
  outcome->lower_bound_ns = prediction.lower_bound_ns();
  outcome->images_per_second =
      static_cast<double>(global_batch) * kNanosPerSecond / std::max<Nanos>(1, outcome->step_ns);
  outcome->bubble_ratio = prediction.bubble_ratio();
  outcome->unfilled_bubble_ratio = prediction.unfilled_bubble_ratio();
  for (int64_t bytes : prediction.peak_memory_bytes()) {
    outcome->peak_memory_bytes = std::max<int64_t>(outcome->peak_memory_bytes, bytes);
  }
  if (!result.candidates.empty()) outcome->schedule = result.candidates[0].schedule;
  outcome->num_stages = plan.stages_size();
  outcome->num_micro_batches = plan.num_micro_batches();
  outcome->micro_batch_size = plan.micro_batch_size();
  outcome->devices_per_pipeline = plan.devices_per_pipeline();
}

Outcome PlanOne(const GridEntry& contender, const ModelProfile& profile, const ClusterSpec& cluster,
                const PlanOptions& options) {
  Outcome outcome;
  outcome.label = contender.label;
  outcome.spec = contender.spec;
  const auto strategy = FindStrategy(contender.spec);
  if (!strategy.ok()) {
    outcome.refusal = std::string(strategy.status().message());
    return outcome;
  }
  outcome.role = RoleOf(*strategy);
  const Nanos start = ThreadNow();
  const auto result = MakePlan(*strategy, profile, cluster, options);
  outcome.planning_ns = ThreadNow() - start;
  if (!result.ok()) {
    outcome.refusal = std::string(result.status().message());
    return outcome;
  }
  outcome.refusal = LeftOut(result->plan, profile);
  if (outcome.planned()) Describe(*result, options.global_batch, &outcome);
  return outcome;
}

absl::Status CheckCase(const GridCase& c) {
  if (c.cluster.empty() &&
      (c.num_devices < kDevicesPerNode || c.num_devices % kDevicesPerNode != 0)) {
    return absl::InvalidArgumentError(absl::StrCat(
        c.num_devices, " devices are not a multiple of the ", kDevicesPerNode, " of a node"));
  }
  if (c.global_batch < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("a batch of ", c.global_batch, " samples is less than 1"));
  }
  return absl::OkStatus();
}

std::string ClusterName(const GridCase& c) {
  if (!c.cluster.empty()) return c.cluster;
  return absl::StrCat(c.device, "_8x", c.num_devices / kDevicesPerNode);
}

absl::StatusOr<ClusterSpec> ReadCluster(const GridOptions& options, const std::string& name,
                                        bool nccl) {
  ClusterSpec cluster;
  DPIPE_RETURN_IF_ERROR(
      ReadTextProto(absl::StrCat(options.clusters_folder, "/", name, ".textproto"), &cluster));
  if (nccl) cluster.set_collectives(ClusterSpec::NCCL);
  return cluster;
}

// Returns the contenders' outcomes: those of an earlier run, and plans of the others.
std::vector<Outcome> OutcomesOf(const std::vector<GridEntry>& contenders,
                                const std::vector<Outcome>& earlier, const ModelProfile& profile,
                                const ClusterSpec& cluster, const PlanOptions& options) {
  std::vector<Outcome> outcomes;
  for (const GridEntry& contender : contenders) {
    const auto known = std::find_if(earlier.begin(), earlier.end(), [&](const Outcome& outcome) {
      return outcome.label == contender.label && outcome.spec == contender.spec;
    });
    outcomes.push_back(known != earlier.end() ? *known
                                              : PlanOne(contender, profile, cluster, options));
  }
  return outcomes;
}

absl::StatusOr<GridResult> RunCase(const GridOptions& options, const GridCase& c,
                                   const GridResult& earlier) {
  DPIPE_RETURN_IF_ERROR(CheckCase(c));
  DPIPE_ASSIGN_OR_RETURN(const ModelProfile profile,
                         ProfileOf(options, c.chapter, c.model, c.device));
  DPIPE_ASSIGN_OR_RETURN(const ClusterSpec cluster, ReadCluster(options, ClusterName(c), c.nccl));
  if (cluster.num_nodes() * cluster.devices_per_node() != c.num_devices) {
    return absl::InvalidArgumentError(absl::StrCat(cluster.name(), " has ",
                                                   cluster.num_nodes() * cluster.devices_per_node(),
                                                   " devices, but the case ", c.num_devices));
  }
  PlanOptions plan_options;
  plan_options.global_batch = c.global_batch;
  plan_options.num_stages = plan_options.devices_per_pipeline = c.num_stages;
  plan_options.num_micro_batches = c.num_micro_batches;
  plan_options.simulation_budget = options.simulation_budget;
  GridResult result;
  result.chapter = c.chapter;
  result.model = c.model;
  result.device = c.device;
  result.cluster = ClusterName(c);
  result.nccl = c.nccl;
  result.num_devices = c.num_devices;
  result.global_batch = c.global_batch;
  result.num_stages = c.num_stages;
  result.num_micro_batches = c.num_micro_batches;
  result.outcomes = OutcomesOf(c.contenders, earlier.outcomes, profile, cluster, plan_options);
  result.ablations = OutcomesOf(c.ablations, earlier.ablations, profile, cluster, plan_options);
  return result;
}

bool SameContenders(const std::vector<GridEntry>& contenders,
                    const std::vector<Outcome>& outcomes) {
  return std::equal(contenders.begin(), contenders.end(), outcomes.begin(), outcomes.end(),
                    [](const GridEntry& contender, const Outcome& outcome) {
                      return contender.label == outcome.label && contender.spec == outcome.spec;
                    });
}

bool IsResultOf(const GridCase& c, const GridResult& result) {
  return result.chapter == c.chapter && result.model == c.model && result.device == c.device &&
         result.cluster == ClusterName(c) && result.nccl == c.nccl &&
         result.num_devices == c.num_devices && result.global_batch == c.global_batch &&
         result.num_stages == c.num_stages && result.num_micro_batches == c.num_micro_batches;
}

// State shared by the threads of a grid.
struct Progress {
  std::mutex mutex;
  std::vector<std::optional<GridResult>> results;  // one per case
  std::vector<GridResult> earlier;                 // one per case: of other contenders, too
  absl::Status status;
  std::atomic<size_t> next{0};

  std::vector<GridResult> SoFar() const {
    std::vector<GridResult> so_far;
    for (const auto& result : results) {
      if (result.has_value()) so_far.push_back(*result);
    }
    return so_far;
  }
};

void Work(const GridOptions& options, const std::vector<GridCase>& cases,
          const OnFinished& on_finished, Progress* progress) {
  for (size_t i = progress->next++; i < cases.size(); i = progress->next++) {
    {
      std::lock_guard<std::mutex> lock(progress->mutex);
      if (!progress->status.ok()) return;
      if (progress->results[i].has_value()) continue;
    }
    auto result = RunCase(options, cases[i], progress->earlier[i]);
    std::lock_guard<std::mutex> lock(progress->mutex);
    if (!result.ok()) {
      progress->status = result.status();
      return;
    }
    progress->results[i] = *std::move(result);
    if (!on_finished) continue;
    const absl::Status status = on_finished(progress->SoFar(), cases.size(), *progress->results[i]);
    if (!status.ok()) progress->status = status;
  }
}

absl::Status SetWorkBound(const GridOptions& options, GridResult* c) {
  DPIPE_ASSIGN_OR_RETURN(const ModelProfile profile,
                         ProfileOf(options, c->chapter, c->model, c->device));
  DPIPE_ASSIGN_OR_RETURN(const ClusterSpec cluster, ReadCluster(options, c->cluster, c->nccl));
  DPIPE_ASSIGN_OR_RETURN(const CostModel cost, CostModel::Create(profile, cluster));
  int local_batch =
      0;  // with S and M given, a stage has one device and processes whole micro-batches
  if (c->num_stages > 0 && c->num_micro_batches > 0) {
    local_batch = c->global_batch / (c->num_devices / c->num_stages) / c->num_micro_batches;
  }
  c->min_step_ns = WorkBound(cost, c->global_batch, local_batch);
  return absl::OkStatus();
}

}  // namespace

absl::Status SetWorkBounds(const GridOptions& options, std::vector<GridResult>* results) {
  for (GridResult& c : *results) DPIPE_RETURN_IF_ERROR(SetWorkBound(options, &c));
  return absl::OkStatus();
}

Role RoleOf(const Strategy& strategy) {
  if (strategy.frozen() == "cached") return Role::kCached;
  if (strategy.frozen() == "fill") return Role::kFilled;
  if (strategy.schedule() != "single") return Role::kPipeline;
  const bool sharded = strategy.shard() == "zero1" || strategy.shard() == "zero3";
  return sharded ? Role::kSharded : Role::kDataParallel;
}

const Outcome* GridResult::Find(const std::string& label) const {
  for (const Outcome& outcome : outcomes) {
    if (outcome.label == label && outcome.planned()) return &outcome;
  }
  return nullptr;
}

const Outcome* GridResult::Fastest(Role role) const {
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

absl::StatusOr<ModelProfile> ProfileOf(const GridOptions& options, const std::string& chapter,
                                       const std::string& model, const std::string& device) {
  std::string folder;
  if (device == "a100") folder = "a100_80gb";
  if (device == "h100" || device == "h200") folder = device + "_sxm";
  if (folder.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("unknown device '", device, "'; there are a100, h100 and h200"));
  }
  const auto made = options.profiles_of_chapter.find(chapter);
  if (made != options.profiles_of_chapter.end()) return made->second(model, folder);
  ModelProfile profile;
  DPIPE_RETURN_IF_ERROR(ReadTextProto(
      absl::StrCat(options.profiles_folder, "/", folder, "/", model, ".textproto"), &profile));
  return profile;
}

absl::StatusOr<std::vector<GridResult>> RunGrid(const GridOptions& options,
                                                const std::vector<GridCase>& cases,
                                                const std::vector<GridResult>& finished,
                                                const OnFinished& on_finished) {
  Progress progress;
  progress.results.resize(cases.size());
  progress.earlier.resize(cases.size());
  for (size_t i = 0; i < cases.size(); ++i) {
    for (const GridResult& result : finished) {
      if (!IsResultOf(cases[i], result)) continue;
      progress.earlier[i] = result;
      if (SameContenders(cases[i].contenders, result.outcomes) &&
          SameContenders(cases[i].ablations, result.ablations)) {
        progress.results[i] = result;
      }
    }
  }
  std::vector<std::thread> threads;
  for (int t = 0; t < std::max(1, options.jobs); ++t) {
    threads.emplace_back([&] { Work(options, cases, on_finished, &progress); });
  }
  for (std::thread& thread : threads) thread.join();
  DPIPE_RETURN_IF_ERROR(progress.status);
  return progress.SoFar();
}

}  // namespace dpipe::bench
