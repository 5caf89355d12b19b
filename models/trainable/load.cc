#include "models/trainable/load.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/text/show.h"
#include "models/cascade/cascade.h"
#include "models/controlnet/trainable.h"
#include "models/flux/flux.h"
#include "models/folder/find_folders.h"
#include "models/folder/model_index.h"
#include "models/sd3/sd3.h"
#include "models/sdxl/sdxl.h"
#include "models/stable_diffusion/stable_diffusion.h"

namespace dpipe::models {

namespace {

std::string KindNames() {
  return absl::StrJoin(ModelKinds(), ", ", [](std::string* out, const ModelKind& kind) {
    absl::StrAppend(out, kind.name);
  });
}

absl::StatusOr<const ModelKind*> KindNamed(const std::string& name) {
  for (const ModelKind& kind : ModelKinds()) {
    if (kind.name == name) return &kind;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("unknown kind of model '", name, "'; there are ", KindNames()));
}

absl::StatusOr<const ModelKind*> KindOfClass(const std::string& class_name,
                                             const std::string& folder) {
  std::vector<std::string> supported;
  for (const ModelKind& kind : ModelKinds()) {
    if (kind.classes[0] == class_name) return &kind;
    supported.push_back(kind.classes[0]);
  }
  return absl::InvalidArgumentError(
      absl::StrCat(folder, "/model_index.json: a ", ShowText(class_name),
                   " is not supported; supported are folders of ", absl::StrJoin(supported, ", ")));
}

// Checks that a folder of the class can be loaded as this kind.
absl::Status CheckClass(const ModelKind& kind, const std::string& class_name,
                        const std::string& folder) {
  if (std::count(kind.classes.begin(), kind.classes.end(), class_name) > 0) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat(folder, "/model_index.json: a ", ShowText(class_name), " is not supported as ",
                   kind.name, ", which takes folders of ", absl::StrJoin(kind.classes, ", ")));
}

}  // namespace

const std::vector<ModelKind>& ModelKinds() {
  static const auto* const kinds =
      new std::vector<ModelKind>({StableDiffusionKind(), StableDiffusionXlKind(), ControlNetKind(),
                                  Sd3Kind(), FluxKind(), CascadeKind()});
  return *kinds;
}

absl::StatusOr<const ModelKind*> FindModelKind(const std::string& folder, const std::string& kind) {
  DPIPE_ASSIGN_OR_RETURN(const ModelIndex index, ReadModelIndex(folder));
  if (kind.empty()) return KindOfClass(index.class_name, folder);
  DPIPE_ASSIGN_OR_RETURN(const ModelKind* named, KindNamed(kind));
  DPIPE_RETURN_IF_ERROR(CheckClass(*named, index.class_name, folder));
  return named;
}

absl::StatusOr<const ModelKind*> FindLatentKind(const std::string& folder, bool with_conditions) {
  DPIPE_ASSIGN_OR_RETURN(const ModelIndex index, ReadModelIndex(folder));
  std::vector<std::string> supported;
  for (const ModelKind& kind : ModelKinds()) {
    if (!kind.is_latent || kind.wants_conditions != with_conditions) continue;
    if (CheckClass(kind, index.class_name, folder).ok()) return &kind;
    supported.insert(supported.end(), kind.classes.begin(), kind.classes.end());
  }
  return absl::InvalidArgumentError(
      absl::StrCat(folder, "/model_index.json: a ", ShowText(index.class_name),
                   " is not supported; supported are ", absl::StrJoin(supported, ", ")));
}

absl::StatusOr<std::unique_ptr<TrainableModel>> LoadTrainableModel(
    const std::string& folder, const LoadModelOptions& options) {
  DPIPE_ASSIGN_OR_RETURN(const ModelKind* kind, FindModelKind(folder, options.kind));
  if (options.lora.rank > 0 && !kind->takes_adapters) {
    std::vector<std::string> others;
    for (const ModelKind& other : ModelKinds()) {
      if (other.takes_adapters) others.push_back(other.name);
    }
    return absl::InvalidArgumentError(absl::StrCat(folder, " is a model of kind ", kind->name,
                                                   "; low-rank adapters can be trained only for ",
                                                   absl::StrJoin(others, ", ")));
  }
  if (kind->check_training) DPIPE_RETURN_IF_ERROR(kind->check_training(folder));
  return kind->load(folder, options);
}

absl::StatusOr<std::string> FindDataFor(const std::string& model_folder, const std::string& kind,
                                        const std::string& data,
                                        const std::function<void(const std::string&)>& report) {
  if (!data.empty()) return FindDataFolder(data, report);
  DPIPE_ASSIGN_OR_RETURN(const ModelKind* found, FindModelKind(model_folder, kind));
  return FindDataFolder(data, report, found->wants_conditions);
}

}  // namespace dpipe::models
