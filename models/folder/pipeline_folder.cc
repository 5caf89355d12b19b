#include "models/folder/pipeline_folder.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/files/file.h"
#include "core/base/text/show.h"
#include "models/weights/weight_files.h"

namespace dpipe::models {
namespace {

namespace fs = std::filesystem;

absl::StatusOr<std::vector<std::string>> FileNames(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    std::error_code ignored;
    if (name[0] != '.' && entry.is_regular_file(ignored)) names.push_back(name);
  }
  if (!error) return names;
  return absl::UnavailableError(absl::StrCat("cannot list ", folder, ": ", error.message()));
}

struct Copy {
  std::string name, new_name;
};

absl::StatusOr<std::vector<Copy>> Copies(const std::string& from, bool with_weights) {
  DPIPE_ASSIGN_OR_RETURN(const std::vector<std::string> names, FileNames(from));
  const auto read = WeightFileNames(from);
  std::vector<Copy> copies;
  for (const std::string& name : names) {
    std::string new_name = name;
    if (IsWeightFile(name)) {
      if (!with_weights) continue;
      if (read.ok() && std::find(read->begin(), read->end(), name) == read->end()) continue;
      if (read.ok() && name == read->front()) new_name = WithoutVariant(name);
    }
    copies.push_back({name, new_name});
  }
  return copies;
}

}  // namespace

absl::Status CopyComponent(const std::string& from, const std::string& to, bool with_weights) {
  DPIPE_ASSIGN_OR_RETURN(const std::vector<Copy> copies, Copies(from, with_weights));
  DPIPE_RETURN_IF_ERROR(MakeFolder(to));
  for (const Copy& copy : copies) {
    DPIPE_RETURN_IF_ERROR(CopyFileAtomically(absl::StrCat(from, "/", copy.name),
                                             absl::StrCat(to, "/", copy.new_name)));
  }
  return absl::OkStatus();
}

absl::StatusOr<ComponentSize> SizeOfCopy(const std::string& from, bool with_weights) {
  DPIPE_ASSIGN_OR_RETURN(const std::vector<Copy> copies, Copies(from, with_weights));
  ComponentSize size;
  for (const Copy& copy : copies) {
    std::error_code error;
    const auto bytes = fs::file_size(absl::StrCat(from, "/", copy.name), error);
    size.bytes += error ? 0 : static_cast<int64_t>(bytes);
    ++size.num_files;
  }
  return size;
}

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
