// Trains Stable Diffusion by a strategy's best plan: what //tools:train does, without its flags.
#ifndef DPIPE_TOOLS_TRAINER_H_
#define DPIPE_TOOLS_TRAINER_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "core/base/time.h"
#include "core/proto/plan.pb.h"
#include "models/stable_diffusion/sampler.h"
#include "models/stable_diffusion/training_setup.h"

namespace dpipe::tools {

struct TrainerOptions {
  // Its learning rate's total_steps is set to the number of steps.
  models::TrainingSetupOptions setup;
  Strategy strategy;
  int num_micro_batches = 0;  // of a pipeline group; 0: search
  int64_t num_steps = 0;      // 0: as many as the plan predicts for the time limit
  Nanos time_limit_ns = 0;    // of training, with its pauses; 0: none. One of the two is needed.

  std::string out;         // folder of the model
  int64_t save_every = 0;  // steps; 0: at the end only
  models::StoredFormat format = models::StoredFormat::kFp32;
  int64_t sample_every = 0;                 // steps; 0: at the end only
  std::vector<std::string> sample_prompts;  // empty: no samples
  models::DrawOptions draw;
  std::string sample_folder;  // of step_000500.png and so on
  std::string log_path;
  std::string command;  // for the record
};

struct TrainerResult {
  int64_t steps = 0;
  int64_t images = 0;
  double loss = 0;  // running mean
  Nanos training_ns = 0;
  std::string stopped_by;    // "" where all steps were done; else "the time limit", "SIGINT", ...
  std::string last_samples;  // path; "" where none were drawn
};

// `say` gets lines that stay; progress goes to standard error. Saves the model also where it is
// stopped by a signal. Errors name what is wrong; those of flags come before anything is trained.
absl::StatusOr<TrainerResult> Train(const TrainerOptions& options,
                                    const std::function<void(const std::string&)>& say);

}  // namespace dpipe::tools

#endif  // DPIPE_TOOLS_TRAINER_H_
