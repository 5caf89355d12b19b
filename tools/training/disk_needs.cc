#include "tools/training/disk_needs.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/bytes.h"
#include "core/base/count.h"
#include "models/folder/model_index.h"
#include "models/folder/pipeline_folder.h"
#include "models/latent/trainable.h"
#include "tools/training/set_aside.h"

namespace dpipe::tools {
namespace {

int64_t StoredSize(models::StoredFormat format) {
  return format == models::StoredFormat::kFp32 ? 4 : 2;
}

// Counts the parameters of all backbones, or of all frozen components.
int64_t ParameterCount(const nn::Model& model, bool of_backbones) {
  int64_t count = 0;
  for (int i = 0; i < model.num_components(); ++i) {
    const nn::Component& component = model.component(i);
    if (component.is_backbone != of_backbones) continue;
    const nn::Program& program = component.program;
    count += of_backbones ? program.TrainableParameterCount(program.all_layers())
                          : program.ParameterCount(program.all_layers());
  }
  return count;
}

// Returns the size of the components that are copied from the model's folder unchanged: `names` and
// those in its index.
models::ComponentSize CopiedSize(const std::string& model_folder, const nn::Model& model,
                                 std::set<std::string> names, bool adapts) {
  const auto index = models::ReadModelIndex(model_folder);
  if (index.ok()) names.insert(index->components.begin(), index->components.end());
  for (int i : model.backbones()) {
    if (!adapts) names.erase(model.component(i).name);
  }
  models::ComponentSize all;
  for (const std::string& name : names) {
    const auto size =
        models::SizeOfCopy(absl::StrCat(model_folder, "/", name), /*with_weights=*/true);
    if (!size.ok()) continue;  // the component does not exist
    all.bytes += size->bytes;
    all.num_files += size->num_files + 1;
  }
  return all;
}

void SetModel(const TrainingRun& run, DiskNeeds* needs) {
  // The index, training.json, the file and folder of the trained component, and temporary ones.
  constexpr int kOwnFiles = 8;
  const TrainerOptions& options = run.options();
  const nn::Model& model = run.setup().model().model();
  const auto* latent = dynamic_cast<const models::TrainableLatentModel*>(&run.setup().model());
  const std::set<std::string> read =
      latent == nullptr ? std::set<std::string>() : latent->pipeline().read_components();
  const int64_t size = StoredSize(options.format);
  const bool adapts = options.setup.model.lora.rank > 0;
  const models::ComponentSize copied = CopiedSize(options.setup.model_folder, model, read, adapts);
  needs->model_bytes = ParameterCount(model, /*of_backbones=*/true) * size + copied.bytes;
  needs->model_files = copied.num_files + kOwnFiles;
  // If the folder has configurations only, the frozen weights are random and are written, too.
  if (latent != nullptr && latent->pipeline().frozen_is_random()) {
    needs->model_bytes += ParameterCount(model, /*of_backbones=*/false) * size;
  }
  const int kept = options.keep_best ? 2 : 1;
  const bool is_saved_again =
      (options.save_every > 0 && options.save_every < run.num_steps()) ||
      (options.keep_best && options.evaluate_every > 0 && options.evaluate_every < run.num_steps());
  needs->num_models = kept + (is_saved_again || run.resumed() != nullptr ? 1 : 0);
}

void SetCheckpoints(const TrainingRun& run, DiskNeeds* needs) {
  const double per_parameter = sizeof(float) + OptimizerBytesPerParameter(run.job().optimizer);
  needs->checkpoint_bytes = static_cast<int64_t>(
      per_parameter * ParameterCount(run.setup().model().model(), /*of_backbones=*/true));
  int64_t num_existing = 0;
  if (run.checkpoints().resumes_here()) {
    const auto steps = run.checkpoints().folder()->Steps();
    if (steps.ok()) num_existing = steps->size();
  }
  needs->num_checkpoints =
      MaxCheckpoints(run.options().checkpoints, run.first_step(), run.num_steps(), num_existing);
}

// An upper bound: enlarged pictures, whose neighbouring pixels are equal, compress well, but noise
// does not.
void SetSamples(const TrainingRun& run, DiskNeeds* needs) {
  const TrainerOptions& options = run.options();
  const int64_t side = run.setup().model().image_size();
  const int64_t num_images = std::max<int64_t>(16, options.sample_prompts.size());
  needs->grid_bytes = num_images * side * side * 3;
  if (options.sample_every > 0) needs->num_grids = run.num_steps() / options.sample_every;
  if (options.sample_at_end && options.sample_every == 0) needs->num_grids = 1;
  // Event files hold a second copy.
  if (!options.tensorboard_folder.empty()) needs->num_grids *= 2;
}

}  // namespace

int64_t MaxCheckpoints(const CheckpointOptions& options, int64_t first_step, int64_t num_steps,
                       int64_t num_existing) {
  // The last step is always saved.
  int64_t all = num_existing + 1;
  int64_t for_ever = 0;
  if (options.every > 0) {
    all =
        num_existing + (num_steps + options.every - 1) / options.every - first_step / options.every;
    if (options.retention.keep_every > 0) {
      for_ever = num_steps / std::lcm(options.every, options.retention.keep_every);
    }
  }
  return std::min(all, for_ever + options.retention.keep_last + 1);
}

DiskNeeds DiskNeedsOf(const TrainingRun& run) {
  DiskNeeds needs;
  SetModel(run, &needs);
  SetCheckpoints(run, &needs);
  SetSamples(run, &needs);
  const TrainerOptions& options = run.options();
  // Left over by a run that was killed.
  std::vector<std::string> there = {options.model_out + ".partial", options.best_out + ".partial"};
  if (run.checkpoints().resumes_here()) {
    there.insert(there.end(), {options.model_out, options.best_out, options.checkpoints.folder,
                               options.sample_folder, options.tensorboard_folder});
  }
  needs.existing_bytes = BytesIn(there);
  return needs;
}

absl::Status CheckDiskRoom(const DiskNeeds& needs, const WritePlace& place, const std::string& out,
                           const std::function<void(const std::string& line)>& say) {
  if (place.free_files.has_value() && *place.free_files < needs.model_files) {
    return absl::UnavailableError(
        absl::StrCat("the model could not be saved in ", out, ": it has ", needs.model_files,
                     " files and folders, but the file system of ", place.folder, " takes ",
                     *place.free_files, " more: remove some files, or choose another --out"));
  }
  if (!place.free_bytes.has_value()) return absl::OkStatus();
  const int64_t free = *place.free_bytes + needs.existing_bytes;
  const std::string has =
      absl::StrCat(place.folder, " has ", FormatBytes(*place.free_bytes), " free");
  const int64_t min_bytes = needs.num_models * needs.model_bytes;
  if (min_bytes > free) {
    // Not ResourceExhausted, which programs report as too little memory by an exit code of its own.
    return absl::UnavailableError(absl::StrCat(
        "the model could not be saved in ", out, ": it takes ", FormatBytes(needs.model_bytes),
        needs.num_models == 1 ? ""
                              : absl::StrCat(", and ", needs.num_models,
                                             " must exist at a time, because one is replaced when "
                                             "the next is complete (--save_every=0 saves only at "
                                             "the end)"),
        ", but ", has, ": free some space, or choose another --out"));
  }
  if (needs.total_bytes() > free) {
    say(absl::StrCat("Warning:  the run takes up to ", DescribeDiskNeeds(needs), ", but ", has));
  }
  return absl::OkStatus();
}

std::string DescribeDiskNeeds(const DiskNeeds& needs) {
  std::string text =
      absl::StrCat(FormatBytes(needs.total_bytes()), ": ", Count(needs.num_models, "model"), " of ",
                   FormatBytes(needs.model_bytes), ", ", Count(needs.num_checkpoints, "checkpoint"),
                   " of ", FormatBytes(needs.checkpoint_bytes));
  if (needs.num_grids > 0) {
    absl::StrAppend(&text, ", samples of ", FormatBytes(needs.num_grids * needs.grid_bytes));
  }
  return text;
}

}  // namespace dpipe::tools
