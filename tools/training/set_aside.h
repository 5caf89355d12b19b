// Keeps the files of an earlier run under another name when a new run starts in its place.
#ifndef DPIPE_TOOLS_TRAINING_SET_ASIDE_H_
#define DPIPE_TOOLS_TRAINING_SET_ASIDE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "core/train/checkpoint/checkpoint_folder.h"

namespace dpipe::tools {

struct RunAside {
  std::string out;  // the --out that it has been renamed to; meaningless if there was no run
  // That folder, and a log or checkpoints elsewhere; empty if there was no run.
  std::vector<std::string> paths;
  int64_t bytes = 0;
  bool has_checkpoints = false;  // the run can be resumed
};

// Moves what the run in `out` has written to `out`.aside, or to .aside2, .aside3, ... if that name
// is taken: the model, the checkpoints, the log and so on. A log elsewhere gets the same suffix.
// Facts about the data (quarantine.jsonl, image_sizes) and files of the user stay. Nothing is
// removed or overwritten.
absl::StatusOr<RunAside> SetRunAside(const std::string& out, const std::string& log_path,
                                     CheckpointFolder* checkpoints);

// Returns every path that a run in `out` writes to and that SetRunAside may rename, existing or
// not.
std::vector<std::string> PlacesOfRun(const std::string& out, const std::string& log_path);

// Returns the run's folder, and its log if that is elsewhere; empty if there is no run.
absl::StatusOr<std::vector<std::string>> PathsOfRun(const std::string& out,
                                                    const std::string& log_path,
                                                    const CheckpointFolder& checkpoints);

// Returns a message about its new location, and the commands to resume and to delete it.
std::string DescribeAside(const std::string& out, const RunAside& aside);

// Returns the total size of these files and of all files in these folders.
int64_t BytesIn(const std::vector<std::string>& paths);

}  // namespace dpipe::tools

#endif  // DPIPE_TOOLS_TRAINING_SET_ASIDE_H_
