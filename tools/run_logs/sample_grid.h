// Grids of sample images that a run draws during training.
#ifndef DPIPE_TOOLS_RUN_LOGS_SAMPLE_GRID_H_
#define DPIPE_TOOLS_RUN_LOGS_SAMPLE_GRID_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "core/tensor/device_worker.h"
#include "data/loader.h"
#include "models/trainable/trainable_model.h"
#include "tools/run_logs/training_observer.h"
#include "tools/run_logs/training_progress.h"
#include "tools/training/training_options.h"

namespace dpipe::tools {

// Returns the request for a grid of `prompts`. If there are none, or the model wants conditions,
// the grid has the captions, and conditions, of the first samples of the loader's first step, at
// most 16.
absl::StatusOr<models::DrawRequest> GridRequest(const models::TrainableModel& model,
                                                const std::vector<std::string>& prompts,
                                                DataLoader* loader);

// Checks before training that the model can draw the grids that the run asks for. Returns
// InvalidArgument with the wrong field of `samples`. If the wrong prompt is an example, not the
// user's, only warns through `say`, which also gets the sampler's note.
absl::Status CheckGrids(const models::TrainableModel& model, const TrainerOptions& options,
                        const std::function<void(const std::string& line)>& say);

// Draws the request's prompts with `weights` into FOLDER/step_000500.png, in a grid that is about
// square, row by row, and reports it to `observer`. Writes the prompts beside it, one per line, as
// step_000500.txt. Returns the picture's path. Returns Cancelled if `task` asks to stop.
absl::StatusOr<std::string> DrawSampleGrid(const models::TrainableModel& model,
                                           const models::NamedTensors& weights,
                                           const models::DrawRequest& request,
                                           const std::vector<DeviceWorker*>& workers,
                                           const std::string& folder, int64_t step, LongTask* task,
                                           TrainingObserver* observer);

}  // namespace dpipe::tools

#endif  // DPIPE_TOOLS_RUN_LOGS_SAMPLE_GRID_H_
