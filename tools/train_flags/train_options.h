// Converts a TrainConfig into the trainer's options.
#ifndef DPIPE_TOOLS_TRAIN_FLAGS_TRAIN_OPTIONS_H_
#define DPIPE_TOOLS_TRAIN_FLAGS_TRAIN_OPTIONS_H_

#include <functional>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "tools/train_config.pb.h"
#include "tools/training/training_options.h"

namespace dpipe::tools {

struct TrainCommand {
  TrainConfig config;
  bool help = false;          // --help
  bool print_config = false;  // --print_config: prints the whole config and exits
  bool check = false;         // --check: does everything before the first step, and exits
};

// Parses a command line without the program's name. Reads --config=FILE first, wherever it is;
// flags then overwrite its fields, in order. For errors, with which the program exits with 2, see
// MergeConfigText and ApplyConfigFlag.
absl::StatusOr<TrainCommand> ParseTrainCommand(const std::vector<std::string>& arguments);

// Checks everything about the config's values that needs neither the model nor the data.
absl::Status CheckTrainConfig(const TrainConfig& config);

// Finds the model and the data, generates the built-in data set if that is asked for (and says so),
// and resolves names. The config must have passed CheckTrainConfig.
absl::StatusOr<TrainerOptions> OptionsOf(const TrainConfig& config,
                                         const std::function<void(const std::string&)>& say);

}  // namespace dpipe::tools

#endif  // DPIPE_TOOLS_TRAIN_FLAGS_TRAIN_OPTIONS_H_
