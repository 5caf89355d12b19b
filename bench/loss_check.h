// Whether strategies computed what one device computes: their losses on the same samples.
#ifndef DPIPE_BENCH_LOSS_CHECK_H_
#define DPIPE_BENCH_LOSS_CHECK_H_

#include <vector>

#include "core/base/status.h"
#include "core/proto/profile.pb.h"
#include "core/report/results.h"
#include "core/train/job.h"

namespace dpipe::bench {

// The losses of the job's first steps on its first worker alone: no pipeline, no message, gradients
// of the whole batch at once, or of as many of its samples as a GPU's memory holds. `profile` has
// the batch that is taken, or smaller ones, among its local ones.
absl::StatusOr<std::vector<double>> OneDeviceLosses(const TrainingJob& job,
                                                    const ModelProfile& profile, int global_batch,
                                                    int num_steps);

// How far losses may be apart, relative to the reference: strategies add gradients in different
// orders, and what is left of that grows with the steps. 75 steps of tiny_sd in fp32 were 1.6e-7
// apart at most; wrong gradients are 1e-3 and more after a few.
double LossTolerance(DType compute_dtype);

// Fills loss_check of every strategy that ran, and says in `invalid` what is wrong: a loss that is
// not finite, or further from the reference's than the tolerance. Steps that the reference does not
// have are compared with the first strategy that passed; an empty reference checks those alone.
void CheckLosses(const std::vector<double>& reference, double tolerance,
                 std::vector<report::StrategyResult>* results);

}  // namespace dpipe::bench

#endif  // DPIPE_BENCH_LOSS_CHECK_H_
