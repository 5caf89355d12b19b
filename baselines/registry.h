// Strategies by name, and strategies composed on the spot.
//
//   "diffusionpipe"                      one of StrategyNames()
//   "schedule=1f1b,frozen=fill"          a composition; what is not said: partitioner=balanced,
//                                        schedule=1f1b, frozen=first, sync=bucketed,
//                                        partial_batch=true, cross_iteration=true, recompute=none,
//                                        shard=none, even_samples=false, tune=false
//   "diffusionpipe,partial_batch=false"  a named one with something changed: an ablation
//
// A new strategy is one file that ends in REGISTER_STRATEGY, named in BUILD.
#ifndef DPIPE_BASELINES_REGISTRY_H_
#define DPIPE_BASELINES_REGISTRY_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/proto/plan.pb.h"

namespace dpipe {

// In the order in which reports show them.
enum class StrategyFamily {
  kDataParallel,   // every device holds the whole backbone, or a shard of it
  kPipeline,       // frozen work before the pipeline, as those systems have it
  kPartitioner,    // 1F1B over other systems' partitions
  kZeroBubble,     // input and weight gradients apart
  kBidirectional,  // two directions, weights twice
  kFilling,        // frozen work in the bubbles
  kCached,         // frozen outputs from storage
  kRelaxed,        // weights lag behind: other mathematics, compared apart
};

struct NamedStrategy {
  StrategyFamily family = StrategyFamily::kPipeline;
  Strategy strategy;
  std::string summary;  // one line: what it is, and whose
};

// The strategy `spec` stands for; the name of a composed one is `spec` itself. NotFound for an
// unknown name, InvalidArgument for an unknown key or value; each message lists the valid ones.
absl::StatusOr<Strategy> FindStrategy(absl::string_view spec);

// By family, then name.
const std::vector<NamedStrategy>& NamedStrategies();
std::vector<std::string> StrategyNames();
// Those that compute the gradients of one device: all but StrategyFamily::kRelaxed.
std::vector<std::string> ExactStrategyNames();

// What a composition starts from: 1F1B over the exact partition, frozen work first.
Strategy DefaultStrategy();

// Adds a named one; a name given twice is a bug. Returns true, so that it can initialise a
// constant.
bool RegisterStrategy(NamedStrategy strategy);

}  // namespace dpipe

#define REGISTER_STRATEGY(function) \
  static const bool dpipe_registered_##function = ::dpipe::RegisterStrategy(function())

#endif  // DPIPE_BASELINES_REGISTRY_H_
