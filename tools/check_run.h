// `train --check`: what a run would do, need and write, without it.
#ifndef DPIPE_TOOLS_CHECK_RUN_H_
#define DPIPE_TOOLS_CHECK_RUN_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "core/base/write_place.h"
#include "tools/disk_needs.h"
#include "tools/training_options.h"

namespace dpipe::tools {

// From now on the options are those of a check: nothing that is made from them changes a file.
void OnlyCheck(TrainerOptions* options);

// Prepares the run as Train does, alone or as the first of several processes, and says what it
// would do. The errors are those that Train has before its first step. The options have passed
// OnlyCheck.
absl::Status CheckRun(const TrainerOptions& options,
                      const std::function<void(const std::string&)>& say);

// What there is to say about it.
struct RunOutline {
  int64_t first_step = 0, num_steps = 0;
  bool is_estimated_length = false;  // num_steps is what a time limit is predicted to give
  int global_batch = 0;
  double epochs = 0;                  // that all steps see
  std::vector<int64_t> device_bytes;  // by rank: the most that the plan takes of its memory
  DiskNeeds disk;
  WritePlace place;
  std::vector<std::string> aside;   // of an earlier run, which this one would set aside
  std::vector<std::string> writes;  // files and folders, these with a '/' at the end
};

// All files and folders that a run of these options may write, in the order of their names.
std::vector<std::string> WrittenBy(const TrainerOptions& options);

// For a person, in lines like those that a run says.
std::string OutlineText(const RunOutline& outline);

}  // namespace dpipe::tools

#endif  // DPIPE_TOOLS_CHECK_RUN_H_
