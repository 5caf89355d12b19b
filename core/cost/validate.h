// Whether a profile, or a cluster, makes sense before anything is planned from it.
#ifndef DPIPE_CORE_COST_VALIDATE_H_
#define DPIPE_CORE_COST_VALIDATE_H_

#include <vector>

#include "core/base/status.h"
#include "core/proto/cluster.pb.h"
#include "core/proto/profile.pb.h"

namespace dpipe {

// InvalidArgument with component, layer or value, field and both values if: there is not exactly
// one backbone; names repeat; a component has no layer; a layer has no kind, no timing, timings
// that do not increase in batch, or anything negative; a value's producer or a consumer is no layer
// after it; a source is missing, is not an output, is the backbone's, or closes a cycle.
absl::Status ValidateProfile(const ModelProfile& profile);

// InvalidArgument if there is no device, a link that two devices would use has no bandwidth, or
// anything is negative.
absl::Status ValidateCluster(const ClusterSpec& cluster);

// The frozen components of a valid profile, each after those it reads from; ties by index. Shorter
// than their number if they form a cycle.
std::vector<int> FrozenOrder(const ModelProfile& profile);

// The index of a component by name, -1 if there is none.
int ComponentIndex(const ModelProfile& profile, const std::string& name);

}  // namespace dpipe

#endif  // DPIPE_CORE_COST_VALIDATE_H_
