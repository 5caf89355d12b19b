// `train --check`: reports what a run would do, need and write, without running it.
#ifndef DPIPE_TOOLS_TRAINING_CHECK_RUN_H_
#define DPIPE_TOOLS_TRAINING_CHECK_RUN_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/base/files/write_place.h"
#include "core/base/status.h"
#include "tools/training/disk_needs.h"
#include "tools/training/training_options.h"

namespace dpipe::tools {

// Turns `options` into those of a check: nothing made from them changes a file.
void OnlyCheck(TrainerOptions* options);

// Prepares the run as Train does, as the only process or as the first of several, and passes an
// outline of it to `say`. Returns the errors that Train would return before its first step.
// `options` must have passed through OnlyCheck.
absl::Status CheckRun(const TrainerOptions& options,
                      const std::function<void(const std::string&)>& say);

// Facts about a run that has not started.
struct RunOutline {
  int64_t first_step = 0, num_steps = 0;
  bool is_estimated_length = false;  // num_steps is predicted from a time limit
  int global_batch = 0;
  double epochs = 0;                  // after all steps
  std::vector<int64_t> device_bytes;  // by rank: predicted peak memory
  DiskNeeds disk;
  WritePlace place;
  std::vector<std::string> aside;   // files of an earlier run that this one would set aside
  std::vector<std::string> writes;  // files and folders (with a trailing '/')
};

// Returns all files and folders that a run with these options may write, sorted by name.
std::vector<std::string> WrittenBy(const TrainerOptions& options);

// Returns `outline` as text for people, in lines like those that a run prints.
std::string OutlineText(const RunOutline& outline);

}  // namespace dpipe::tools

#endif  // DPIPE_TOOLS_TRAINING_CHECK_RUN_H_
