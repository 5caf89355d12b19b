#include "tools/sampling/sampling_model.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/text/shell_quote.h"
#include "data/images/image_decode.h"
#include "data/images/image_resize.h"
#include "models/latent/trainable.h"
#include "models/trainable/load.h"
#include "models/weights/weights.h"

namespace dpipe::tools {
namespace {

absl::Status CheckHasControlNet(const std::string& folder) {
  if (models::HasWeights(folder + "/controlnet")) return absl::OkStatus();
  return absl::NotFoundError(
      absl::StrCat("--control: ", folder, " has no ControlNet (controlnet/",
                   models::kDiffusersWeights, "); train one with: ",
                   ShellCommand({"bazel", "run", "//tools:train", "--",
                                 absl::StrCat("--model=", folder), "--model.kind=controlnet"})));
}

// Returns the kind of the folder's models to draw with.
absl::StatusOr<const models::ModelKind*> FindSamplingKind(
    const std::string& folder, const SamplingModelOptions& options,
    const std::function<void(const std::string&)>& say) {
  DPIPE_ASSIGN_OR_RETURN(const models::ModelKind* kind, models::FindModelKind(folder, /*kind=*/""));
  if (options.with_control) {
    DPIPE_RETURN_IF_ERROR(CheckHasControlNet(folder));
    return models::FindLatentKind(folder, /*with_conditions=*/true);
  }
  if (kind->wants_conditions) {
    say(absl::StrCat("Note:     ", folder,
                     " is sampled without its ControlNet; to use it: --control=IMAGE"));
    return models::FindLatentKind(folder, /*with_conditions=*/false);
  }
  if (kind->takes_adapters || options.adapters_file.empty()) return kind;
  return absl::InvalidArgumentError(absl::StrCat("--lora=", options.adapters_file, ": ", folder,
                                                 " is a ", kind->name,
                                                 ", which has no low-rank adapters"));
}

}  // namespace

absl::StatusOr<SamplingModel> LoadSamplingModel(
    const std::string& folder, const SamplingModelOptions& options,
    const std::function<void(const std::string&)>& say) {
  DPIPE_ASSIGN_OR_RETURN(const models::ModelKind* kind, FindSamplingKind(folder, options, say));
  models::LoadModelOptions loading;
  loading.image_size = options.image_size;
  loading.adapters_file = options.adapters_file;
  loading.adapters_scale = options.adapters_scale;
  SamplingModel drawn;
  DPIPE_ASSIGN_OR_RETURN(drawn.model, kind->load(folder, loading));
  if (kind->is_latent) {
    const models::LatentPipeline& pipeline =
        dynamic_cast<const models::TrainableLatentModel&>(*drawn.model).pipeline();
    DPIPE_RETURN_IF_ERROR(pipeline.CheckIsTrained());
    for (const std::string& note : pipeline.notes()) say(absl::StrCat("Note:     ", note));
  }
  drawn.tokenizer = drawn.model->tokenizer();
  DPIPE_ASSIGN_OR_RETURN(drawn.parameters, drawn.model->InitialParameters(
                                               models::TrainableModel::Start::kFolder, /*seed=*/0));
  return drawn;
}

absl::StatusOr<Image> ReadConditionPicture(const std::string& path, int size) {
  DPIPE_ASSIGN_OR_RETURN(Image image, ReadImage(path));
  image = ShrinkToCover(std::move(image), {size, size});
  return CropImage(image, (image.width - size) / 2, (image.height - size) / 2, size, size);
}

}  // namespace dpipe::tools
