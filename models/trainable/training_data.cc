#include "models/trainable/training_data.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/count.h"
#include "data/open_samples.h"
#include "data/order/held_out.h"
#include "data/order/image_sizes.h"
#include "data/order/small_images.h"

namespace dpipe::models {
namespace {

absl::StatusOr<std::unique_ptr<DataLoader>> HeldOutLoader(std::unique_ptr<SampleSource> source,
                                                          const TrainingDataOptions& options,
                                                          DataLoaderOptions loading) {
  loading.random_crop = loading.random_flip = false;
  loading.buckets.clear();  // the only step has one size
  loading.patches.clear();
  loading.seed = options.held_out_seed;
  loading.first_step = 0;
  loading.global_batch = std::min<int32_t>(source->size(), options.held_out_samples);
  // Everything is read in one step, so nothing is prefetched.
  loading.prefetch_steps = loading.prefetch_threads = 0;
  return DataLoader::Create(std::move(source), loading);
}

// Opens a data set without images that are too small, and adds notes about it.
absl::StatusOr<std::unique_ptr<SampleSource>> OpenFiltered(const std::string& where,
                                                           const TrainingDataOptions& options,
                                                           ImageSizes* sizes,
                                                           std::vector<std::string>* notes) {
  OpenSamplesOptions opening;
  opening.file_column = options.file_column;
  opening.caption_column = options.caption_column;
  opening.default_caption = options.default_caption;
  DPIPE_ASSIGN_OR_RETURN(std::unique_ptr<SampleSource> source, OpenSamples(where, opening));
  for (const std::string& note : source->notes()) {
    notes->push_back(absl::StrCat(source->name(), ": ", note));
  }
  if (options.min_side == 0) return source;
  DPIPE_ASSIGN_OR_RETURN(FilteredSource filtered,
                         FilterSmallImages(std::move(source), options.min_side, sizes));
  if (!filtered.note.empty()) notes->push_back(std::move(filtered.note));
  return std::move(filtered.source);
}

}  // namespace

absl::StatusOr<TrainingData> OpenTrainingData(const TrainingDataOptions& options,
                                              DataLoaderOptions loading) {
  loading.random_crop = options.random_crop;
  loading.random_flip = options.random_flip;
  loading.max_corrupt = options.max_corrupt;
  loading.max_corrupt_share = options.max_corrupt_share;
  ImageSizes sizes(options.sizes_path);
  TrainingData data;
  DPIPE_ASSIGN_OR_RETURN(std::unique_ptr<SampleSource> training,
                         OpenFiltered(options.folder, options, &sizes, &data.notes));
  std::unique_ptr<SampleSource> held_out;
  if (!options.held_out_folder.empty()) {
    DPIPE_ASSIGN_OR_RETURN(held_out,
                           OpenFiltered(options.held_out_folder, options, &sizes, &data.notes));
    DPIPE_RETURN_IF_ERROR(CheckNothingShared(*training, *held_out));
  } else if (options.held_out_share != 0) {
    DPIPE_ASSIGN_OR_RETURN(DividedSource divided,
                           HoldOut(std::move(training), options.held_out_share));
    training = std::move(divided.training);
    held_out = std::move(divided.held_out);
  }
  if (training->size() < loading.global_batch) {
    data.notes.push_back(absl::StrCat(training->size() == 1 ? "there is " : "there are ",
                                      Count(training->size(), "image"), " for a global batch of ",
                                      loading.global_batch, ": images repeat within every step"));
  }
  if (options.first_step_of) {
    DPIPE_ASSIGN_OR_RETURN(loading.first_step, options.first_step_of(*training));
  }
  DataLoaderOptions training_loading = loading;
  training_loading.sizes = &sizes;
  training_loading.quarantine_path = options.quarantine_path;
  training_loading.keeps_quarantine = options.keeps_quarantine;
  DPIPE_ASSIGN_OR_RETURN(data.training, DataLoader::Create(std::move(training), training_loading));
  const absl::Status saved = options.keeps_sizes ? sizes.Save() : absl::OkStatus();
  if (!saved.ok()) {
    data.notes.push_back(absl::StrCat("image sizes are not saved: ", saved.message()));
  }
  if (held_out != nullptr) {
    DPIPE_ASSIGN_OR_RETURN(data.held_out, HeldOutLoader(std::move(held_out), options, loading));
  }
  return data;
}

}  // namespace dpipe::models
