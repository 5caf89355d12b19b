// From a TrainConfig to what the trainer does.
#ifndef DPIPE_TOOLS_TRAIN_OPTIONS_H_
#define DPIPE_TOOLS_TRAIN_OPTIONS_H_

#include <functional>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "tools/train_config.pb.h"
#include "tools/training_options.h"

namespace dpipe::tools {

struct TrainCommand {
  TrainConfig config;
  bool help = false;          // --help
  bool print_config = false;  // --print_config: says the whole config and ends
  bool check = false;         // --check: does what a run does before its first step, and ends
};

// A command line without the program's name. --config=FILE is read first, wherever it is; flags
// then overwrite its fields, in order. Errors end the program with 2; see MergeConfigText and
// ApplyConfigFlag.
absl::StatusOr<TrainCommand> ParseTrainCommand(const std::vector<std::string>& arguments);

// Everything that can be said about the config's values without looking at the model or the data.
absl::Status CheckTrainConfig(const TrainConfig& config);

// Finds model and data, makes the built-in data set if that is asked for (`say` is told), and
// resolves names. The config has passed CheckTrainConfig.
absl::StatusOr<TrainerOptions> OptionsOf(const TrainConfig& config,
                                         const std::function<void(const std::string&)>& say);

}  // namespace dpipe::tools

#endif  // DPIPE_TOOLS_TRAIN_OPTIONS_H_
