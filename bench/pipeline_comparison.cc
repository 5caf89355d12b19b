#include "bench/pipeline_comparison.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "baselines/registry.h"
#include "core/base/bytes.h"
#include "core/base/time.h"
#include "core/report/progress.h"

namespace dpipe::bench {
namespace {

bool NeedsCache(const std::vector<std::string>& strategies) {
  for (const std::string& name : strategies) {
    const auto strategy = FindStrategy(name);
    if (strategy.ok() && strategy->frozen() == "cached") return true;
  }
  return false;
}

absl::Status BuildCache(const PipelineComparisonOptions& options, models::TrainingSetup* setup) {
  report::Progress progress(report::StandardErrorProgress(options.benchmark));
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
        "this model's frozen components cannot all be cached, so that offline_cache would plan for "
        "another model than the other strategies: leave it out of --strategies");
  }
  progress.Message(absl::StrCat("offline cache: ", cache->num_images, " images and ",
                                cache->num_captions, " captions, ", FormatBytes(cache->size_bytes),
                                ", computed in ", FormatDuration(MonotonicNow() - start),
                                " (not counted below)"));
  return absl::OkStatus();
}

}  // namespace

std::vector<std::string> SplitStrategies(const std::string& text) {
  const bool compositions = text.find('=') != std::string::npos;
  return absl::StrSplit(text, compositions ? ';' : ',', absl::SkipWhitespace());
}

absl::StatusOr<Comparison> ComparePipelines(const PipelineComparisonOptions& options,
                                            const std::function<void(const std::string&)>& say) {
  for (const std::string& strategy : options.comparison.strategies) {
    DPIPE_RETURN_IF_ERROR(FindStrategy(strategy).status());
  }
  DPIPE_ASSIGN_OR_RETURN(const auto setup, models::TrainingSetup::Create(options.setup));
  say(setup->Describe());
  if (NeedsCache(options.comparison.strategies)) {
    DPIPE_RETURN_IF_ERROR(BuildCache(options, setup.get()));
  }
  ComparisonOptions comparison = options.comparison;
  comparison.global_batch = options.setup.global_batch;
  report::Progress progress(report::StandardErrorProgress(options.benchmark));
  DPIPE_ASSIGN_OR_RETURN(Comparison result, CompareStrategies(setup->job(), comparison, &progress));
  progress.Finish();
  result.results.benchmark = options.benchmark;
  result.results.model = options.model;
  const bool on_gpu = setup->workers()[0]->device()->kind() == DeviceKind::kCuda;
  result.results.backend = on_gpu ? "cuda" : "cpu";
  return result;
}

}  // namespace dpipe::bench
