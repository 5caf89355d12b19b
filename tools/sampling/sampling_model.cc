#include "tools/sampling/sampling_model.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/text/shell_quote.h"
#include "data/images/image_decode.h"
#include "data/images/image_resize.h"
#include "models/cascade/cascade.h"
#include "models/controlnet/trainable.h"
#include "models/latent/trainable.h"
#include "models/trainable/load.h"
#include "models/weights/weights.h"

namespace dpipe::tools {
namespace {

absl::StatusOr<std::unique_ptr<models::TrainableModel>> LoadCascade(
    const std::string& folder, const SamplingModelOptions& options) {
  if (!options.adapters_file.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--lora=", options.adapters_file, ": ", folder,
                     " is a cascade; only Stable Diffusion supports low-rank adapters"));
  }
  return models::Cascade::Load(folder, {});
}

absl::Status CheckHasControlNet(const std::string& folder) {
  if (models::HasWeights(folder + "/controlnet")) return absl::OkStatus();
  return absl::NotFoundError(
      absl::StrCat("--control: ", folder, " has no ControlNet (controlnet/",
                   models::kDiffusersWeights, "); train one with: ",
                   ShellCommand({"bazel", "run", "//tools:train", "--",
                                 absl::StrCat("--model=", folder), "--model.kind=controlnet"})));
}

absl::Status CheckHasUNet(const std::string& folder) {
  if (models::HasWeights(folder + "/unet")) return absl::OkStatus();
  return absl::NotFoundError(absl::StrCat(folder, " has no trained U-Net (unet/",
                                          models::kDiffusersWeights,
                                          "); train one with: bazel run //tools:train"));
}

void SayNotes(const models::StableDiffusion& model,
              const std::function<void(const std::string&)>& say) {
  for (const std::string& note : model.notes()) say(absl::StrCat("Note:     ", note));
}

}  // namespace

absl::StatusOr<SamplingModel> LoadSamplingModel(
    const std::string& folder, const SamplingModelOptions& options,
    const std::function<void(const std::string&)>& say) {
  DPIPE_ASSIGN_OR_RETURN(const models::ModelKind* kind, models::FindModelKind(folder, /*kind=*/""));
  if (options.with_control) DPIPE_RETURN_IF_ERROR(CheckHasControlNet(folder));
  SamplingModel drawn;
  models::StableDiffusionOptions loading;
  loading.adapters_file = options.adapters_file;
  loading.adapters_scale = options.adapters_scale;
  if (kind->name == "cascade") {
    DPIPE_ASSIGN_OR_RETURN(drawn.model, LoadCascade(folder, options));
  } else if (options.with_control) {
    DPIPE_ASSIGN_OR_RETURN(auto model, models::TrainableControlNet::Load(folder, loading));
    DPIPE_RETURN_IF_ERROR(CheckHasUNet(folder));
    SayNotes(model->stable_diffusion(), say);
    drawn.tokenizer = &model->stable_diffusion().tokenizer();
    drawn.model = std::move(model);
  } else {
    if (kind->wants_conditions) {
      say(absl::StrCat("Note:     ", folder,
                       " is sampled without its ControlNet; to use it: --control=IMAGE"));
    }
    DPIPE_ASSIGN_OR_RETURN(auto model, models::TrainableStableDiffusion::Load(folder, loading));
    DPIPE_RETURN_IF_ERROR(CheckHasUNet(folder));
    SayNotes(model->stable_diffusion(), say);
    drawn.tokenizer = &model->stable_diffusion().tokenizer();
    drawn.model = std::move(model);
  }
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
