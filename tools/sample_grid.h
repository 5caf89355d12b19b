// Grids of samples that a run draws on the way, to be looked at.
#ifndef DPIPE_TOOLS_SAMPLE_GRID_H_
#define DPIPE_TOOLS_SAMPLE_GRID_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "core/tensor/device_worker.h"
#include "data/loader.h"
#include "models/trainable/trainable_model.h"
#include "tools/long_task.h"
#include "tools/training_observer.h"
#include "tools/training_options.h"

namespace dpipe::tools {

// What a grid of so many samples shows of a model that wants conditions: captions and conditions of
// the loader's first samples, as many as a step has. `prompts` are then not used.
absl::StatusOr<models::DrawRequest> GridRequest(const models::TrainableModel& model,
                                                const std::vector<std::string>& prompts,
                                                DataLoader* loader);

// Checks, before anything is trained, that the model draws such grids, if the run is to have any.
// InvalidArgument says which of the fields of `samples` is wrong with the model; a prompt that is
// none of the user's only goes to `say`, as does the sampler's note.
absl::Status CheckGrids(const models::TrainableModel& model, const TrainerOptions& options,
                        const std::function<void(const std::string& line)>& say);

// Draws the request's prompts with these weights into FOLDER/step_000500.png, about as many in a
// row as there are rows, and tells `observer`. Returns the path. Cancelled where `task` is stopped.
absl::StatusOr<std::string> DrawSampleGrid(const models::TrainableModel& model,
                                           const models::NamedTensors& weights,
                                           const models::DrawRequest& request,
                                           const std::vector<DeviceWorker*>& workers,
                                           const std::string& folder, int64_t step, LongTask* task,
                                           TrainingObserver* observer);

}  // namespace dpipe::tools

#endif  // DPIPE_TOOLS_SAMPLE_GRID_H_
