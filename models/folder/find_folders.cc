#include "models/folder/find_folders.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "core/base/files/local_path.h"
#include "core/base/files/run_paths.h"
#include "core/base/text/did_you_mean.h"
#include "core/base/text/show.h"
#include "data/scenes/generator.h"

namespace dpipe::models {

const std::vector<std::string>& BuiltInModels() {
  static const auto* const kNames = new std::vector<std::string>{"tiny_sd",
                                                                 "tiny_flux",
                                                                 "stable_diffusion_v1_5",
                                                                 "stable_diffusion_v2_1",
                                                                 "stable_diffusion_v2_1_base",
                                                                 "stable_diffusion_xl",
                                                                 "stable_diffusion_3_5_medium",
                                                                 "stable_diffusion_3_5_large",
                                                                 "flux_1_dev",
                                                                 "tiny_cdm",
                                                                 "cdm_lsun",
                                                                 "cdm_imagenet"};
  return *kNames;
}

bool IsBuiltInModel(const std::string& model) {
  const std::vector<std::string>& names = BuiltInModels();
  return std::find(names.begin(), names.end(), model) != names.end();
}

std::string ModelOfRun(const std::string& folder) {
  const std::string model = absl::StrCat(folder, "/", kModelOfRun);
  std::error_code error;
  const bool is_run = std::filesystem::exists(model, error) &&
                      !std::filesystem::exists(absl::StrCat(folder, "/model_index.json"), error);
  return is_run ? model : folder;
}

absl::StatusOr<std::string> FindModelFolder(const std::string& model) {
  if (model == "tiny_sd" || model == "tiny_flux" || model == "tiny_cdm") {
    return ProgramDataPath(absl::StrCat("data/", model));
  }
  for (const std::string& name : BuiltInModels()) {
    if (model == name) return ProgramDataPath(absl::StrCat("data/models/", name));
  }
  const std::string folder = UserPath(model);
  std::error_code error;  // such as of a name that is too long
  if (model.find('/') == std::string::npos && !std::filesystem::exists(folder, error)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "unknown --model=", ShowText(model),
        "; give a folder in diffusers layout or a built-in name: ", ShowNames(BuiltInModels()),
        " (data/models)", DidYouMean(model, BuiltInModels(), "")));
  }
  DPIPE_RETURN_IF_ERROR(CheckIsLocal("model", model, HubKind::kModel));
  return ModelOfRun(folder);
}

absl::StatusOr<std::string> FindDataFolder(const std::string& data,
                                           const std::function<void(const std::string&)>& report,
                                           bool with_conditions) {
  if (!data.empty()) {
    DPIPE_RETURN_IF_ERROR(CheckIsLocal("data", data, HubKind::kDataset));
    return UserPath(data);
  }
  const std::string folder =
      OutputPath(with_conditions ? "out/data/scenes_with_outlines" : "out/data/scenes");
  BuiltInDatasetOptions options;
  options.with_conditions = with_conditions;
  bool announced = false;
  options.progress = [&](int done, int count) {
    if (announced || done == count) return;
    report(absl::StrCat("Making the built-in data set: ", count, " images in ", folder));
    announced = true;
  };
  DPIPE_RETURN_IF_ERROR(EnsureBuiltInDataset(folder, options));
  return folder;
}

}  // namespace dpipe::models
