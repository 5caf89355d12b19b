// The data sets of a training run, as loaders: training and held-out data.
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
  // Leaves out images whose shorter side has fewer pixels; 0 keeps all.
  int min_side = 0;
  bool random_flip = false;
  bool random_crop = false;
  // For the training data; see DataLoaderOptions.
  int max_corrupt = 100;
  double max_corrupt_share = 1.0;
  std::string quarantine_path;
  bool keeps_quarantine = true;
  // File that stores sizes of images (ImageSizes); empty for none.
  std::string sizes_path;
  bool keeps_sizes = true;  // false: the file is read but not written
  // Called once, with the training data; returns the step at which its order begins (see
  // StepOrder). Null means step 0.
  std::function<absl::StatusOr<int64_t>(const SampleSource& training)> first_step_of;
  // Data held out for evaluation: all of another data set or, if there is none, this share of the
  // data set's files (see HoldOut). 0 holds out nothing.
  std::string held_out_folder;
  double held_out_share = 0;
  int held_out_samples = 64;   // number of them that are evaluated, or all if there are fewer
  uint64_t held_out_seed = 0;  // selects them
};

struct TrainingData {
  std::unique_ptr<DataLoader> training;
  // Null if nothing is held out. Its step 0 has every evaluated sample once, cropped at the centre
  // and not mirrored.
  std::unique_ptr<DataLoader> held_out;
  // Sentences for the user before training begins: see SampleSource::notes.
  std::vector<std::string> notes;
};

// `loading` is for training; its crop and flip are overwritten by those of `options`. Errors are
// those of OpenSamples, FilterSmallImages, HoldOut, CheckNothingShared, options.first_step_of and
// DataLoader.
absl::StatusOr<TrainingData> OpenTrainingData(const TrainingDataOptions& options,
                                              DataLoaderOptions loading);

}  // namespace dpipe::models

#endif  // DPIPE_MODELS_TRAINABLE_TRAINING_DATA_H_
