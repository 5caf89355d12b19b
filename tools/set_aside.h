// Where a run begins, what an earlier one has left there is kept under another name.
#ifndef DPIPE_TOOLS_SET_ASIDE_H_
#define DPIPE_TOOLS_SET_ASIDE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "core/train/checkpoint_folder.h"

namespace dpipe::tools {

struct RunAside {
  std::string out;  // the --out that it is the run of now; meaningless where there was none
  std::vector<std::string> paths;  // all that it consists of; empty where there was none
  int64_t bytes = 0;
  bool has_checkpoints = false;  // so that it can go on
};

// Renames what belongs to the run whose model is in `out` so that it is the run of `out`.aside, or
// .aside2 and so on where that is taken: the model, the checkpoints, and OUT.log.jsonl and whatever
// else lies beside it. A log that lies elsewhere gets the same ending. What is known of
// the data (OUT.quarantine) stays. Nothing is removed or written over.
absl::StatusOr<RunAside> SetRunAside(const std::string& out, const std::string& log_path,
                                     CheckpointFolder* checkpoints);

// Every place that a run with its model in `out` writes to, and SetRunAside may rename, whether it
// is there or not: the model's folder, the checkpoints', and what lies beside them.
std::vector<std::string> PlacesOfRun(const std::string& out, const std::string& log_path);

// What SetRunAside would rename, by the names that it has now; empty where there is no run.
absl::StatusOr<std::vector<std::string>> PathsOfRun(const std::string& out,
                                                    const std::string& log_path,
                                                    const CheckpointFolder& checkpoints);

// For a person: where it is, how to go on with it, and how to delete it.
std::string DescribeAside(const std::string& out, const RunAside& aside);

// Of these files and all in these folders.
int64_t BytesIn(const std::vector<std::string>& paths);

}  // namespace dpipe::tools

#endif  // DPIPE_TOOLS_SET_ASIDE_H_
