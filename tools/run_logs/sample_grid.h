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
#include "data/sample_source.h"
#include "models/trainable/trainable_model.h"
#include "tools/run_logs/training_observer.h"
#include "tools/run_logs/training_progress.h"
#include "tools/training/training_options.h"

namespace dpipe::tools {

// Returns the prompts of a run's grids: the user's or, if there are none, the first 16 distinct
// captions of the data set: the first one of each of its first 1,000 samples. Fewer than 4 captions
// are repeated, to 4 images that differ by their noise.
std::vector<std::string> GridPrompts(const TrainerOptions& options, const SampleSource& data);

// Returns up to two of a grid's prompts for a command that the user may run next: the shortest that
// the model can draw and that fit one --prompt, which | divides.
std::vector<std::string> SuggestedPrompts(const models::TrainableModel& model,
                                          const models::DrawOptions& options,
                                          std::vector<std::string> prompts);

// Returns the request for a grid. If the model wants conditions, `prompts` are ignored: the grid
// uses captions and conditions of the first samples of the loader's first step, at most 16.
absl::StatusOr<models::DrawRequest> GridRequest(const models::TrainableModel& model,
                                                const std::vector<std::string>& prompts,
                                                DataLoader* loader);

// Checks before training that the model can draw the grids that the run asks for. Returns
// InvalidArgument with the wrong field of `samples`. If the wrong prompt is a caption of the data
// set, not the user's prompt, only warns through `say`, which also gets the sampler's note.
absl::Status CheckGrids(const models::TrainableModel& model, const TrainerOptions& options,
                        const std::vector<std::string>& prompts,
                        const std::function<void(const std::string& line)>& say);

// Draws the request's prompts with `weights` into FOLDER/step_000500.png, in a grid that is about
// square with each prompt below its image, and reports it to `observer`. Returns the path. Returns
// Cancelled if `task` asks to stop.
absl::StatusOr<std::string> DrawSampleGrid(const models::TrainableModel& model,
                                           const models::NamedTensors& weights,
                                           const models::DrawRequest& request,
                                           const std::vector<DeviceWorker*>& workers,
                                           const std::string& folder, int64_t step, LongTask* task,
                                           TrainingObserver* observer);

}  // namespace dpipe::tools

#endif  // DPIPE_TOOLS_RUN_LOGS_SAMPLE_GRID_H_
