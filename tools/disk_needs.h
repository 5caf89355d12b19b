// The room on the disk that a training run takes, before it does.
#ifndef DPIPE_TOOLS_DISK_NEEDS_H_
#define DPIPE_TOOLS_DISK_NEEDS_H_

#include <cstdint>
#include <functional>
#include <string>

#include "core/base/status.h"
#include "core/base/write_place.h"
#include "tools/training_run.h"

namespace dpipe::tools {

// Sizes in bytes. Logs are not counted; tens of kilobytes for a thousand steps.
struct DiskNeeds {
  int64_t model_bytes = 0;  // of a model's folder, but for a few KiB: frozen components are in it
  int64_t model_files = 0;  // in it, and folders
  int num_models = 1;       // at a time: also the one that is written while another is there
  int64_t checkpoint_bytes = 0;
  int64_t num_checkpoints = 0;  // at a time, at most, likewise
  int64_t grid_bytes = 0;       // of a picture of samples, at most
  int64_t num_grids = 0;
  int64_t there_bytes = 0;  // what a run that goes on has already of all this

  int64_t total_bytes() const {
    return num_models * model_bytes + num_checkpoints * checkpoint_bytes + num_grids * grid_bytes;
  }
};

// How many checkpoints are there at a time, at most, the one that is being written included, in a
// run that goes from one step to another and finds `num_there` of them.
int64_t MostCheckpoints(const CheckpointOptions& options, int64_t first_step, int64_t num_steps,
                        int64_t num_there);

// Of a run that is put together; of several processes the first's.
DiskNeeds DiskNeedsOf(const TrainingRun& run);

// Unavailable, with both values, if the models that must be there at a time have no room in
// `place`, whatever else the run gives up: it could not be saved. If all that the run needs has
// none, `say` gets a warning. `out` is the model's folder.
absl::Status CheckDiskRoom(const DiskNeeds& needs, const WritePlace& place, const std::string& out,
                           const std::function<void(const std::string& line)>& say);

// "154.0 MiB: 2 models of 15.0 MiB, 3 checkpoints of 40.0 MiB, samples of 4.0 MiB".
std::string DescribeDiskNeeds(const DiskNeeds& needs);

}  // namespace dpipe::tools

#endif  // DPIPE_TOOLS_DISK_NEEDS_H_
