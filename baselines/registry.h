// Strategies by name, and strategies composed on the spot.
//
//   "diffusionpipe"                      one of StrategyNames()
//   "schedule=1f1b,frozen=fill"          a composition; what is not said: partitioner=balanced,
//                                        schedule=1f1b, frozen=first, sync=bucketed,
//                                        partial_batch=true, cross_iteration=true
//   "diffusionpipe,partial_batch=false"  a named one with something changed: an ablation
#ifndef DPIPE_BASELINES_REGISTRY_H_
#define DPIPE_BASELINES_REGISTRY_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/proto/plan.pb.h"

namespace dpipe {

// The strategy `spec` stands for; the name of a composed one is `spec` itself. NotFound for an
// unknown name, InvalidArgument for an unknown key or value; each message lists the valid ones.
absl::StatusOr<Strategy> FindStrategy(absl::string_view spec);

// The named strategies, in the order in which reports show them.
std::vector<std::string> StrategyNames();

}  // namespace dpipe

#endif  // DPIPE_BASELINES_REGISTRY_H_
