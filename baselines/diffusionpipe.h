// DiffusionPipe (Tian et al., MLSys 2024, arXiv 2405.01248): 1F1B over the exact partition, with
// the frozen components' work for the next step placed in the bubbles of this one. [algorithms.md
// §4] Beyond the paper: samples go to devices unevenly, as their bubbles and stages allow.
#ifndef DPIPE_BASELINES_DIFFUSIONPIPE_H_
#define DPIPE_BASELINES_DIFFUSIONPIPE_H_

#include "core/proto/plan.pb.h"

namespace dpipe {

Strategy DiffusionPipe();

}  // namespace dpipe

#endif  // DPIPE_BASELINES_DIFFUSIONPIPE_H_
