// Compares strategies on a model and a data set on this machine: the common part of sd_pipeline,
// flux_pipeline, controlnet_pipeline and cdm_pipeline, without flags.
#ifndef DPIPE_BENCH_COMPARISON_PIPELINE_COMPARISON_H_
#define DPIPE_BENCH_COMPARISON_PIPELINE_COMPARISON_H_

#include <functional>
#include <string>
#include <vector>

#include "bench/comparison/comparison.h"
#include "core/base/status.h"
#include "models/trainable/training_setup.h"

namespace dpipe::bench {

struct PipelineComparisonOptions {
  std::string benchmark;  // its name: "sd_pipeline"
  std::string model;      // as the user named it
  models::TrainingSetupOptions setup;
  ComparisonOptions comparison;  // its global batch is ignored; the setup's is used
};

// Splits at commas, or at semicolons if any strategy is a composition, which contains commas.
std::vector<std::string> SplitStrategies(const std::string& text);

// True if any strategy trains from the offline cache (TrainingSetup::BuildCache).
bool AnyNeedsCache(const std::vector<std::string>& strategies);

// Loads the model and the data, fills the offline cache if a strategy needs it, plans and trains.
// The cache is in the setup's folder, or if there is none in a temporary folder on disk; its size
// is in the strategy's result. Permanent lines go to `say`, progress to standard error. Returns
// InvalidArgument for an unknown strategy before anything is loaded. The setup's processes, which
// run on one host, all call this with the same arguments; the first one prints, and gets the
// results.
absl::StatusOr<Comparison> ComparePipelines(const PipelineComparisonOptions& options,
                                            const std::function<void(const std::string&)>& say);

}  // namespace dpipe::bench

#endif  // DPIPE_BENCH_COMPARISON_PIPELINE_COMPARISON_H_
