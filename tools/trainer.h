// Trains a model by a strategy's best plan: what //tools:train does, without its flags.
#ifndef DPIPE_TOOLS_TRAINER_H_
#define DPIPE_TOOLS_TRAINER_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "core/base/time.h"
#include "tools/training_options.h"

namespace dpipe::tools {

struct TrainerResult {
  int64_t steps = 0;       // of the whole run
  int64_t first_step = 0;  // those of processes before
  int64_t num_steps = 0;   // when it is to end
  int64_t images = 0;
  double loss = 0;  // running mean
  Nanos training_ns = 0;
  // "" where all was done; else "the time limit", "the file STOP", "SIGINT",
  // "SIGTERM to rank 2 (...)": see SignalNamed.
  std::string stopped_by;
  std::string last_samples;  // path; "" where none were drawn
  std::string evaluation;    // the last one in words, of the weights that are saved if they were
                             // evaluated; "" where there was none
  std::string best;          // the model with the lowest held-out loss, in words; "": none is kept
  std::vector<std::string> faults;  // lines about what went wrong and was got over; mostly none
};

// Trains alone, or as the first of several processes (options.setup.processes). `say` gets lines
// that stay; progress goes to standard error. Saves the model also where it is
// stopped by a signal. Errors name what is wrong; those of flags come before anything is trained.
absl::StatusOr<TrainerResult> Train(const TrainerOptions& options,
                                    const std::function<void(const std::string&)>& say);

// Trains as another one of several processes, as the first one leads, until that ends.
absl::Status FollowTraining(const TrainerOptions& options);

}  // namespace dpipe::tools

#endif  // DPIPE_TOOLS_TRAINER_H_
