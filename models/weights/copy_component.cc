#include "models/weights/copy_component.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/file.h"
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

}  // namespace

absl::Status CopyComponent(const std::string& from, const std::string& to, bool with_weights) {
  DPIPE_ASSIGN_OR_RETURN(const std::vector<std::string> names, FileNames(from));
  const auto read = WeightFileNames(from);
  DPIPE_RETURN_IF_ERROR(MakeFolder(to));
  for (const std::string& name : names) {
    std::string new_name = name;
    if (IsWeightFile(name)) {
      if (!with_weights) continue;
      if (read.ok() && std::find(read->begin(), read->end(), name) == read->end()) continue;
      if (read.ok() && name == read->front()) new_name = WithoutVariant(name);
    }
    DPIPE_RETURN_IF_ERROR(
        CopyFileAtomically(absl::StrCat(from, "/", name), absl::StrCat(to, "/", new_name)));
  }
  return absl::OkStatus();
}

}  // namespace dpipe::models
