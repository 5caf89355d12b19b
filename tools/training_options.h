// What //tools:train is asked to do.
#ifndef DPIPE_TOOLS_TRAINING_OPTIONS_H_
#define DPIPE_TOOLS_TRAINING_OPTIONS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/time.h"
#include "core/proto/plan.pb.h"
#include "models/diffusion/draw_options.h"
#include "models/trainable/training_setup.h"
#include "models/weights/weights.h"

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
  std::string log_path;       // of JSON lines
  std::string command;        // for the record
};

}  // namespace dpipe::tools

#endif  // DPIPE_TOOLS_TRAINING_OPTIONS_H_
