// GPipe (Huang et al., NeurIPS 2019): all forwards, then all backwards, over stages of the exact
// partition. The frozen components run data-parallel before the pipeline, as systems without
// filling do; stage and micro-batch numbers by search, so that what it lacks is filling and nothing
// else.
#ifndef DPIPE_BASELINES_GPIPE_H_
#define DPIPE_BASELINES_GPIPE_H_

#include "core/proto/plan.pb.h"

namespace dpipe {

Strategy GPipe();

}  // namespace dpipe

#endif  // DPIPE_BASELINES_GPIPE_H_
