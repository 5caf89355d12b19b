// The folder that training writes, in diffusers layout, and sampling reads.
#ifndef DPIPE_TOOLS_TRAINED_MODEL_H_
#define DPIPE_TOOLS_TRAINED_MODEL_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "core/base/status.h"
#include "models/stable_diffusion/stable_diffusion.h"
#include "models/trainable/trainable_model.h"

namespace dpipe::tools {

// How a model was trained: kept beside it as training.json, which also tells folders that may be
// written over from a user's own.
struct TrainingRecord {
  int64_t steps = 0;
  int64_t images = 0;
  double loss = 0;  // running mean
  double ema_decay = 0;
  std::string strategy;
  std::string data_folder;
  std::string command;
  double held_out_loss = 0;      // of these weights, where there is a measure
  std::string held_out_measure;  // what it is the loss of, in words; empty: it was not kept for it
};

// Steps and what is known of the held-out loss. NotFound where the folder has no record,
// InvalidArgument, naming the file, where that is damaged.
absl::StatusOr<TrainingRecord> ReadTrainingRecord(const std::string& folder);

// That `folder` may be written: it is not there yet, empty, or a run before made it.
// FailedPrecondition for others: nothing of a user's is removed.
absl::Status CheckWritable(const std::string& folder);

// That what is saved to `folder` does not replace the model in `model_folder`, which is read from
// while it is trained: neither is it that folder nor has it that folder inside, by whatever names.
// InvalidArgument with both.
absl::Status CheckKeepsModel(const std::string& folder, const std::string& model_folder);

// Writes the model next to `folder` and gives it that name when it is complete: a reader never sees
// half a model. The folder is checked as above.
absl::Status SaveTrainedModel(const models::TrainableModel& model,
                              const models::NamedTensors& parameters, models::StoredFormat format,
                              const TrainingRecord& record, const std::string& folder);

// The folder to draw with: `model` as FindModelFolder understands it; empty: `trained` if there is
// such a folder, else the built-in model.
absl::StatusOr<std::string> FolderToDrawWith(const std::string& model, const std::string& trained);

// Loads the Stable Diffusion in FolderToDrawWith. InvalidArgument if its model_index.json says that
// it is something else; of one with a ControlNet the ControlNet is left out. `say` gets the model's
// notes. NotFound, with the command that trains one, if it has no U-Net weights.
absl::StatusOr<std::unique_ptr<models::StableDiffusion>> LoadTrainedModel(
    const std::string& model, const std::string& trained,
    const std::function<void(const std::string&)>& say,
    const models::StableDiffusionOptions& options = {});

}  // namespace dpipe::tools

#endif  // DPIPE_TOOLS_TRAINED_MODEL_H_
