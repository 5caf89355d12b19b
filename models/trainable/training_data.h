// The data sets of a training run, as loaders: what is trained on, and what is held out.
#ifndef DPIPE_MODELS_TRAINABLE_TRAINING_DATA_H_
#define DPIPE_MODELS_TRAINABLE_TRAINING_DATA_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "data/loader.h"
#include "data/sample_source.h"

namespace dpipe::models {

struct TrainingDataOptions {
  std::string folder;  // images with captions, or tar shards; see OpenSamples
  std::string file_column;
  std::string caption_column;
  std::optional<std::string> default_caption;  // see OpenSamplesOptions
  // Images whose shorter side has fewer pixels are left out; 0: none.
  int min_side = 0;
  bool random_flip = false;
  bool random_crop = false;
  // See DataLoaderOptions; of what is trained on.
  int max_corrupt = 100;
  double max_corrupt_share = 1.0;
  std::string quarantine_path;
  bool keeps_quarantine = true;
  // Where sizes of images are remembered (ImageSizes); empty: nowhere.
  std::string sizes_path;
  bool keeps_sizes = true;  // false: the file is read, and nothing is written into it
  // Is asked once, with what is trained on, at which step its order begins (see StepOrder). Null:
  // 0.
  std::function<absl::StatusOr<int64_t>(const SampleSource& training)> first_step_of;
  // Held out of training for evaluation: all of another data set, or, where there is none, this
  // share of the data set's files (see HoldOut). 0: nothing.
  std::string held_out_folder;
  double held_out_share = 0;
  int held_out_samples = 64;   // as many of them, or all where there are fewer
  uint64_t held_out_seed = 0;  // which of them
};

struct TrainingData {
  std::unique_ptr<DataLoader> training;
  // Null where nothing is held out. Its step 0 has every sample that is evaluated, each once, at
  // the centre, whole and not mirrored.
  std::unique_ptr<DataLoader> held_out;
  // What a person should know before training begins: see SampleSource::notes.
  std::vector<std::string> notes;
};

// `loading` is for training: its crop and flip are overwritten by the options'. Errors are those of
// OpenSamples, LeaveOutSmall, HoldOut, CheckNothingShared, options.first_step_of and DataLoader.
absl::StatusOr<TrainingData> OpenTrainingData(const TrainingDataOptions& options,
                                              DataLoaderOptions loading);

}  // namespace dpipe::models

#endif  // DPIPE_MODELS_TRAINABLE_TRAINING_DATA_H_
