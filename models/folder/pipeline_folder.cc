#include "models/folder/pipeline_folder.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/files/file.h"
#include "core/base/text/show.h"
#include "models/folder/copy_component.h"
#include "models/weights/weight_files.h"

namespace dpipe::models {

namespace fs = std::filesystem;

absl::StatusOr<PipelineFolder> PipelineFolder::Open(const std::string& path) {
  DPIPE_ASSIGN_OR_RETURN(ModelIndex index, ReadModelIndex(path));
  return PipelineFolder(path, std::move(index));
}

absl::Status PipelineFolder::CheckClass(const std::vector<std::string>& classes) const {
  if (std::count(classes.begin(), classes.end(), index_.class_name) > 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(path_, "/model_index.json: a ", ShowText(index_.class_name),
                   " is not supported; supported are ", absl::StrJoin(classes, ", ")));
}

absl::Status PipelineFolder::CheckLacks(const std::vector<std::string>& components,
                                        const std::string& supported) const {
  for (const std::string& component : components) {
    if (index_.components.count(component) == 0) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(path_, "/model_index.json: a model with a component '", component,
                     "' is not supported; only ", supported, " is supported"));
  }
  return absl::OkStatus();
}

bool PipelineFolder::HasWeights(const std::string& component) const {
  return models::HasWeights(PathOf(component));
}

absl::Status PipelineFolder::CopyTo(const std::string& folder,
                                    const CopiedComponents& copied) const {
  std::error_code error;
  if (fs::equivalent(folder, path_, error)) {
    return absl::InvalidArgumentError(
        absl::StrCat("refusing to overwrite ", folder, ": the model was loaded from it"));
  }
  DPIPE_RETURN_IF_ERROR(MakeFolder(folder));
  const std::string index_path = path_ + "/model_index.json";
  DPIPE_ASSIGN_OR_RETURN(const std::string text, ReadFile(index_path));
  DPIPE_ASSIGN_OR_RETURN(const ModelIndex index, ParseModelIndex(text, index_path));
  std::set<std::string> names = index.components;
  names.insert(copied.read.begin(), copied.read.end());
  for (const std::string& name : copied.left_out) names.erase(name);
  std::set<std::string> missing;
  for (const std::string& name : names) {
    if (!fs::is_directory(PathOf(name), error)) {
      missing.insert(name);
      continue;
    }
    const bool with_weights = copied.without_weights.count(name) == 0;
    DPIPE_RETURN_IF_ERROR(
        CopyComponent(PathOf(name), absl::StrCat(folder, "/", name), with_weights));
  }
  return WriteFileAtomically(folder + "/model_index.json", WithoutComponents(text, missing));
}

}  // namespace dpipe::models
