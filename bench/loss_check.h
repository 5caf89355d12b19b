// Whether strategies computed what one device computes: their losses, and their gradients' global
// norms before clipping, on the same samples.
//
// Losses alone are not enough. Gradients of twice their size change AdamW's updates little, and
// clipped ones not at all: such losses part by 1e-4 only after a dozen steps of fp32, and of bf16
// never visibly. The norm shows a wrong scale in the first step. A wrong direction it does not
// show; the losses of the steps that follow do.
#ifndef DPIPE_BENCH_LOSS_CHECK_H_
#define DPIPE_BENCH_LOSS_CHECK_H_

#include <optional>
#include <vector>

#include "core/base/status.h"
#include "core/proto/profile.pb.h"
#include "core/report/results.h"
#include "core/train/job.h"

namespace dpipe::bench {

// By step.
struct StepNumbers {
  std::vector<double> losses;
  std::vector<double> gradient_norms;
};

// The numbers of the job's first steps on its first worker alone: no pipeline, no message. The
// batch comes in as many micro-batches, so that sums are taken in the order of pipelines that have
// those; with 0, when strategies have their own, all at once, or in as many as a GPU's memory
// wants. `profile` has the local batch that is taken among its own.
absl::StatusOr<StepNumbers> OneDeviceSteps(const TrainingJob& job, const ModelProfile& profile,
                                           int global_batch, int num_micro_batches, int num_steps);

// How far two may be apart, relative to the larger one.
struct StepTolerance {
  double loss = 0;
  double gradient_norm = 0;
  double early_gradient_norm = 0;  // of the first kEarlySteps
};
inline constexpr int kEarlySteps = 8;

// Strategies add gradients in different orders; what that leaves moves the weights a little apart,
// and then grows with the steps. So the first steps, in which a wrong scale shows already, are held
// to more. What was measured, of tiny_sd on 2 CPU devices, and what is allowed:
//           losses                      norms, first steps    norms
//   fp32    1.6e-7 in 75 steps: 1e-4    6e-7: 1e-3            6e-7 in 15 steps: 1e-3
//   bf16    1.5e-3 in 50 steps: 2e-2    1.4e-3: 2e-2          6.8e-2 in 50 steps: 0.2
// Gradients of twice their size are 0.5 apart, those that lack one replica of eight 0.125.
StepTolerance ToleranceOf(DType compute_dtype);

// Fills loss_check of every strategy that ran, and says in `invalid` what is wrong:
//   - a number that is not finite;
//   - one further from the reference's than the tolerance;
//   - of steps that the reference does not have: that strategies differ by more from each other.
//     Nothing says which of them is right then, so none counts.
// Strategies that change the mathematics are looked at for what is not finite only. Returns the
// first step at which strategies differ that the reference leaves open: it is too short by that
// one, if any.
std::optional<int> CheckSteps(const StepNumbers& reference, const StepTolerance& tolerance,
                              std::vector<report::StrategyResult>* results);

}  // namespace dpipe::bench

#endif  // DPIPE_BENCH_LOSS_CHECK_H_
