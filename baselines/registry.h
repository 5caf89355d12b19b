// Looks up strategies by name and composes them from keys and values.
//
//   "diffusionpipe"                      one of StrategyNames()
//   "schedule=1f1b,frozen=fill"          a composition; unset keys default to
//                                        partitioner=balanced, schedule=1f1b, frozen=first,
//                                        sync=bucketed, partial_batch=true, cross_iteration=true,
//                                        recompute=none, shard=none, even_samples=false, tune=false
//   "diffusionpipe,partial_batch=false"  an ablation: a named strategy with one key changed
//
// Every named strategy recomputes if memory requires it and may divide the optimizer's state over
// the ranks of a stage, unless its definition in strategies.cc says otherwise. Compositions do so
// only if they say so.
//
// To add a strategy, add a row to strategies.cc.
#ifndef DPIPE_BASELINES_REGISTRY_H_
#define DPIPE_BASELINES_REGISTRY_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/proto/plan.pb.h"

namespace dpipe {

// Listed in the order of the reports.
enum class StrategyFamily {
  kDataParallel,   // every device holds the whole backbone, or a shard of it
  kPipeline,       // frozen work before the pipeline, as in the published systems
  kPartitioner,    // 1F1B over the partitions of other systems
  kZeroBubble,     // separate input-gradient and weight-gradient passes
  kBidirectional,  // two directions, two copies of the weights
  kFilling,        // frozen work in the bubbles
  kCached,         // frozen outputs read from storage
  kRelaxed,        // delayed weights: different mathematics, compared separately
};

struct NamedStrategy {
  StrategyFamily family = StrategyFamily::kPipeline;
  Strategy strategy;
  std::string summary;  // one line: the method and its origin
};

// Returns the strategy that `spec` describes. The name of a composed strategy is `spec` itself.
// Returns NotFound if the name is unknown and InvalidArgument if a key or value is unknown; the
// message lists the valid ones.
absl::StatusOr<Strategy> FindStrategy(absl::string_view spec);

// Returns all named strategies, sorted by family, then by name.
const std::vector<NamedStrategy>& NamedStrategies();
std::vector<std::string> StrategyNames();
// Returns the names of the strategies that compute the same gradients as one device: all but
// StrategyFamily::kRelaxed.
std::vector<std::string> ExactStrategyNames();

// Returns the defaults of a composition: 1F1B over the exact partition, frozen work first.
Strategy DefaultStrategy();

}  // namespace dpipe

#endif  // DPIPE_BASELINES_REGISTRY_H_
