// Model folders in diffusers layout, written by training and read by sampling.
#ifndef DPIPE_TOOLS_TRAINING_TRAINED_MODEL_H_
#define DPIPE_TOOLS_TRAINING_TRAINED_MODEL_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "core/base/status.h"
#include "models/folder/load_options.h"
#include "models/latent/trainable.h"
#include "models/trainable/trainable_model.h"

namespace dpipe::tools {

// The record of how a model was trained, stored beside it as training.json. The file also marks the
// folder as made by training, so that it may be overwritten; a user's own folder has none.
struct TrainingRecord {
  int64_t steps = 0;
  int64_t images = 0;
  double loss = 0;  // running mean
  double ema_decay = 0;
  std::string strategy;
  std::string data_folder;
  std::string command;
  double held_out_loss = 0;      // of these weights, if there is a measure
  std::string held_out_measure;  // how the loss is measured, in words; empty: not a best model
};

// Reads the steps, and the held-out loss if there is one. Returns NotFound if the folder has no
// record, and InvalidArgument, naming the file, if the record is damaged.
absl::StatusOr<TrainingRecord> ReadTrainingRecord(const std::string& folder);

// Checks that `folder` may be written: it does not exist, is empty, or was made by training.
// Returns FailedPrecondition otherwise, because a user's files are never removed.
absl::Status CheckWritable(const std::string& folder);

// Checks that saving to `folder` does not replace the model in `model_folder`, which training reads
// from. Returns InvalidArgument, naming both, if `folder` is `model_folder` or contains it, under
// any name.
absl::Status CheckDoesNotReplaceModel(const std::string& folder, const std::string& model_folder);

// Writes the model beside `folder` and renames it when it is complete, so that readers never see
// half a model. Returns CheckWritable's error if `folder` must not be written.
absl::Status SaveTrainedModel(const models::TrainableModel& model,
                              const nn::ParameterSource& parameters, models::StoredFormat format,
                              const TrainingRecord& record, const std::string& folder);

// Returns the folder to draw with: `model`, resolved by FindModelFolder; if `model` is empty,
// the model of the run in `trained` if there is one, and otherwise the built-in model.
absl::StatusOr<std::string> SamplingFolder(const std::string& model, const std::string& trained);

// Loads the latent pipeline in SamplingFolder, without its ControlNet if it has one, and
// passes the model's notes to `say`. Returns InvalidArgument if its model_index.json names another
// class. Returns NotFound, with a command that trains one, if the denoiser has no weights.
absl::StatusOr<std::unique_ptr<models::TrainableLatentModel>> LoadTrainedModel(
    const std::string& model, const std::string& trained,
    const std::function<void(const std::string&)>& say,
    const models::LoadModelOptions& options = {});

}  // namespace dpipe::tools

#endif  // DPIPE_TOOLS_TRAINING_TRAINED_MODEL_H_
