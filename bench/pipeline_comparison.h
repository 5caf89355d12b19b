// Compares strategies on a model of any kind and a data set, on this machine: what sd_pipeline,
// controlnet_pipeline and cdm_pipeline have in common, without flags.
#ifndef DPIPE_BENCH_PIPELINE_COMPARISON_H_
#define DPIPE_BENCH_PIPELINE_COMPARISON_H_

#include <functional>
#include <string>
#include <vector>

#include "bench/comparison.h"
#include "core/base/status.h"
#include "models/trainable/training_setup.h"

namespace dpipe::bench {

struct PipelineComparisonOptions {
  std::string benchmark;  // its name: "sd_pipeline"
  std::string model;      // as the user named it
  models::TrainingSetupOptions setup;
  ComparisonOptions comparison;  // its global batch is the setup's
};

// Strategies separated by commas, or, where any is a composition, which has commas of its own, by
// semicolons.
std::vector<std::string> SplitStrategies(const std::string& text);

// Whether any of them trains from the offline cache (TrainingSetup::BuildCache).
bool AnyNeedsCache(const std::vector<std::string>& strategies);

// Loads the model and the data, fills the offline cache where a strategy wants one, plans and
// trains. The cache is in the setup's folder, or, where that names none, in one on disk that goes
// when all is done; what it takes there is in the strategy's result. Lines that stay go to `say`,
// progress to standard error. InvalidArgument before anything is loaded where a strategy is
// unknown. The setup's processes, which run on one host, all call this alike; the first one speaks,
// and has the results.
absl::StatusOr<Comparison> ComparePipelines(const PipelineComparisonOptions& options,
                                            const std::function<void(const std::string&)>& say);

}  // namespace dpipe::bench

#endif  // DPIPE_BENCH_PIPELINE_COMPARISON_H_
