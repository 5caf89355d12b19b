// One profile from several of the same model on the same devices, taken at different times.
//
// A host that others use too runs faster at one time and slower at another. A profile speaks of its
// own seconds; what is measured over minutes is spoken of by the median of profiles taken in
// between.
#ifndef DPIPE_CORE_PROFILE_MEDIAN_PROFILE_H_
#define DPIPE_CORE_PROFILE_MEDIAN_PROFILE_H_

#include <vector>

#include "core/base/status.h"
#include "core/proto/cluster.pb.h"
#include "core/proto/profile.pb.h"

namespace dpipe {

// Every time is the median of the profiles' (of an even number the lower of the two in the middle);
// all else is the first's. InvalidArgument where there is none, or where their models, layers or
// local batches differ.
absl::StatusOr<ModelProfile> MedianProfile(const std::vector<ModelProfile>& profiles);

// The median of the links' latencies and bandwidths; all else is the first's.
absl::StatusOr<ClusterSpec> MedianCluster(const std::vector<ClusterSpec>& clusters);

}  // namespace dpipe

#endif  // DPIPE_CORE_PROFILE_MEDIAN_PROFILE_H_
