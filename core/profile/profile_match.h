// Whether a stored profile and a stored cluster are of what is to be planned for.
#ifndef DPIPE_CORE_PROFILE_PROFILE_MATCH_H_
#define DPIPE_CORE_PROFILE_PROFILE_MATCH_H_

#include <string>
#include <vector>

#include "core/base/status.h"
#include "core/proto/cluster.pb.h"
#include "core/proto/profile.pb.h"

namespace dpipe {

// What a profile's provenance says where a backbone's local batches end before `local_batch` for
// lack of memory.
std::string LocalBatchesEndText(const std::string& component, int local_batch);

// That `stored`, which is valid (core/cost/validate.h), has the components, layers and values of
// `described` (DescribeModel), its dtype and kind of device, however many of them, its quantum
// where there are frozen components, and every one of `local_batches` of each backbone, except
// those that its devices had no memory for. Names of models do not count. FailedPrecondition names
// the first thing that is otherwise, and both values: "stored" and "here".
absl::Status CheckProfileMatches(const ModelProfile& stored, const ModelProfile& described,
                                 const std::vector<int>& local_batches);

// Checks that `stored`, which is valid, has so many devices, which are CPUs or are not (those
// compute while they communicate), and prices the collectives that the runtime has.
// FailedPrecondition with both values.
absl::Status CheckClusterMatches(const ClusterSpec& stored, int num_devices, bool on_cpus);

}  // namespace dpipe

#endif  // DPIPE_CORE_PROFILE_PROFILE_MATCH_H_
