#include "bench/comparison/pipeline_comparison.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "baselines/registry.h"
#include "core/base/files/scratch_folder.h"
#include "core/base/time.h"
#include "core/planner/possible_shapes.h"
#include "core/report/progress.h"

namespace dpipe::bench {
namespace {

bool ReadsCache(const std::string& name) {
  const auto strategy = FindStrategy(name);
  return strategy.ok() && strategy->frozen() == "cached";
}

absl::StatusOr<int64_t> BytesOfFilesIn(const std::string& folder) {
  int64_t bytes = 0;
  std::error_code error;
  using Iterator = std::filesystem::recursive_directory_iterator;
  for (Iterator entry(folder, error); !error && entry != Iterator(); entry.increment(error)) {
    const bool is_file = entry->is_regular_file(error);
    const auto size = is_file && !error ? entry->file_size(error) : 0;
    if (error) break;
    bytes += static_cast<int64_t>(size);
  }
  if (!error) return bytes;
  return absl::UnavailableError(absl::StrCat("cannot list ", folder, ": ", error.message()));
}

bool Leads(const PipelineComparisonOptions& options) {
  return options.setup.processes == nullptr || options.setup.processes->is_leader();
}

// In a run of several processes, the first one shows the progress of all.
report::Progress::Options ProgressOf(const PipelineComparisonOptions& options) {
  report::Progress::Options progress = report::StandardErrorProgress(options.benchmark);
  if (!Leads(options)) progress.write = [](absl::string_view) {};
  return progress;
}

// Fills the setup's cache folder.
absl::StatusOr<StorageCost> FillCache(const PipelineComparisonOptions& options,
                                      models::TrainingSetup* setup) {
  report::Progress progress(ProgressOf(options));
  const ComparisonOptions& comparison = options.comparison;
  const int64_t steps = int64_t{comparison.repeats} * (comparison.steps + comparison.warmup_steps);
  const Nanos start = MonotonicNow();
  DPIPE_ASSIGN_OR_RETURN(const models::CachedInputs* cache,
                         setup->BuildCache(steps, [&](double done) {
                           report::ProgressState state;
                           state.phase = "filling the offline cache";
                           state.fraction_done = done;
                           progress.Update(state);
                         }));
  if (setup->cache_is_partial()) {
    return absl::UnimplementedError(
        "this model's frozen components cannot all be cached, so offline_cache would plan for "
        "another model than the other strategies: remove it from --strategies");
  }
  StorageCost cost;
  cost.set_num_images(cache->num_images);
  cost.set_num_captions(cache->num_captions);
  cost.set_fill_ms(static_cast<double>(MonotonicNow() - start) * 1e-6);
  DPIPE_ASSIGN_OR_RETURN(const int64_t disk_bytes, BytesOfFilesIn(options.setup.cache_folder));
  cost.set_disk_bytes(disk_bytes);
  progress.Finish();
  return cost;
}

// If processes share the folder, one fills it and the others read it.
absl::StatusOr<StorageCost> BuildCache(const PipelineComparisonOptions& options,
                                       models::TrainingSetup* setup) {
  if (options.setup.processes == nullptr) return FillCache(options, setup);
  StorageCost cost;
  DPIPE_RETURN_IF_ERROR(
      options.setup.processes->RunFirstOnHost("the offline cache", [&]() -> absl::Status {
        DPIPE_ASSIGN_OR_RETURN(cost, FillCache(options, setup));
        return absl::OkStatus();
      }));
  return cost;
}

// Checks that every strategy can divide the batch, before anything is timed.
absl::Status CheckBatch(const PipelineComparisonOptions& options,
                        const models::TrainingSetup& setup) {
  if (options.comparison.skip_impossible) return absl::OkStatus();
  const TrainingJob& job = setup.job();
  const ProcessGroup* processes = options.setup.processes;
  ShapeRequest request;
  request.num_devices = static_cast<int>(job.workers.size()) *
                        (processes == nullptr ? 1 : processes->num_processes());
  request.global_batch = options.setup.global_batch;
  request.num_micro_batches = options.comparison.num_micro_batches;
  const bool has_frozen = job.model->num_components() > job.model->backbones().size();
  request.frozen_quantum = has_frozen ? job.frozen_quantum : 1;
  for (const std::string& name : options.comparison.strategies) {
    DPIPE_ASSIGN_OR_RETURN(const Strategy strategy, FindStrategy(name));
    DPIPE_RETURN_IF_ERROR(CheckShapesExist(strategy, request));
  }
  return absl::OkStatus();
}

}  // namespace

std::vector<std::string> SplitStrategies(const std::string& text) {
  const bool compositions = text.find('=') != std::string::npos;
  return absl::StrSplit(text, compositions ? ';' : ',', absl::SkipWhitespace());
}

bool AnyNeedsCache(const std::vector<std::string>& strategies) {
  return std::any_of(strategies.begin(), strategies.end(), ReadsCache);
}

absl::StatusOr<Comparison> ComparePipelines(const PipelineComparisonOptions& given,
                                            const std::function<void(const std::string&)>& say) {
  PipelineComparisonOptions options = given;
  const bool needs_cache = AnyNeedsCache(options.comparison.strategies);
  std::optional<ScratchFolder> scratch;
  if (needs_cache && options.setup.cache_folder.empty()) {
    if (Leads(options)) options.setup.cache_folder = scratch.emplace().path();
    if (options.setup.processes != nullptr) {
      DPIPE_ASSIGN_OR_RETURN(options.setup.cache_folder,
                             options.setup.processes->FromLeader("the folder of the offline cache",
                                                                 options.setup.cache_folder));
    }
  }
  for (const std::string& strategy : options.comparison.strategies) {
    DPIPE_RETURN_IF_ERROR(FindStrategy(strategy).status());
  }
  DPIPE_ASSIGN_OR_RETURN(const auto setup, models::TrainingSetup::Create(options.setup));
  if (Leads(options)) say(setup->Describe());
  DPIPE_RETURN_IF_ERROR(CheckBatch(options, *setup));
  StorageCost storage;
  if (needs_cache) {
    DPIPE_ASSIGN_OR_RETURN(storage, BuildCache(options, setup.get()));
  }
  ComparisonOptions comparison = options.comparison;
  comparison.global_batch = options.setup.global_batch;
  report::Progress progress(ProgressOf(options));
  DPIPE_ASSIGN_OR_RETURN(Comparison result, CompareStrategies(setup->job(), comparison, &progress));
  progress.Finish();
  for (const std::string& note : setup->TakeDeviceNotes()) {
    if (Leads(options)) say(note);
  }
  result.results.set_model(options.model);
  const bool on_gpu = setup->workers()[0]->device()->kind() == DeviceKind::kCuda;
  result.results.set_backend(on_gpu ? "cuda" : "cpu");
  for (StrategyResult& one : *result.results.mutable_strategies()) {
    if (one.skipped().empty() && ReadsCache(one.strategy())) *one.mutable_storage() = storage;
  }
  return result;
}

}  // namespace dpipe::bench
