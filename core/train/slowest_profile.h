// What to plan with where several processes have profiled a model, each on its own devices.
#ifndef DPIPE_CORE_TRAIN_SLOWEST_PROFILE_H_
#define DPIPE_CORE_TRAIN_SLOWEST_PROFILE_H_

#include "core/base/status.h"
#include "core/comm/rendezvous/process_group.h"
#include "core/proto/profile.pb.h"

namespace dpipe {

// The profile, of those that the processes bring, whose layers take the longest in all: a step is
// as slow as its slowest device. Every process calls this and gets the same one.
absl::StatusOr<ModelProfile> SlowestProfile(ProcessGroup* processes, ModelProfile own);

}  // namespace dpipe

#endif  // DPIPE_CORE_TRAIN_SLOWEST_PROFILE_H_
