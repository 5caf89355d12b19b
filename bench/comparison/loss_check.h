// Checks that strategies compute what one device computes: compares losses, and global gradient
// norms before clipping, on the same samples.
//
// Losses alone are not enough. Gradients of twice their size change AdamW's updates little, and not
// at all if they are clipped. Such losses differ by 1e-4 only after a dozen steps in fp32, and
// never visibly in bf16. The norm shows a wrong scale in the first step. A wrong direction shows in
// the losses of the following steps, not in the norm.
#ifndef DPIPE_BENCH_COMPARISON_LOSS_CHECK_H_
#define DPIPE_BENCH_COMPARISON_LOSS_CHECK_H_

#include <optional>
#include <vector>

#include "core/base/status.h"
#include "core/proto/profile.pb.h"
#include "core/proto/results.pb.h"
#include "core/train/job.h"

namespace dpipe::bench {

// Numbers by step.
struct StepNumbers {
  std::vector<double> losses;
  std::vector<double> gradient_norms;
};

// Returns the numbers of the job's first steps on its first worker alone, without a pipeline or
// messages. The batch is divided into `num_micro_batches`, so that sums are taken in the same order
// as in pipelines with as many. If it is 0, because each strategy has its own number, the batch is
// not divided further than a GPU's memory requires. `profile` must have the local batch.
absl::StatusOr<StepNumbers> OneDeviceSteps(const TrainingJob& job, const ModelProfile& profile,
                                           int global_batch, int num_micro_batches, int num_steps);

// Maximum differences of two numbers, relative to the larger one.
struct StepTolerance {
  double loss = 0;
  double gradient_norm = 0;
  double early_gradient_norm = 0;  // in the first kEarlySteps
};
inline constexpr int kEarlySteps = 8;

// Returns the tolerances for a data type.
//
// Strategies add gradients in different orders. The rounding differences move the weights slightly
// apart and grow with the steps. Hence the first steps, which already show a wrong scale, have a
// tighter tolerance. The maxima of all stored results (tiny_sd in fp32 on CPUs, tiny_sd and Stable
// Diffusion v2.1 in bf16 on CPUs and an H200), and what is allowed:
//
//           losses                       norms, first steps    norms
//   fp32    2.2e-7 in 60 steps: 2e-6     1.8e-5: 5e-5          1.8e-5 in 60 steps: 1e-4
//   bf16    4.4e-3 in 9 steps: 1.5e-2    2e-2: 2e-2            6.8e-2 in 50 steps: 0.2
//
// Gradients of twice their size differ by 0.5, those that lack one replica of eight by 0.125.
StepTolerance ToleranceOf(DType compute_dtype);

// Fills loss_check of every strategy that ran, and sets `invalid` to the reason if
//
//   - a number is not finite;
//   - a number differs from the reference's by more than the tolerance;
//   - in steps beyond the reference, strategies differ from each other by more than that. As it is
//     unknown which of them is right, none counts.
//
// Strategies that change the mathematics are only checked for numbers that are not finite. Returns
// the first step beyond the reference at which strategies differ, if any: a reference that includes
// that step can decide.
std::optional<int> CheckSteps(const StepNumbers& reference, const StepTolerance& tolerance,
                              google::protobuf::RepeatedPtrField<StrategyResult>* results);

}  // namespace dpipe::bench

#endif  // DPIPE_BENCH_COMPARISON_LOSS_CHECK_H_
