// Chooses a profile for planning when several processes have profiled a model on their own devices.
#ifndef DPIPE_CORE_TRAIN_SLOWEST_PROFILE_H_
#define DPIPE_CORE_TRAIN_SLOWEST_PROFILE_H_

#include "core/base/status.h"
#include "core/comm/rendezvous/process_group.h"
#include "core/proto/profile.pb.h"

namespace dpipe {

// Returns the profile, among those of all processes, with the largest total layer time: a step is
// as slow as its slowest device. Every process calls this and gets the same one.
absl::StatusOr<ModelProfile> SlowestProfile(ProcessGroup* processes, ModelProfile own);

}  // namespace dpipe

#endif  // DPIPE_CORE_TRAIN_SLOWEST_PROFILE_H_
