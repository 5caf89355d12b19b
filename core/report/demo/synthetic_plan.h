// Plans of a made-up model, plausible enough to draw: a U-Net of 40 layers trained, with a VAE and
// a text encoder that are frozen. For tests of the pictures, and for looking at them.
#ifndef DPIPE_CORE_REPORT_DEMO_SYNTHETIC_PLAN_H_
#define DPIPE_CORE_REPORT_DEMO_SYNTHETIC_PLAN_H_

#include <string>

#include "core/base/time.h"
#include "core/proto/plan.pb.h"

namespace dpipe::report {

struct SyntheticOptions {
  // "data_parallel", "gpipe", "1f1b", or "diffusionpipe" (1F1B with the next step's frozen work in
  // its bubbles). CHECK-fails on another.
  std::string strategy = "diffusionpipe";
  int num_devices = 2;
  int num_micro_batches = 4;  // divides 32, the global batch; data_parallel has one
  int num_steps = 6;
  double jitter = 0;  // relative, of each duration
  int seed = 1;
};

// With predicted starts, durations, step time and bubble ratio.
Plan MakeSyntheticPlan(const SyntheticOptions& options);

// How long `instruction` takes without jitter.
Nanos SyntheticDuration(const Plan& plan, const Instruction& instruction);

}  // namespace dpipe::report

#endif  // DPIPE_CORE_REPORT_DEMO_SYNTHETIC_PLAN_H_
