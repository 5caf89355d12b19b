// Plausible plans of an invented model: a U-Net of 40 trained layers with a frozen VAE and a frozen
// text encoder. For tests of the pictures and for viewing them.
#ifndef DPIPE_CORE_REPORT_TESTING_SYNTHETIC_PLAN_H_
#define DPIPE_CORE_REPORT_TESTING_SYNTHETIC_PLAN_H_

#include <string>

#include "core/base/time.h"
#include "core/proto/plan.pb.h"

namespace dpipe::report {

struct SyntheticOptions {
  // "data_parallel", "gpipe", "1f1b", or "diffusionpipe" (1F1B with the next step's frozen work in
  // its bubbles). Others fail a CHECK.
  std::string strategy = "diffusionpipe";
  int num_devices = 2;
  int num_micro_batches = 4;  // must divide 32, the global batch; data_parallel uses one
  int num_steps = 6;
  double jitter = 0;  // relative, per duration
  int seed = 1;
};

// Returns a plan with predicted starts, durations, step time and bubble ratio.
Plan MakeSyntheticPlan(const SyntheticOptions& options);

// Returns the duration of `instruction` without jitter.
Nanos SyntheticDuration(const Plan& plan, const Instruction& instruction);

}  // namespace dpipe::report

#endif  // DPIPE_CORE_REPORT_TESTING_SYNTHETIC_PLAN_H_
