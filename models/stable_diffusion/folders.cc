#include "models/stable_diffusion/folders.h"

#include "absl/strings/str_cat.h"
#include "core/base/run_paths.h"
#include "data/generator.h"

namespace dpipe::models {

absl::StatusOr<std::string> FindModelFolder(const std::string& model) {
  if (model == "tiny_sd") return std::string("data/tiny_sd");
  const std::string folder = UserPath(model);
  if (model.find('/') == std::string::npos && !IsFolder(folder)) {
    return absl::InvalidArgumentError(
        absl::StrCat("unknown --model=", model, "; it is tiny_sd or a folder in diffusers layout"));
  }
  return folder;
}

absl::StatusOr<std::string> FindDataFolder(const std::string& data,
                                           const std::function<void(const std::string&)>& say) {
  if (!data.empty()) return UserPath(data);
  const std::string folder = OutputPath("out/data/scenes");
  BuiltInDatasetOptions options;
  bool announced = false;
  options.progress = [&](int done, int count) {
    if (announced || done == count) return;
    say(absl::StrCat("Making the built-in data set: ", count, " images in ", folder));
    announced = true;
  };
  DPIPE_RETURN_IF_ERROR(EnsureBuiltInDataset(folder, options));
  return folder;
}

}  // namespace dpipe::models
