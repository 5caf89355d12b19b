// Predicts how much disk space a training run takes.
#ifndef DPIPE_TOOLS_TRAINING_DISK_NEEDS_H_
#define DPIPE_TOOLS_TRAINING_DISK_NEEDS_H_

#include <cstdint>
#include <functional>
#include <string>

#include "core/base/files/write_place.h"
#include "core/base/status.h"
#include "tools/training/training_run.h"

namespace dpipe::tools {

// Sizes in bytes. Excludes logs, which take tens of kilobytes per thousand steps.
struct DiskNeeds {
  int64_t model_bytes = 0;  // of a model folder with frozen components, to within a few KiB
  int64_t model_files = 0;  // files and folders in it
  int num_models = 1;       // maximum at a time, including one that is being written
  int64_t checkpoint_bytes = 0;
  int64_t num_checkpoints = 0;  // maximum at a time, including one that is being written
  int64_t grid_bytes = 0;       // maximum size of one grid of samples
  int64_t num_grids = 0;
  int64_t existing_bytes = 0;  // already on disk, if the run resumes

  int64_t total_bytes() const {
    return num_models * model_bytes + num_checkpoints * checkpoint_bytes + num_grids * grid_bytes;
  }
};

// Returns the maximum number of checkpoints on disk at a time, including the one being written, for
// a run from `first_step` to `num_steps` that starts with `num_existing` checkpoints.
int64_t MaxCheckpoints(const CheckpointOptions& options, int64_t first_step, int64_t num_steps,
                       int64_t num_existing);

// Returns the needs of a prepared run; of several processes, those of process 0.
DiskNeeds DiskNeedsOf(const TrainingRun& run);

// Returns Unavailable, with both values, if `place` has no room for the models that must exist at
// the same time, so that the run could not be saved. If only the run's total does not fit, passes a
// warning to `say`. `out` is the model's folder.
absl::Status CheckDiskRoom(const DiskNeeds& needs, const WritePlace& place, const std::string& out,
                           const std::function<void(const std::string& line)>& say);

// Returns text such as
// "154.0 MiB: 2 models of 15.0 MiB, 3 checkpoints of 40.0 MiB, samples of 4.0 MiB".
std::string DescribeDiskNeeds(const DiskNeeds& needs);

}  // namespace dpipe::tools

#endif  // DPIPE_TOOLS_TRAINING_DISK_NEEDS_H_
