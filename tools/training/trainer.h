// Trains a model by a strategy's best plan: the work of //tools:train, without its flags.
#ifndef DPIPE_TOOLS_TRAINING_TRAINER_H_
#define DPIPE_TOOLS_TRAINING_TRAINER_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "core/base/time.h"
#include "tools/training/training_options.h"

namespace dpipe::tools {

struct TrainerResult {
  int64_t steps = 0;       // done in the whole run
  int64_t first_step = 0;  // done before this process
  int64_t num_steps = 0;   // the run's total
  int64_t images = 0;
  double loss = 0;  // running mean
  Nanos training_ns = 0;
  // Why the run ended early: "the time limit", "the file STOP", "SIGINT" or "SIGTERM to rank 2
  // (...)" (see SignalNamed); "" if all steps were done.
  std::string stopped_by;
  std::string last_samples;  // path; "" if none were drawn
  // At most two prompts to try the model with: the run's own, or captions of its data. May be
  // empty.
  std::vector<std::string> prompts;
  std::string evaluation;  // text of the last evaluation, of the saved weights if those were
                           // evaluated; "" if none
  std::string best;  // description of the model with the lowest held-out loss; "": none is kept
  std::vector<std::string> faults;  // messages about faults that the run survived; usually none
};

// Trains alone, or as the first of several processes (options.setup.processes). `say` gets
// permanent lines; progress goes to standard error. The model is saved even if a signal stops the
// run. Returns errors of the options before anything is trained, and Cancelled with a message that
// begins with the signal ("SIGINT ...") if one stops the run before its first step; nothing is
// written then.
absl::StatusOr<TrainerResult> Train(const TrainerOptions& options,
                                    const std::function<void(const std::string&)>& say);

// Trains as one of the other processes: follows the first one until that ends.
absl::Status TrainAsFollower(const TrainerOptions& options);

}  // namespace dpipe::tools

#endif  // DPIPE_TOOLS_TRAINING_TRAINER_H_
