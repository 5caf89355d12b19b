// Combines several profiles of the same model on the same devices, taken at different times.
//
// The speed of a shared host varies over time. One profile covers only its own seconds. For
// measurements that take minutes, use the median of profiles taken in between.
#ifndef DPIPE_CORE_PROFILE_MEDIAN_PROFILE_H_
#define DPIPE_CORE_PROFILE_MEDIAN_PROFILE_H_

#include <vector>

#include "core/base/status.h"
#include "core/proto/cluster.pb.h"
#include "core/proto/profile.pb.h"

namespace dpipe {

// Returns a profile in which each time is the median of the profiles' times (the lower median for
// an even number). All else is that of the first profile. InvalidArgument if there are no profiles,
// or if their models, layers or local batches differ.
absl::StatusOr<ModelProfile> MedianProfile(const std::vector<ModelProfile>& profiles);

// Returns the first cluster, with the median latencies and bandwidths of the links.
absl::StatusOr<ClusterSpec> MedianCluster(const std::vector<ClusterSpec>& clusters);

}  // namespace dpipe

#endif  // DPIPE_CORE_PROFILE_MEDIAN_PROFILE_H_
