// Data parallelism, as DistributedDataParallel does it: every device holds the whole model, runs
// the frozen components and the backbone on its share of the batch, and sums gradients in buckets
// that overlap the backward pass. Number of micro-batches (gradient accumulation) by search.
#ifndef DPIPE_BASELINES_DATA_PARALLEL_H_
#define DPIPE_BASELINES_DATA_PARALLEL_H_

#include "core/proto/plan.pb.h"

namespace dpipe {

Strategy DataParallel();

}  // namespace dpipe

#endif  // DPIPE_BASELINES_DATA_PARALLEL_H_
