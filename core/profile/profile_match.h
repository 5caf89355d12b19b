// Checks that a stored profile and a stored cluster describe the model and devices to be planned
// for.
#ifndef DPIPE_CORE_PROFILE_PROFILE_MATCH_H_
#define DPIPE_CORE_PROFILE_PROFILE_MATCH_H_

#include <string>
#include <vector>

#include "core/base/status.h"
#include "core/proto/cluster.pb.h"
#include "core/proto/profile.pb.h"

namespace dpipe {

// Returns the note in a profile's provenance that a backbone's local batches end before
// `local_batch` for lack of memory.
std::string LocalBatchesEndText(const std::string& component, int local_batch);

// Checks that `stored` matches `described` (from DescribeModel) and `local_batches`. `stored` must
// be valid (core/cost/validate.h). It must have:
// - the same components, layers, values and dtype
// - the same kind of device, in any number
// - the same quantum, if there are frozen components
// - each of `local_batches` for each backbone, except those that its devices had no memory for
//
// Names of models do not count. FailedPrecondition names the first difference and both values,
// "stored" and "here".
absl::Status CheckProfileMatches(const ModelProfile& stored, const ModelProfile& described,
                                 const std::vector<int>& local_batches);

// Checks that `stored`, which must be valid, has `num_devices` devices of the right kind (CPUs
// compute while they communicate), and that it prices the collectives of the runtime.
// FailedPrecondition names both values.
absl::Status CheckClusterMatches(const ClusterSpec& stored, int num_devices, bool on_cpus);

}  // namespace dpipe

#endif  // DPIPE_CORE_PROFILE_PROFILE_MATCH_H_
